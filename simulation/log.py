"""The events topic: partitions of records, each with its offset."""

from __future__ import annotations

from typing import NamedTuple


class Record(NamedTuple):
    """A record of the events topic."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


class Log:
    """Append-only partitions."""

    def __init__(self, partition_count: int) -> None:
        self.partitions: list[list[Record]] = [[] for _ in range(partition_count)]

    def append(self, partition: int, timestamp_ms: int, key: bytes | None, value: bytes | None) -> Record:
        record = Record(len(self.partitions[partition]), timestamp_ms, key, value)
        self.partitions[partition].append(record)
        return record

    @property
    def requests(self) -> int:
        """How many records are no ticks."""
        return sum(record.key is not None for records in self.partitions for record in records)
