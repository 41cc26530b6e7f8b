"""Records of a real `__consumer_offsets`, as a dump has them (`watching.observed.offsets_log`)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from group_coordinator.watching.broker_logs.text_files import Damage
from group_coordinator.watching.observed.offsets_log import (
    CommitRecord,
    LeftOut,
    LogRecord,
    OffsetsDump,
    TransactionMarker,
    UnknownRecord,
    read_raw,
)
from group_coordinator.watching.observed.transactions import OpenTransactions
from schemas.kafka.record_batches import RawRecord
from schemas.records import NO_LEADER_EPOCH

_OTHER_KINDS = ("Share", "Streams")
_VALUE_VERSION_BYTES = 2


class LoggedRecord(Struct, frozen=True, kw_only=True):
    """One record of the broker's log, about a group."""

    partition: int
    offset: int
    timestamp_ms: int
    group_id: str
    key: bytes
    value: bytes | None
    producer_id: int | None = None
    """Of a record that was written in a transaction."""

    def decoded(self) -> LogRecord | CommitRecord:
        """Decode key and value."""
        raw = RawRecord(self.offset, self.timestamp_ms, NO_LEADER_EPOCH, self.key, self.value)
        entry = read_raw(self.partition, raw)
        assert isinstance(entry, LogRecord | CommitRecord)
        return entry


class NotCompared(LeftOut, frozen=True):
    """A record that cannot be compared."""

    what: str
    """What it is, behind "N records of the offsets log"."""


class OffsetsLog(Struct):
    """The records of a dump of `__consumer_offsets` that can be compared, and counts of the others."""

    by_group: dict[str, list[LoggedRecord]] = field(default_factory=dict)
    """The records by group, in the order of their offsets, whatever the order of the lines. What was written in a
    transaction lies at the marker by which it was committed; what was not committed is not there."""
    markers: list[TransactionMarker] = field(default_factory=list)
    """The ends of transactions, by partition and offset."""
    left_out: dict[str, int] = field(default_factory=dict)
    """What cannot be compared -> how many records."""
    damage: Damage = field(default_factory=Damage)
    cluster_id: str | None = None
    """None: the dump does not name its cluster."""
    compacted_until_ms: dict[int, int] = field(default_factory=dict)
    """Of each partition that was compacted: until when it has not all records."""

    def add(self, record: LoggedRecord) -> None:
        """Take the next record of a group."""
        self.by_group.setdefault(record.group_id, []).append(record)

    def doubts(self) -> Iterator[str]:
        """Yield the doubts about this dump, in sentences."""
        for kind, count in self.left_out.items():
            yield f"{count:,} records of the offsets log {kind}: they are not compared."
        if self.damage.lines:
            yield f"{self.damage.lines} lines of the offsets log cannot be read and are left out: {self.damage}."


def read_offsets_log(path: Path) -> OffsetsLog:
    """Read a dump, plain or gzip. Raises ValueError for a gzip file that breaks off, OSError."""
    dump = OffsetsDump[LoggedRecord | TransactionMarker]()
    dump.read_file(path, read_offsets_record)
    left_out = {kind.what: count for kind, count in dump.left_out.items() if isinstance(kind, NotCompared)}
    left_out["come again"] = dump.repeated
    left_out["lie where another record lies: several logs are mixed"] = dump.contradicted
    log = OffsetsLog(left_out={kind: count for kind, count in left_out.items() if count}, damage=dump.damage)
    log.cluster_id = next(iter(dump.clusters), None)
    partitions: dict[int, OpenTransactions[bytes, LoggedRecord]] = {}
    for entry in dump.entries():
        transactions = partitions.setdefault(entry.partition, OpenTransactions())
        if isinstance(entry, TransactionMarker):
            log.markers.append(entry)
            ended, _ = transactions.end(entry.producer_id, committed=entry.outcome == "COMMIT")
            for record in sorted(ended, key=_place) if entry.outcome == "COMMIT" else ():
                log.add(replace(record, offset=entry.offset, timestamp_ms=entry.timestamp_ms))
        elif not transactions.wait(entry.key, entry):
            log.add(entry)
    log.compacted_until_ms = _compacted_until_ms(dump)
    return log


def _compacted_until_ms(dump: OffsetsDump[LoggedRecord | TransactionMarker]) -> dict[int, int]:
    """Return until when partitions were compacted: offsets are missing between their records, and before the last such
    place no key comes twice. Where one does, or a single offset is missing, a line of the dump is."""
    offsets: dict[int, list[int]] = {}
    for partition, offset in sorted(dump.places):
        offsets.setdefault(partition, []).append(offset)
    whole_from: dict[int, int] = {}
    for partition, of_partition in offsets.items():
        steps = pairwise([-1, *of_partition])
        holes = [(after, after - before - 1) for before, after in steps if after > before + 1]
        if sum(size for _, size in holes) > 1:
            whole_from[partition] = holes[-1][0]
    until_ms: dict[int, int] = {}
    keys: set[tuple[int, bytes]] = set()
    for entry in dump.entries():
        if isinstance(entry, TransactionMarker) or entry.partition not in whole_from:
            continue
        if entry.offset >= whole_from[entry.partition]:
            until_ms.setdefault(entry.partition, entry.timestamp_ms)
        elif (entry.partition, entry.key) in keys:
            del whole_from[entry.partition]
        else:
            keys.add((entry.partition, entry.key))
    return {partition: ms for partition, ms in until_ms.items() if partition in whole_from}


def _place(record: LoggedRecord) -> tuple[str, int]:
    entry = record.decoded()
    assert isinstance(entry, CommitRecord)
    return entry.key.topic, entry.key.partition


def read_offsets_record(partition: int, raw: RawRecord) -> LoggedRecord | TransactionMarker | NotCompared:
    """Return a record of the log of classic and consumer groups. Raises `DecodeError`."""
    entry, is_told = read_raw(partition, raw), raw.producer_id >= 0
    if isinstance(entry, TransactionMarker):
        return entry if is_told else NotCompared("are markers of transactions whose producers are not told")
    if isinstance(entry, UnknownRecord):
        return NotCompared(f"are of type {entry.type}, a kind of group that is not decided here")
    if isinstance(entry, LogRecord):
        kind = entry.name.partition("Group")[0]
        if kind in _OTHER_KINDS:
            return NotCompared(f"are of {kind.lower()} groups, which are not decided here")
        if entry.name == "ConsumerGroupPartitionMetadata" and entry.value is not None:
            return NotCompared("tell the topics of consumer groups, which Kafka 4.0 alone writes")
    if raw.is_transactional and not (is_told and isinstance(entry, CommitRecord)):
        return NotCompared("were written in transactions of producers that are not told")
    return LoggedRecord(
        partition=partition,
        offset=raw.offset,
        timestamp_ms=raw.timestamp_ms,
        group_id=entry.group_id,
        key=raw.key or b"",
        value=raw.value,
        producer_id=raw.producer_id if raw.is_transactional else None,
    )


def value_version(value: bytes) -> int:
    return int.from_bytes(value[:_VALUE_VERSION_BYTES])


def topic_ids_of(records: list[LoggedRecord]) -> dict[str, str]:
    """Return the topics' ids by name, from the values of version 4."""
    entries = (record.decoded() for record in records)
    return {
        entry.key.topic: entry.value.topic_id
        for entry in entries
        if isinstance(entry, CommitRecord) and entry.value is not None and entry.value.topic_id is not None
    }
