"""The events topic: partitions of records, each with its offset."""

from __future__ import annotations

from typing import NamedTuple

from schemas.events import EventError
from schemas.ticks import read_tick


class Record(NamedTuple):
    """A record of the events topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    time_ms: int
    """When it was appended: the broker's clock, which gives the timestamp, may be wrong."""


def tick_of(record: Record, ahead_max_ms: int) -> int | None:
    """Return the clock that a record sets; None if it is no valid tick."""
    if record.key is not None:
        return None
    try:
        return read_tick(record.value, record.timestamp_ms, ahead_max_ms)
    except EventError:
        return None


def ticks_of(records: list[Record], ahead_max_ms: int) -> list[tuple[int, int]]:
    """Return the append time and the clock of each valid tick."""
    ticks = ((record.time_ms, tick_of(record, ahead_max_ms)) for record in records)
    return [(time_ms, tick_ms) for time_ms, tick_ms in ticks if tick_ms is not None]


class Log:
    """Append-only partitions."""

    def __init__(self, partition_count: int) -> None:
        self.partitions: list[list[Record]] = [[] for _ in range(partition_count)]

    def append(
        self, partition: int, timestamp_ms: int, key: bytes | None, value: bytes | None, time_ms: int | None = None
    ) -> Record:
        """Append a record. `time_ms` replaces the append time where the broker's clock is wrong."""
        time_ms = timestamp_ms if time_ms is None else time_ms
        record = Record(len(self.partitions[partition]), timestamp_ms, key, value, time_ms)
        self.partitions[partition].append(record)
        return record

    @property
    def requests(self) -> int:
        """The number of records that are no ticks."""
        return sum(record.key is not None for records in self.partitions for record in records)
