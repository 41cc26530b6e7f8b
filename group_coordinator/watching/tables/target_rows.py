"""The rows of what the target assignments of a consumer group give to whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from group_coordinator.watching.tables.ownership_rows import Held, HeldRows
from group_coordinator.watching.tables.rows import Target
from schemas.history import HistoryRecord, MemberAssignment


class TargetRows(HeldRows[Target]):
    """The target that is in force."""

    def compute(self, record: HistoryRecord, assignments: Sequence[MemberAssignment], at_ms: int) -> None:
        """Put another target in the place of the one before; what both give to the same member goes on."""
        before = dict(self.held)
        self.held.clear()
        for share in assignments:
            had_by_topic = before.get(share.member_id, {})
            for topic in share.topics or ():
                had = had_by_topic.get(topic.topic, {})
                for partition in topic.partitions:
                    self._hold(record, share.member_id, topic.topic, partition, at_ms, had.pop(partition, None))
        for member_id, topics in before.items():
            self._end(record, member_id, topics, at_ms)

    def withdraw(self, record: HistoryRecord, member_id: str, at_ms: int) -> None:
        """End what a member shall own."""
        self._end(record, member_id, self.held.pop(member_id, {}), at_ms)

    def withdraw_all(self, record: HistoryRecord, at_ms: int) -> None:
        """End the target: the group is empty, classic, or gone."""
        for member_id in list(self.held):
            self.withdraw(record, member_id, at_ms)

    def forget(self, group_id: str, epoch: int, at_ms: int) -> None:
        """End all rows: the history goes on with another epoch of the group."""
        for row in self.rows(group_id, epoch):
            self._on_change(replace(row, to_ms=at_ms, duration_ms=at_ms - row.from_ms, last_seq=row.seq + 1))
        self.held.clear()

    def hand_over(self, record: HistoryRecord, old_member_id: str, member_id: str, at_ms: int) -> None:
        """Pass what a static member shall own under its old id to its new id: the target stays the one that it was."""
        topics = self.held.pop(old_member_id, {})
        self._end(record, old_member_id, topics, at_ms)
        for topic, partitions in topics.items():
            for partition, held in partitions.items():
                self._begin(record, member_id, topic, partition, Held(record.seq, at_ms, held.generation_id))

    def _end(
        self, record: HistoryRecord, member_id: str, topics: Mapping[str, Mapping[int, Held]], at_ms: int
    ) -> None:
        for topic, partitions in topics.items():
            for partition, held in partitions.items():
                row = self._row(record.group_id, record.epoch, member_id, topic, partition, held)
                self._on_change(
                    replace(row, to_ms=at_ms, duration_ms=at_ms - row.from_ms, end_seq=record.seq, last_seq=record.seq)
                )

    def _row(self, group_id: str, epoch: int, member_id: str, topic: str, partition: int, held: Held) -> Target:
        member = self._members.get(member_id)
        return Target(
            group_id=group_id,
            epoch=epoch,
            seq=held.seq,
            topic=topic,
            partition=partition,
            member_id=member_id,
            group_instance_id=member.group_instance_id if member is not None else None,
            client_id=member.client_id if member is not None else None,
            client_host=member.client_host if member is not None else None,
            assignment_epoch=held.generation_id,
            from_ms=held.from_ms,
            last_seq=held.seq,
        )
