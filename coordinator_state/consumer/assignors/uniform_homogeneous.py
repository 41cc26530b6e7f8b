"""The assignor `uniform` for members that all subscribe to the same topics.

Every member gets the same number of partitions, or one more, and keeps what it has as far as that allows.

Source: `UniformHomogeneousAssignmentBuilder` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator_state.consumer.assignors.contract import AssignorError, AssignorGroup, AssignorMember
from coordinator_state.consumer.assignors.java_order import partition_order, set_capacity, target_map_order
from coordinator_state.consumer.assignors.mutable_target import MutableTarget
from coordinator_state.consumer.member import TargetAssignment
from schemas.java_hash import HASH_MAP_CAPACITY

FreePartitions = list[tuple[str, Sequence[int]]]
"""Runs of partitions that nobody has, in the order in which they are given away."""


def assign_homogeneous(group: AssignorGroup) -> dict[str, TargetAssignment]:
    """Return the assignment of a group in which the first member's topics are everyone's."""
    members = group.members
    topic_ids = members[0].subscribed_topic_ids if members else ()
    if not topic_ids:
        return {member.member_id: () for member in members}
    partition_counts = {topic_id: group.topics[topic_id].partition_count for topic_id in topic_ids}
    return _HomogeneousAssignment(members, partition_counts).assign()


class _HomogeneousAssignment:
    """One assignment while it is made."""

    def __init__(self, members: tuple[AssignorMember, ...], partition_counts: dict[str, int]) -> None:
        self._members = members
        self._partition_counts = partition_counts
        self._free = _free_partitions(members, partition_counts)
        self._assignment: dict[str, TargetAssignment] = {}
        self._changed: dict[str, MutableTarget] = {}
        """Copies of the targets that are not kept as they are."""

    def assign(self) -> dict[str, TargetAssignment]:
        unfilled = self._keep_what_fits()
        self._fill(unfilled)
        for member_id, target in self._changed.items():
            self._assignment[member_id] = target.in_record_order()
        return self._assignment

    def _keep_what_fits(self) -> list[tuple[AssignorMember, int]]:
        """Take from each member what it has too much. Return those that get more, with the number of partitions."""
        members_left = len(self._members)
        quota_of_all, extras_left = divmod(sum(self._partition_counts.values()), members_left)
        subscribed = self._partition_counts
        unfilled = []
        for member in self._members:
            may_have_extra = extras_left > 0
            quota = quota_of_all + may_have_extra
            target = member.target
            held = 0
            for topic_id, partitions in target:
                if topic_id not in subscribed:
                    held = quota + 1
                    break
                held += len(partitions)
            self._assignment[member.member_id] = target
            missing = quota - held if held <= quota else self._shrink(member, quota)
            if missing > 0 and may_have_extra and members_left > extras_left:
                # One of the members behind may have the extra partition already.
                missing -= 1
                may_have_extra = False
            if missing > 0:
                unfilled.append((member, missing))
            if may_have_extra:
                extras_left -= 1
            members_left -= 1
        return unfilled

    def _shrink(self, member: AssignorMember, quota: int) -> int:
        """Take a member's topics that it does not subscribe to any more, and what is beyond its quota.

        Return how much it lacks then.
        """
        changed: MutableTarget | None = None
        for topic_id, partitions in target_map_order(member.target):
            if topic_id not in self._partition_counts:
                changed = changed or MutableTarget(member.target)
                changed.drop_topic(topic_id)
            elif len(partitions) <= quota:
                quota -= len(partitions)
            else:
                changed = changed or MutableTarget(member.target)
                lost = partition_order(partitions, set_capacity(len(partitions)))[quota:]
                changed.remove(topic_id, lost)
                self._free.append((topic_id, lost))
                quota = 0
        if changed is not None:
            self._changed[member.member_id] = changed
        return quota

    def _fill(self, unfilled: list[tuple[AssignorMember, int]]) -> None:
        """Give away the free partitions, in their order. Raises `AssignorError` if they are not as many as are missing.

        They are, unless a target has partitions that do not exist.
        """
        runs = iter(self._free)
        topic_id, run = next(runs, ("", ()))
        taken = 0
        for member, missing in unfilled:
            changed = self._changed.get(member.member_id)
            if changed is None:
                changed = self._changed[member.member_id] = MutableTarget(member.target)
            while missing:
                if taken == len(run):
                    topic_id, run = next(runs, ("", ()))
                    taken = 0
                    if not run:
                        raise AssignorError("there are too few partitions")
                given = run[taken : taken + missing]
                changed.add(topic_id, given, HASH_MAP_CAPACITY)
                taken += len(given)
                missing -= len(given)
        if taken < len(run) or next(runs, None) is not None:
            raise AssignorError("partitions are left over")


def _free_partitions(members: tuple[AssignorMember, ...], partition_counts: dict[str, int]) -> FreePartitions:
    """Return what is in nobody's target: topics in their order, partitions ascending."""
    assigned: dict[str, list[int]] = {topic_id: [] for topic_id in partition_counts}
    for member in members:
        for topic_id, partitions in member.target:
            if topic_id in assigned:
                assigned[topic_id] += partitions
    return list(_runs(assigned, partition_counts))


def _runs(assigned: dict[str, list[int]], partition_counts: dict[str, int]) -> Iterator[tuple[str, Sequence[int]]]:
    for topic_id, count in partition_counts.items():
        taken = frozenset(assigned[topic_id])
        if not taken:
            if count:
                yield topic_id, range(count)
        elif len(taken) < count:
            yield topic_id, [partition for partition in range(count) if partition not in taken]
