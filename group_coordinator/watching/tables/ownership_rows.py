"""The rows of who owns which partition since when, and of whom the target assignment gives it to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.watching.tables.rows import Member, Ownership, OwnershipEnd, Target
from schemas.history import AssignedTopic, HistoryRecord, MemberAssignment


class Held(Struct, array_like=True, frozen=True):
    """Since when a partition is owned, and by which record."""

    seq: int
    from_ms: int
    generation_id: int


ByMember = dict[str, dict[str, dict[int, Held]]]
"""Member id -> topic -> partition."""


R = TypeVar("R", bound=Ownership | Target)


class OwnershipRows(Generic[R]):
    """Who has which partition in one life of a group, or shall have it. `on_change` gets every row that begins or ends.

    `members` must still have a member when what it had ends.
    """

    def __init__(
        self, kind: type[R], held: ByMember, members: Mapping[str, Member], on_change: Callable[[R], None]
    ) -> None:
        """`kind`: `Ownership`, or `Target`, whose rows do not say how they ended."""
        self._kind = kind
        self.held = held
        self._members = members
        self._on_change = on_change

    def rows(self, group_id: str, epoch: int) -> Iterator[R]:
        """Yield the rows that have not ended."""
        for member_id, topics in self.held.items():
            for topic, partitions in topics.items():
                for partition, held in partitions.items():
                    yield self._row(group_id, epoch, member_id, topic, partition, held)

    def assign(
        self, record: HistoryRecord, assignments: Sequence[MemberAssignment], at_ms: int, rebalance: int | None = None
    ) -> int | None:
        """Put the assignment into force. Returns how many partitions it has; None if it cannot be read."""
        before = dict(self.held)
        self.held.clear()
        count, is_readable = 0, bool(assignments)
        for assignment in assignments:
            is_readable = is_readable and assignment.topics is not None
            had_by_topic = before.get(assignment.member_id, {})
            for topic in assignment.topics or ():
                count += len(topic.partitions)
                had_of_topic = had_by_topic.get(topic.topic, {})
                for partition in topic.partitions:
                    # What goes on is taken out of `before`; what remains there has ended.
                    held = had_of_topic.pop(partition, None)
                    self._hold(record, assignment.member_id, topic.topic, partition, at_ms, held)
        for member_id, topics in before.items():
            self._end(record, member_id, topics, "revoked", at_ms, rebalance)
        return count if is_readable else None

    def assign_member(
        self,
        record: HistoryRecord,
        member_id: str,
        topics: tuple[AssignedTopic, ...],
        at_ms: int,
        rebalance: int | None,
    ) -> None:
        """Make these partitions the member's from now on; others keep theirs."""
        before = self.held.pop(member_id, {})
        for topic in topics:
            had_of_topic = before.get(topic.topic, {})
            for partition in topic.partitions:
                self._hold(record, member_id, topic.topic, partition, at_ms, had_of_topic.pop(partition, None))
        self._end(record, member_id, before, "revoked", at_ms, rebalance)

    def release(
        self, record: HistoryRecord, member_id: str, ended_by: OwnershipEnd, at_ms: int, rebalance: int | None = None
    ) -> None:
        """End all rows of the member."""
        self._end(record, member_id, self.held.pop(member_id, {}), ended_by, at_ms, rebalance)

    def release_all(self, record: HistoryRecord, ended_by: OwnershipEnd, at_ms: int) -> None:
        """End the rows of all members."""
        for member_id in list(self.held):
            self.release(record, member_id, ended_by, at_ms)

    def hand_over(self, record: HistoryRecord, old_member_id: str, member_id: str, at_ms: int) -> None:
        """Pass what a static member has under its old id to its new id. A target stays the one that it was."""
        topics = self.held.pop(old_member_id, {})
        self._end(record, old_member_id, topics, "replaced", at_ms, None)
        for topic, partitions in topics.items():
            for partition, held in partitions.items():
                generation_id = held.generation_id if self._kind is Target else record.generation_id
                self._begin(record, member_id, topic, partition, Held(record.seq, at_ms, generation_id))

    def forget(self, group_id: str, epoch: int, at_ms: int) -> None:
        """End all rows as unknown: the history goes on with another epoch of the group."""
        for row in self.rows(group_id, epoch):
            self._on_change(_ended(row, "unknown", at_ms, None, None))
        self.held.clear()

    # -------------------------------------------------------------------------------------------------------- inside

    def _hold(
        self, record: HistoryRecord, member_id: str, topic: str, partition: int, at_ms: int, previous: Held | None
    ) -> None:
        """Begin a row, or let the previous one go on."""
        if previous is None:
            self._begin(record, member_id, topic, partition, Held(record.seq, at_ms, record.generation_id))
        else:
            self.held.setdefault(member_id, {}).setdefault(topic, {})[partition] = previous

    def _begin(self, record: HistoryRecord, member_id: str, topic: str, partition: int, held: Held) -> None:
        self.held.setdefault(member_id, {}).setdefault(topic, {})[partition] = held
        self._on_change(self._row(record.group_id, record.epoch, member_id, topic, partition, held))

    def _end(
        self,
        record: HistoryRecord,
        member_id: str,
        topics: dict[str, dict[int, Held]],
        ended_by: OwnershipEnd,
        at_ms: int,
        rebalance: int | None,
    ) -> None:
        for topic, partitions in topics.items():
            for partition, held in partitions.items():
                row = self._row(record.group_id, record.epoch, member_id, topic, partition, held)
                self._on_change(_ended(row, ended_by, at_ms, record.seq, rebalance))

    def _row(self, group_id: str, epoch: int, member_id: str, topic: str, partition: int, held: Held) -> R:
        """Return a row that has not ended."""
        member = self._members.get(member_id)
        began_in: Any = {"assignment_epoch" if self._kind is Target else "generation_id": held.generation_id}
        return self._kind(
            group_id=group_id,
            epoch=epoch,
            seq=held.seq,
            topic=topic,
            partition=partition,
            member_id=member_id,
            group_instance_id=member.group_instance_id if member is not None else None,
            client_id=member.client_id if member is not None else None,
            client_host=member.client_host if member is not None else None,
            from_ms=held.from_ms,
            last_seq=held.seq,
            **began_in,
        )


def _ended(row: R, ended_by: OwnershipEnd, at_ms: int, end_seq: int | None, rebalance: int | None) -> R:
    why: Any = {"ended_by": ended_by, "end_rebalance": rebalance} if isinstance(row, Ownership) else {}
    return replace(
        row,
        to_ms=at_ms,
        duration_ms=at_ms - row.from_ms,
        end_seq=end_seq,
        last_seq=row.seq + 1 if end_seq is None else end_seq,
        **why,
    )
