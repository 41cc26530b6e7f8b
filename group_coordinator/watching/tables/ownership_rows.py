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
        self, kind: type[R], held: ByMember, members: Mapping[str, Member], on_change: Callable[[R], None], at_ms: int
    ) -> None:
        """`kind`: `Ownership`, or `Target`, whose rows do not say how they ended. `at_ms`: the moment of all that is
        noted."""
        self._kind = kind
        self.held = held
        self._members = members
        self._on_change = on_change
        self._at_ms = at_ms

    def rows(self, group_id: str, epoch: int) -> Iterator[R]:
        """Yield the rows that have not ended."""
        for member_id, topics in self.held.items():
            for topic, partitions in topics.items():
                for partition, held in partitions.items():
                    yield self._row(group_id, epoch, member_id, topic, partition, held)

    def assign(
        self, record: HistoryRecord, assignments: Sequence[MemberAssignment], rebalance: int | None = None
    ) -> int | None:
        """Put the assignment into force. Returns how many partitions it has; None if it cannot be read."""
        before = dict(self.held)
        self.held.clear()
        for share in assignments:
            self._hold(record, share.member_id, share.topics or (), before.get(share.member_id, {}))
        for member_id, topics in before.items():
            self._end(record, member_id, topics, "revoked", rebalance)
        if not assignments or any(share.topics is None for share in assignments):
            return None
        return sum(len(topic.partitions) for share in assignments for topic in share.topics or ())

    def assign_member(
        self, record: HistoryRecord, member_id: str, topics: tuple[AssignedTopic, ...], rebalance: int | None
    ) -> None:
        """Make these partitions the member's from now on; others keep theirs."""
        before = self.held.pop(member_id, {})
        self._hold(record, member_id, topics, before)
        self._end(record, member_id, before, "revoked", rebalance)

    def release(
        self, record: HistoryRecord, member_id: str, ended_by: OwnershipEnd, rebalance: int | None = None
    ) -> None:
        """End all rows of the member."""
        self._end(record, member_id, self.held.pop(member_id, {}), ended_by, rebalance)

    def release_all(self, record: HistoryRecord, ended_by: OwnershipEnd) -> None:
        """End the rows of all members."""
        for member_id in list(self.held):
            self.release(record, member_id, ended_by)

    def hand_over(self, record: HistoryRecord, old_member_id: str, member_id: str) -> None:
        """Pass what a static member has under its old id to its new id. A target stays the one that it was."""
        topics = self.held.pop(old_member_id, {})
        self._end(record, old_member_id, topics, "replaced", None)
        for topic, partitions in topics.items():
            for partition, held in partitions.items():
                generation_id = held.generation_id if self._kind is Target else record.generation_id
                self._begin(record, member_id, topic, partition, generation_id)

    def forget(self, group_id: str, epoch: int) -> None:
        """End all rows as unknown: the history goes on with another epoch of the group."""
        for row in self.rows(group_id, epoch):
            self._on_change(_ended(row, "unknown", self._at_ms, None, None))
        self.held.clear()

    # -------------------------------------------------------------------------------------------------------- inside

    def _hold(
        self, record: HistoryRecord, member_id: str, topics: tuple[AssignedTopic, ...], had: dict[str, dict[int, Held]]
    ) -> None:
        """Begin the rows of these partitions. What goes on is taken out of `had`; what remains there has ended."""
        for topic in topics:
            had_of_topic = had.get(topic.topic, {})
            for partition in topic.partitions:
                held = had_of_topic.pop(partition, None)
                if held is None:
                    self._begin(record, member_id, topic.topic, partition, record.generation_id)
                else:
                    self.held.setdefault(member_id, {}).setdefault(topic.topic, {})[partition] = held

    def _begin(self, record: HistoryRecord, member_id: str, topic: str, partition: int, generation_id: int) -> None:
        held = Held(record.seq, self._at_ms, generation_id)
        self.held.setdefault(member_id, {}).setdefault(topic, {})[partition] = held
        self._on_change(self._row(record.group_id, record.epoch, member_id, topic, partition, held))

    def _end(
        self,
        record: HistoryRecord,
        member_id: str,
        topics: dict[str, dict[int, Held]],
        ended_by: OwnershipEnd,
        rebalance: int | None,
    ) -> None:
        for topic, partitions in topics.items():
            for partition, held in partitions.items():
                row = self._row(record.group_id, record.epoch, member_id, topic, partition, held)
                self._on_change(_ended(row, ended_by, self._at_ms, record.seq, rebalance))

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
