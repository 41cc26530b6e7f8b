"""The broker's records of one group in the offsets log, taken one after the other as they come out of a replay."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from coordinator_state import LogRecord
from group_coordinator.proving.recordings.consumer_records import describe_record, has_no_order, same_record
from group_coordinator.proving.recordings.expectations import NOTHING, Disagreement, record_disagreement
from group_coordinator.proving.recordings.offsets_log import LoggedRecord
from group_coordinator.proving.recordings.old_brokers import is_unwritten
from schemas.wire import INT16

RESYNC_ENTRIES = 6
"""How far ahead the broker's side is searched when it has something that is missing here."""


class RecordCursor:
    """A place in the broker's records."""

    def __init__(self, records: Sequence[LoggedRecord] | None, next_: int, taken: Sequence[int]) -> None:
        """`records` is None where nothing is to be compared."""
        self._records = records
        self.next = next_
        self.taken = set(taken)
        """Records beyond the next one that came out already: an old broker writes those of one commit in any order."""

    def compare(
        self, record: LogRecord, slack_ms: int, at_us: int, *, is_of_old_broker: bool, before: bytes | None
    ) -> Disagreement | None:
        """Compare a record with the broker's next one. `before`: the last record of the group itself."""
        records, number = self._records, self.next
        if records is None:
            return None
        broker_record = records[number] if number < len(records) else None
        disagreement = record_disagreement(record, broker_record, number, slack_ms, at_us)
        if disagreement is None:
            self._go_on(1)
            return None
        if is_of_old_broker and is_unwritten(record.key, record.value, before):
            return None
        is_unordered = is_of_old_broker or has_no_order(record.key, record.value)
        if is_unordered and self._take_of_same_commit(record, records, slack_ms):
            return None
        ahead = records[number + 1 : number + RESYNC_ENTRIES]
        matching = (
            place for place, entry in enumerate(ahead, 1) if record_disagreement(record, entry, 0, slack_ms, 0) is None
        )
        self._go_on(next(matching, 0) + 1)
        return disagreement

    def overdue(self, before_ms: int, at_us: int, step: int) -> Iterator[Disagreement]:
        """Pass over the broker's records from before a time: they did not come out. `step`: the last one."""
        records = self._records or ()
        while self.next < len(records) and records[self.next].timestamp_ms < before_ms:
            broker_record = records[self.next]
            yield Disagreement(
                kind="record",
                about=f"record:{self.next}",
                at_us=at_us,
                where=f"record {broker_record.offset} of partition {broker_record.partition}",
                broker=describe_record(broker_record.key, broker_record.value),
                here=NOTHING,
                step=step,
            )
            self._go_on(1)

    def _take_of_same_commit(self, record: LogRecord, records: Sequence[LoggedRecord], slack_ms: int) -> bool:
        """Find the record among those that the broker wrote with the next one. (Consumer groups: of one type.)"""
        for place in range(self.next + 1, len(records)):
            broker_record = records[place]
            if broker_record.timestamp_ms != records[self.next].timestamp_ms:
                return False
            if has_no_order(record.key, record.value) and not _are_alike(broker_record, record):
                return False
            if place not in self.taken and same_record(record.key, record.value, broker_record, slack_ms):
                self.taken.add(place)
                return True
        return False

    def _go_on(self, count: int) -> None:
        self.next += count
        while self.next in self.taken:
            self.taken.discard(self.next)
            self.next += 1


def _are_alike(broker_record: LoggedRecord, record: LogRecord) -> bool:
    """Return whether two records are of one type, and both of something that is, or both of something that is gone."""
    same_type = broker_record.key[: INT16.size] == record.key[: INT16.size]
    return same_type and (broker_record.value is None) == (record.value is None)
