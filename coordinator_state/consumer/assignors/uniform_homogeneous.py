"""The assignor `uniform` for members that all subscribe to the same topics.

Every member gets the same number of partitions, or one more, and keeps what it has as far as that allows.

Source: `UniformHomogeneousAssignmentBuilder` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain

from coordinator_state.consumer.assignors.contract import AssignorError, AssignorGroup, AssignorMember
from coordinator_state.consumer.assignors.java_order import (
    grown_capacity,
    partition_order,
    partition_slice_order,
    set_capacity,
    target_map_order,
)
from coordinator_state.consumer.assignors.mutable_target import MutableTarget
from coordinator_state.consumer.member import TargetAssignment
from schemas.java_hash import HASH_MAP_CAPACITY

FreePartitions = list[tuple[str, Sequence[int]]]
"""Runs of partitions that nobody has, in the order in which they are given away."""

_NOTHING: tuple[str, Sequence[int]] = ("", [])
_EVERYTHING = 1 << 40
"""More than any quota."""


def assign_homogeneous(group: AssignorGroup) -> dict[str, TargetAssignment]:
    """Return the assignment of a group in which the first member's topics are everyone's."""
    members = group.members
    topic_ids = members[0].subscribed_topic_ids if members else ()
    if not topic_ids:
        return {member.member_id: () for member in members}
    partition_counts = {topic_id: group.topics[topic_id].partition_count for topic_id in topic_ids}
    return _HomogeneousAssignment(members, partition_counts, group.saves_extras).assign()


class _HomogeneousAssignment:
    """One assignment while it is made."""

    def __init__(
        self, members: tuple[AssignorMember, ...], partition_counts: dict[str, int], saves_extras: bool
    ) -> None:
        self._saves_extras = saves_extras
        self._members = members
        self._partition_counts = partition_counts
        self._taken: dict[str, list[int]] = {topic_id: [] for topic_id in partition_counts}
        """What is in somebody's target."""
        self._lost: FreePartitions = []
        """What members had too much."""
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
        assignment, taken_of = self._assignment, self._taken.get
        unfilled = []
        for member in self._members:
            may_have_extra = extras_left > 0
            quota = missing = quota_of_all + may_have_extra
            assignment[member.member_id] = target = member.target
            for topic_id, partitions in target:
                taken = taken_of(topic_id)
                if taken is None:
                    missing = -_EVERYTHING
                else:
                    taken += partitions
                    missing -= len(partitions)
            if missing < 0:
                missing = self._shrink(member, quota)
            if missing and may_have_extra and members_left > extras_left and self._saves_extras:
                # One of the members behind may have the extra partition already.
                missing -= 1
                may_have_extra = False
            if missing:
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
                lost = list(partition_order(partitions, set_capacity(len(partitions))))[quota:]
                changed.remove(topic_id, lost)
                self._lost.append((topic_id, lost))
                quota = 0
        if changed is not None:
            self._changed[member.member_id] = changed
        return quota

    def _fill(self, unfilled: list[tuple[AssignorMember, int]]) -> None:
        """Give away what nobody has: first what was in nobody's target. Raises `AssignorError` if it is too little or
        too much.

        It is neither, unless a target has partitions that do not exist.
        """
        assignment = self._assignment
        runs = chain(self._never_assigned(), self._lost)
        slices: dict[tuple[int, int], tuple[int, ...]] = {}  # topics of one size are cut in the same places
        topic_id, run = next(runs, _NOTHING)
        taken, left = 0, len(run)
        for member, missing in unfilled:
            if missing <= left and not member.target and type(run) is tuple:
                # The usual case of a first assignment; what follows comes to the same.
                after = taken + missing
                partitions = slices.get((taken, after))
                if partitions is None:
                    partitions = partition_slice_order(run, taken, after, _new_set_capacity(missing))
                    slices[taken, after] = partitions
                assignment[member.member_id] = ((topic_id, partitions),)
                taken = after
                left -= missing
                continue
            changed = self._changed.get(member.member_id)
            if changed is None:
                changed = self._changed[member.member_id] = MutableTarget(member.target)
            while missing:
                if not left:
                    topic_id, run = next(runs, _NOTHING)
                    taken, left = 0, len(run)
                    if not run:
                        raise AssignorError("there are too few partitions")
                given = run[taken : taken + missing]
                changed.add(topic_id, given, HASH_MAP_CAPACITY)
                taken += len(given)
                left -= len(given)
                missing -= len(given)
        if left or next(runs, None) is not None:
            raise AssignorError("partitions are left over")

    def _never_assigned(self) -> Iterator[tuple[str, Sequence[int]]]:
        """Yield what is in nobody's target: topics in their order, partitions ascending.

        All partitions of a topic are a tuple, some of them a list.
        """
        for topic_id, count in self._partition_counts.items():
            taken = self._taken[topic_id]
            if not taken:
                if count:
                    yield topic_id, tuple(range(count))
            elif len(taken) < count:
                present = frozenset(taken)
                yield topic_id, [partition for partition in range(count) if partition not in present]


@cache
def _new_set_capacity(count: int) -> int:
    """Return the buckets of a set to which so many partitions are added."""
    return grown_capacity(HASH_MAP_CAPACITY, count)
