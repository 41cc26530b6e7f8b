"""Which commits of a partition count, and since when: transactions and their markers applied.

Offsets that were written in a transaction count at the COMMIT marker of their producer in their partition, and never
after an ABORT marker. Where a plain commit for the same partition lies between the two, it holds: it was written later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

from msgspec import Struct

from group_coordinator.watching.observed.offsets_log import CommitRecord, Entry, LogRecord, TransactionMarker
from schemas.records import OffsetCommitKey


class Commits(Struct, kw_only=True, tag=True):
    """Offsets of one group that were written, committed or aborted in one step."""

    group_id: str
    partition: int
    """This and the three below are those of the offsets topic."""
    offset: int
    """The first record, or the marker, has this offset."""
    timestamp_ms: int
    leader_epoch: int | None
    records: list[CommitRecord]
    producer_id: int | None = None
    """The producer of the transaction."""
    producer_epoch: int = -1

    @classmethod
    def begun_with(cls, record: CommitRecord) -> Self:
        """Return the step of which this is the first record."""
        return cls(
            group_id=record.key.group_id,
            partition=record.partition,
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            leader_epoch=record.leader_epoch,
            records=[record],
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
        )


class PendingCommits(Commits, kw_only=True):
    """Written in a transaction that is open."""


class AbortedCommits(Commits, kw_only=True):
    """These commits were written in a transaction that was aborted."""


Fact = LogRecord | CommitRecord | Commits
"""A record that is no commit, a tombstone of a commit, or commits of one step."""


class OpenTransaction(Struct, frozen=True, kw_only=True):
    """A transaction that has no end in the log."""

    producer_id: int
    since_ms: int
    group_ids: tuple[str, ...]
    offsets: int
    """How many offsets wait for its end."""


class PartitionState(Struct, frozen=True, kw_only=True):
    """What is known of a partition's transactions."""

    open: dict[int, tuple[int, list[CommitRecord]]]
    """By producer id: since when, and what was written."""
    written_at: list[tuple[OffsetCommitKey, int]]


class _Open(Struct):
    """What a producer wrote in its open transaction."""

    since_ms: int
    records: dict[OffsetCommitKey, CommitRecord] = {}
    """The last of each key, in the order of the first."""


class PartitionCommits:
    """One partition of the offsets topic, followed record by record in the order of offsets."""

    def __init__(self) -> None:
        self._open: dict[int, _Open] = {}
        """By producer id."""
        self._written_at: dict[OffsetCommitKey, int] = {}
        """Where the record lies whose offset counts, of what was written while a transaction was open."""

    def take(self, entry: Entry) -> Iterator[LogRecord | CommitRecord | Commits]:
        """Take a record. Yield a plain record as it is, and the commits that a marker ends together."""
        if isinstance(entry, CommitRecord):
            self._note(entry)
            yield entry
        elif isinstance(entry, TransactionMarker):
            yield from self._ended(entry)
        else:
            yield entry

    def open_transactions(self) -> Iterator[OpenTransaction]:
        """Yield the transactions that have no end yet."""
        for producer_id, transaction in self._open.items():
            yield OpenTransaction(
                producer_id=producer_id,
                since_ms=transaction.since_ms,
                group_ids=tuple(dict.fromkeys(key.group_id for key in transaction.records)),
                offsets=len(transaction.records),
            )

    def state(self) -> PartitionState:
        """Return what is to be kept over a restart."""
        return PartitionState(
            open={
                producer_id: (transaction.since_ms, list(transaction.records.values()))
                for producer_id, transaction in self._open.items()
            },
            written_at=list(self._written_at.items()),
        )

    def restore(self, state: PartitionState) -> None:
        """Go on from what was kept."""
        for producer_id, (since_ms, records) in state.open.items():
            self._open[producer_id] = _Open(since_ms, {record.key: record for record in records})
        self._written_at = dict(state.written_at)

    def _note(self, record: CommitRecord) -> None:
        if record.value is not None and record.producer_id is not None:
            transaction = self._open.get(record.producer_id)
            if transaction is None:
                transaction = self._open[record.producer_id] = _Open(record.timestamp_ms)
            transaction.records[record.key] = record
        elif self._open:
            if record.value is None:
                self._written_at.pop(record.key, None)
            else:
                self._written_at[record.key] = record.offset

    def _ended(self, marker: TransactionMarker) -> Iterator[Commits]:
        transaction = self._open.pop(marker.producer_id, None)
        by_group: dict[str, list[CommitRecord]] = {}
        for key, record in () if transaction is None else transaction.records.items():
            if marker.outcome == "ABORT" or self._written_at.get(key, -1) < record.offset:
                by_group.setdefault(key.group_id, []).append(record)
        kind = Commits if marker.outcome == "COMMIT" else AbortedCommits
        for group_id, records in by_group.items():
            if marker.outcome == "COMMIT":
                self._written_at.update({record.key: record.offset for record in records})
            yield kind(
                group_id=group_id,
                partition=marker.partition,
                offset=marker.offset,
                timestamp_ms=marker.timestamp_ms,
                leader_epoch=None,
                records=records,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
            )
        if not self._open:
            self._written_at.clear()
