"""Which commits of a partition count, and since when: transactions and their markers applied.

Offsets that were written in a transaction count at the COMMIT marker of their producer in their partition, and never
after an ABORT marker. Where a plain commit for the same partition lies between the two, it holds: it was written later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from group_coordinator.observed.offsets_log import Entry, LogRecord, TransactionMarker

_OFFSET_COMMIT = "OffsetCommit"

Place = tuple[str, str, int]
"""Group, topic and partition of a committed offset."""


class Commits(Struct, frozen=True, kw_only=True, gc=False):
    """Offsets of one group that were written, committed or aborted in one step."""

    group_id: str
    partition: int
    """Of the offsets topic, as the three below."""
    offset: int
    """Of the first record, or of the marker."""
    timestamp_ms: int
    leader_epoch: int | None
    records: tuple[LogRecord, ...]
    producer_id: int | None = None
    """Of the transaction."""
    producer_epoch: int = -1


class PendingCommits(Commits, frozen=True, kw_only=True, gc=False):
    """Written in a transaction that is open."""


class AbortedCommits(Commits, frozen=True, kw_only=True, gc=False):
    """Of a transaction that was aborted."""


Fact = LogRecord | Commits
"""A record that is no commit, or commits of one step. A tombstone of a commit is a record."""


class OpenTransaction(Struct, frozen=True, kw_only=True):
    """A transaction that has no end in the log."""

    producer_id: int
    since_ms: int
    group_ids: tuple[str, ...]
    offsets: int
    """How many offsets wait for its end."""


class PartitionCommits:
    """One partition of the offsets topic, followed record by record in the order of offsets."""

    def __init__(self) -> None:
        self._open: dict[int, list[LogRecord]] = {}
        """Producer id -> what it wrote in its open transaction."""
        self._written_at: dict[Place, int] = {}
        """Where the record lies whose offset counts."""

    def facts(self, entries: Iterable[Entry]) -> Iterator[Fact]:
        """What the records say, in order. Commits that were written in one step come together."""
        together: list[LogRecord] = []
        for entry in entries:
            if together and not _continues(together[-1], entry):
                yield from self._written(together)
                together = []
            if isinstance(entry, TransactionMarker):
                yield from self._ended(entry)
            elif entry.name == _OFFSET_COMMIT and entry.value is not None:
                together.append(entry)
            else:
                if entry.name == _OFFSET_COMMIT:
                    self._written_at.pop(_place(entry), None)
                yield entry
        if together:
            yield from self._written(together)

    def open_transactions(self) -> Iterator[OpenTransaction]:
        """Those that have no end yet."""
        for producer_id, records in self._open.items():
            yield OpenTransaction(
                producer_id=producer_id,
                since_ms=records[0].timestamp_ms,
                group_ids=tuple(dict.fromkeys(record.group_id for record in records)),
                offsets=len({_place(record) for record in records}),
            )

    def _written(self, records: list[LogRecord]) -> Iterator[Commits]:
        first = records[0]
        kind = Commits if first.producer_id is None else PendingCommits
        if first.producer_id is None:
            for record in records:
                self._written_at[_place(record)] = record.offset
        else:
            self._open.setdefault(first.producer_id, []).extend(records)
        yield kind(
            group_id=first.group_id,
            partition=first.partition,
            offset=first.offset,
            timestamp_ms=first.timestamp_ms,
            leader_epoch=first.leader_epoch,
            records=tuple(records),
            producer_id=first.producer_id,
            producer_epoch=first.producer_epoch,
        )

    def _ended(self, marker: TransactionMarker) -> Iterator[Commits]:
        by_group: dict[str, list[LogRecord]] = {}
        for record in self._open.pop(marker.producer_id, ()):
            if marker.outcome == "ABORT" or self._written_at.get(_place(record), -1) < record.offset:
                by_group.setdefault(record.group_id, []).append(record)
        kind = Commits if marker.outcome == "COMMIT" else AbortedCommits
        for group_id, records in by_group.items():
            last = {_place(record): record for record in records}
            if marker.outcome == "COMMIT":
                self._written_at.update({place: record.offset for place, record in last.items()})
            yield kind(
                group_id=group_id,
                partition=marker.partition,
                offset=marker.offset,
                timestamp_ms=marker.timestamp_ms,
                leader_epoch=None,
                records=tuple(last.values()),
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
            )


def _place(record: LogRecord) -> Place:
    return record.group_id, str(record.key["topic"]), int(str(record.key["partition"]))


def _continues(before: LogRecord, entry: Entry) -> bool:
    """Whether a record was written in the same step as the one before it, as far as the topic tells."""
    return (
        isinstance(entry, LogRecord)
        and entry.name == _OFFSET_COMMIT
        and entry.value is not None
        and (entry.group_id, entry.timestamp_ms, entry.producer_id)
        == (before.group_id, before.timestamp_ms, before.producer_id)
        and entry.offset == before.offset + 1
    )
