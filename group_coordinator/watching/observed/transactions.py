"""Which commits of a partition count, and since when: transactions and their markers applied.

Offsets that were written in a transaction count at the COMMIT marker of their producer in their partition, and never
after an ABORT marker. Where a plain commit for the same partition lies between the two, it holds: it was written later.
Where a tombstone lies between them, nothing counts. Source: Kafka's `OffsetMetadataManager.replay` and
`replayEndTransactionMarker` (4.3).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, Protocol, Self, TypeVar

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


class ReplacedCommits(Commits, kw_only=True):
    """The transaction of these commits was committed, but later ones had replaced them."""


AnyCommits = Commits | PendingCommits | AbortedCommits | ReplacedCommits
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


class _Written(Protocol):
    """A record of the offsets topic, whatever form its key and value have."""

    @property
    def value(self) -> object | None: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp_ms(self) -> int: ...
    @property
    def producer_id(self) -> int | None: ...


_Key = TypeVar("_Key", bound=Hashable)
_Record = TypeVar("_Record", bound=_Written)


class Open(Struct, Generic[_Key, _Record]):
    """What a producer wrote in its open transaction."""

    since_ms: int
    records: dict[_Key, _Record] = {}
    """The last of each key, in the order of the first."""


class OpenTransactions(Generic[_Key, _Record]):
    """The open transactions of one partition of the offsets topic, by its records in the order of offsets."""

    def __init__(self) -> None:
        self.by_producer: dict[int, Open[_Key, _Record]] = {}
        self.written_at: dict[_Key, int] = {}
        """Where the record lies whose offset counts, of what was written while a transaction was open."""

    def wait(self, key: _Key, record: _Record) -> bool:
        """Take a record. Return whether it counts only when its transaction is committed."""
        if record.value is not None and record.producer_id is not None:
            transaction = self.by_producer.get(record.producer_id)
            if transaction is None:
                transaction = self.by_producer[record.producer_id] = Open(record.timestamp_ms)
            transaction.records[key] = record
            return True
        if record.value is not None:
            if self.by_producer:
                self.written_at[key] = record.offset
            return False
        self.written_at.pop(key, None)
        for transaction in self.by_producer.values():
            transaction.records.pop(key, None)
        return False

    def end(self, producer_id: int, *, committed: bool) -> tuple[list[_Record], list[_Record]]:
        """End a producer's transaction. Return the records that count from now on (of an aborted one, all of it), and
        those that later ones had replaced."""
        transaction = self.by_producer.pop(producer_id, None)
        records = {} if transaction is None else transaction.records
        replaced = []
        if committed:
            replaced = [one for key, one in records.items() if self.written_at.get(key, -1) > one.offset]
            records = {key: one for key, one in records.items() if self.written_at.get(key, -1) < one.offset}
            self.written_at.update((key, record.offset) for key, record in records.items())
        if not self.by_producer:
            self.written_at.clear()
        return list(records.values()), replaced


class PartitionCommits:
    """One partition of the offsets topic, followed record by record in the order of offsets."""

    def __init__(self) -> None:
        self._transactions = OpenTransactions[OffsetCommitKey, CommitRecord]()

    def take(self, entry: Entry) -> Iterator[LogRecord | CommitRecord | Commits]:
        """Take a record. Yield a plain record as it is, and the commits that a marker ends together."""
        if isinstance(entry, TransactionMarker):
            yield from self._ended(entry)
            return
        if isinstance(entry, CommitRecord):
            self._transactions.wait(entry.key, entry)
        yield entry

    def open_transactions(self) -> Iterator[OpenTransaction]:
        """Yield the transactions that have no end yet."""
        for producer_id, transaction in self._transactions.by_producer.items():
            if transaction.records:
                yield OpenTransaction(
                    producer_id=producer_id,
                    since_ms=transaction.since_ms,
                    group_ids=tuple(dict.fromkeys(record.group_id for record in transaction.records.values())),
                    offsets=len(transaction.records),
                )

    def state(self) -> PartitionState:
        """Return what is to be kept over a restart."""
        return PartitionState(
            open={
                producer_id: (transaction.since_ms, list(transaction.records.values()))
                for producer_id, transaction in self._transactions.by_producer.items()
            },
            written_at=list(self._transactions.written_at.items()),
        )

    def restore(self, state: PartitionState) -> None:
        """Go on from what was kept."""
        for producer_id, (since_ms, records) in state.open.items():
            self._transactions.by_producer[producer_id] = Open(since_ms, {record.key: record for record in records})
        self._transactions.written_at.update(state.written_at)

    def _ended(self, marker: TransactionMarker) -> Iterator[Commits]:
        is_committed = marker.outcome == "COMMIT"
        ended, replaced = self._transactions.end(marker.producer_id, committed=is_committed)
        for kind, records in ((Commits if is_committed else AbortedCommits, ended), (ReplacedCommits, replaced)):
            by_group: dict[str, list[CommitRecord]] = {}
            for record in records:
                by_group.setdefault(record.group_id, []).append(record)
            for group_id, of_group in by_group.items():
                yield kind(
                    group_id=group_id,
                    partition=marker.partition,
                    offset=marker.offset,
                    timestamp_ms=marker.timestamp_ms,
                    leader_epoch=None,
                    records=of_group,
                    producer_id=marker.producer_id,
                    producer_epoch=marker.producer_epoch,
                )
