"""An output as a producer's record."""

from __future__ import annotations

from typing import NamedTuple

NO_PARTITION = -1
"""The sink chooses a partition by the key. A number, not a null: pandas would make the column one of floats."""


class OutputRecord(NamedTuple):
    """One producer record."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: dict[str, str]

    @property
    def size_bytes(self) -> int:
        """The most that Kafka's producer counts for this record (`AbstractRecords.estimateSizeInBytesUpperBound`)."""
        headers = sum(10 + len(name) + len(text.encode()) for name, text in self.headers.items())
        return 100 + len(self.key or b"") + len(self.value or b"") + headers
