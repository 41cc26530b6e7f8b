"""Assignors of others are not trusted: what they answer is checked before it becomes a target assignment."""

from __future__ import annotations

from coordinator_state.consumer.assignors.contract import (
    AssignorError,
    AssignorGroup,
    AssignorMember,
    GroupAssignment,
    ServerAssignor,
)


class CheckedAssignor:
    """An assignor of another package: whatever it does wrong is an `AssignorError` that names it."""

    def __init__(self, assignor: ServerAssignor) -> None:
        self.name = assignor.name
        self._assignor = assignor

    def assign(self, group: AssignorGroup) -> GroupAssignment:
        """Return its assignment. Raises `AssignorError`."""
        try:
            assignment = self._assignor.assign(group)
            check_assignment(group, assignment)
        except Exception as error:  # another package's code
            raise AssignorError(f"assignor {self.name!r}: {type(error).__name__}: {error}") from error
        return assignment


def check_assignment(group: AssignorGroup, assignment: GroupAssignment) -> None:
    """Check that each partition exists, is given once, and goes to a member that subscribes to its topic.

    Kafka does not check: two owners of a partition would show as a broken state long after. Raises `AssignorError`.
    """
    members = {member.member_id: member for member in group.members}
    taken: dict[str, set[int]] = {}
    for member_id, target in assignment.items():
        member = members.get(member_id)
        if member is None:
            raise AssignorError(f"partitions are given to {member_id!r}, which is no member of the group")
        if len({topic_id for topic_id, _ in target}) < len(target):
            raise AssignorError(f"{member_id!r} is given a topic twice")
        for topic_id, partitions in target:
            _check_topic(group, member, topic_id)
            _check_partitions(group, topic_id, partitions, taken.setdefault(topic_id, set()))


def _check_topic(group: AssignorGroup, member: AssignorMember, topic_id: str) -> None:
    if topic_id not in group.topics:
        raise AssignorError(f"{member.member_id!r} is given topic {topic_id!r}, which does not exist")
    if topic_id not in member.subscribed_topic_ids:
        raise AssignorError(f"{member.member_id!r} is given topic {topic_id!r}, to which it does not subscribe")


def _check_partitions(group: AssignorGroup, topic_id: str, partitions: tuple[int, ...], taken: set[int]) -> None:
    if not partitions:
        raise AssignorError(f"topic {topic_id!r} is given without partitions")
    partition_count = group.topics[topic_id].partition_count
    for partition in partitions:
        if not 0 <= partition < partition_count:
            raise AssignorError(f"topic {topic_id!r} has no partition {partition}")
        if partition in taken:
            raise AssignorError(f"partition {partition} of topic {topic_id!r} is given twice")
        taken.add(partition)
