"""Records of `__consumer_offsets` of every type, as a dump of the topic has them, one JSON object a line.

    {"partition":7,"offset":0,"timestamp_ms":1795265220047,"key":"AAIABWNyYXNo","value":null,"leader_epoch":0}

Records of transactions also have `producer_id`, `producer_epoch` and `is_transactional`; markers have `control`, which
is COMMIT or ABORT.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeGuard, TypeVar

import msgspec
from msgspec import Struct, field

from group_coordinator.watching.broker_logs.text_files import Damage, read_lines
from schemas.commit_reading import read_commit_key, read_commit_value
from schemas.kafka.record_batches import RawRecord
from schemas.kafka.records import decode_record
from schemas.records import OFFSET_COMMIT_TYPE, OffsetCommitKey, OffsetCommitValue
from schemas.wire import DecodeError

OFFSETS_TOPIC = "__consumer_offsets"
_COMMIT_TYPES = tuple(number.to_bytes(2) for number in range(OFFSET_COMMIT_TYPE + 1))

_MARKER_EPOCH = slice(2, 6)
"""This part of a marker's value is the epoch of the transaction coordinator, behind the version."""

Marker = Literal["COMMIT", "ABORT"]
_MARKER_KEYS: dict[bytes | None, str] = {b"\x00\x00\x00\x00": "ABORT", b"\x00\x00\x00\x01": "COMMIT"}
"""Version and type, each of two bytes; no key of a group is so short."""


class LogRecord(Struct, frozen=True, kw_only=True, gc=False):
    """One record of the offsets topic that is no commit, decoded."""

    partition: int
    offset: int
    timestamp_ms: int
    leader_epoch: int | None
    group_id: str
    name: str
    """The name of its type: `GroupMetadata` and the like."""
    key: dict[str, Any]
    value: dict[str, Any] | None
    """None for a tombstone."""
    raw: tuple[bytes, bytes | None]
    """Key and value as they lie in the log."""


GROUP_METADATA = "GroupMetadata"
"""The name of the records of classic groups."""


def is_of_classic_group(item: object) -> TypeGuard[LogRecord]:
    """Return whether something is the record of a classic group, or its tombstone."""
    return isinstance(item, LogRecord) and item.name == GROUP_METADATA


def deletes_classic_group(item: object) -> bool:
    """Return whether something is the tombstone of a classic group's record."""
    return is_of_classic_group(item) and item.value is None


class CommitRecord(Struct, frozen=True, kw_only=True, gc=False, tag=True):
    """A committed offset of one partition. There are very many of them."""

    partition: int
    """This and the next three are those of the offsets topic."""
    offset: int
    timestamp_ms: int
    leader_epoch: int | None
    key: OffsetCommitKey
    value: OffsetCommitValue | None
    """None for a tombstone."""
    producer_id: int | None = None
    """The producer whose transaction it was written in; None: in none."""
    producer_epoch: int = -1

    @property
    def group_id(self) -> str:
        return self.key.group_id


class TransactionMarker(Struct, frozen=True, kw_only=True, gc=False):
    """The end of a producer's transaction in one partition."""

    partition: int
    offset: int
    timestamp_ms: int
    producer_id: int
    producer_epoch: int
    outcome: Marker


Entry = LogRecord | CommitRecord | TransactionMarker


class LeftOut(Struct, frozen=True):
    """A record that is counted alone. Which ones are, a reader of dumps says."""


class UnknownRecord(LeftOut, frozen=True):
    """A record of a type that Kafka did not have when this was written."""

    type: int


class _Line(Struct, omit_defaults=True):
    partition: int
    offset: int
    timestamp_ms: int
    key: str | None
    value: str | None
    leader_epoch: int | None = None
    producer_id: int | None = -1
    producer_epoch: int = -1
    is_transactional: bool = False
    control: str | bool | None = None
    coordinator_epoch: int | None = None
    """The transaction coordinator that wrote a marker had this epoch."""
    cluster_id: str | None = None
    """In the first line: that of the cluster."""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


def unknown_types_doubts(counts: Mapping[int, int]) -> Iterator[str]:
    """Yield a sentence about records of types that Kafka did not have when this was written; a few types are named."""
    if not counts:
        return
    named = sorted(counts)[:_TYPES_NAMED]
    more = f" and {len(counts) - len(named):,} others" if len(counts) > len(named) else ""
    types = f"type {named[0]}, which is" if len(counts) == 1 else f"types {', '.join(map(str, named))}{more}, which are"
    yield f"{sum(counts.values()):,} records are of {types} not known: they are left out."


_TYPES_NAMED = 5


class _Placed(Protocol):
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...


_Read = TypeVar("_Read", bound=_Placed)


class OffsetsDump(Struct, Generic[_Read]):
    """What a dump holds, whatever the order of its lines."""

    places: dict[tuple[int, int], _Read] = field(default_factory=dict)
    """The records by partition and offset."""
    left_out: dict[LeftOut, int] = field(default_factory=dict)
    """What is counted alone -> how many records."""
    repeated: int = 0
    """Lines that came again."""
    clusters: dict[str, Path] = field(default_factory=dict)
    """The ids of the clusters that lines name, each with the first file that does."""
    contradicted: int = 0
    """Lines that lie where another record lies: dumps of several clusters are mixed."""
    damage: Damage = field(default_factory=Damage)

    def read_file(self, path: Path, read: Callable[[int, RawRecord], _Read | LeftOut]) -> None:
        """Read a dump, plain or gzip. `read` gets the partition and the record of a line.

        Raises ValueError for a gzip file that breaks off, OSError.
        """

        def read_line(line: bytes) -> _Read | LeftOut:
            decoded = _decode(line)
            if decoded.cluster_id is not None:
                self.clusters.setdefault(decoded.cluster_id, path)
            return read(*_raw(decoded))

        for record in read_lines(path, read_line, self.damage):
            self.add(record)

    def add(self, read: _Read | LeftOut) -> None:
        """Take what a line says."""
        if isinstance(read, LeftOut):
            self.left_out[read] = self.left_out.get(read, 0) + 1
            return
        before = self.places.setdefault((read.partition, read.offset), read)
        if before is not read:
            self.repeated += before == read
            self.contradicted += before != read

    def entries(self) -> list[_Read]:
        """Return the records by partition and offset."""
        return [self.places[place] for place in sorted(self.places)]

    def doubts(self) -> Iterator[str]:
        """Yield the doubts about this dump, in sentences."""
        yield from unknown_types_doubts(
            {unknown.type: count for unknown, count in self.left_out.items() if isinstance(unknown, UnknownRecord)}
        )
        if self.contradicted:
            yield f"{self.contradicted:,} records lie where another one lies: dumps of several clusters are mixed."
        if self.damage.lines:
            yield f"{self.damage.lines:,} lines cannot be read and are left out: {self.damage}."


class FetchedRecords:
    """Records as a broker gives them: it decodes them, and counts those that are left out."""

    def __init__(self) -> None:
        self._unknown: dict[int, int] = {}
        self._damaged = 0

    def entries(self, partition: int, records: Iterable[RawRecord]) -> Iterator[Entry]:
        """Yield what records of one partition say."""
        for record in records:
            try:
                entry = read_raw(partition, record)
            except (DecodeError, ValueError):
                self._damaged += 1
                continue
            if isinstance(entry, UnknownRecord):
                self._unknown[entry.type] = self._unknown.get(entry.type, 0) + 1
            else:
                yield entry

    def doubts(self) -> Iterator[str]:
        """Yield sentences about what was left out."""
        yield from unknown_types_doubts(self._unknown)
        if self._damaged:
            yield f"{self._damaged:,} records of the offsets topic cannot be read: they are left out."


def raw_line(line: bytes) -> tuple[int, RawRecord]:
    """Return the partition and the record of a line of a dump. Raises msgspec.DecodeError, ValueError."""
    return _raw(_decode(line))


def _raw(read: _Line) -> tuple[int, RawRecord]:
    key = None if read.key is None else b64decode(read.key, validate=True)
    return read.partition, RawRecord(
        offset=read.offset,
        timestamp_ms=read.timestamp_ms,
        leader_epoch=-1 if read.leader_epoch is None else read.leader_epoch,
        key=key,
        value=None if read.value is None else b64decode(read.value, validate=True),
        producer_id=-1 if read.producer_id is None else read.producer_id,
        producer_epoch=read.producer_epoch,
        is_transactional=read.is_transactional,
        control=_outcome(read.control, key),
    )


def _outcome(control: str | bool | None, key: bytes | None) -> str | None:
    """What a marker says of a transaction; its key says it where the line does not. None for other records."""
    if control in ("COMMIT", "ABORT"):
        return str(control)
    if control and key not in _MARKER_KEYS:
        raise ValueError(f"a control record that is neither COMMIT nor ABORT: {control}")
    return _MARKER_KEYS.get(key)


def dump_line(partition: int, raw: RawRecord, cluster_id: str | None = None) -> bytes:
    """Return the line of a dump for a record, without the end of the line. The first one names the cluster."""
    is_marker = raw.control is not None and raw.value is not None
    return _encode(
        _Line(
            partition=partition,
            offset=raw.offset,
            timestamp_ms=raw.timestamp_ms,
            key=None if raw.key is None else b64encode(raw.key).decode(),
            value=None if raw.value is None else b64encode(raw.value).decode(),
            leader_epoch=raw.leader_epoch,
            producer_id=raw.producer_id,
            producer_epoch=raw.producer_epoch,
            is_transactional=raw.is_transactional,
            control=raw.control,
            cluster_id=cluster_id,
            coordinator_epoch=int.from_bytes((raw.value or b"")[_MARKER_EPOCH], signed=True) if is_marker else None,
        )
    )


def read_raw(partition: int, raw: RawRecord) -> Entry | UnknownRecord:
    """Decode a record of the log. Raises `DecodeError`."""
    if raw.control is not None:
        return TransactionMarker(
            partition=partition,
            offset=raw.offset,
            timestamp_ms=raw.timestamp_ms,
            producer_id=raw.producer_id,
            producer_epoch=raw.producer_epoch,
            outcome="COMMIT" if raw.control == "COMMIT" else "ABORT",
        )
    key, value, leader_epoch = raw.key or b"", raw.value, raw.leader_epoch if raw.leader_epoch >= 0 else None
    commit_key = read_commit_key(key) if key[:2] in _COMMIT_TYPES else None
    if commit_key is not None:
        return CommitRecord(
            partition=partition,
            offset=raw.offset,
            timestamp_ms=raw.timestamp_ms,
            leader_epoch=leader_epoch,
            key=commit_key,
            value=None if value is None else read_commit_value(value),
            producer_id=raw.producer_id if raw.is_transactional else None,
            producer_epoch=raw.producer_epoch if raw.is_transactional else -1,
        )
    record = decode_record(key, value)
    if isinstance(record, int):
        return UnknownRecord(record)
    return LogRecord(
        partition=partition,
        offset=raw.offset,
        timestamp_ms=raw.timestamp_ms,
        leader_epoch=leader_epoch,
        group_id=str(record.key["group"] if "group" in record.key else record.key["group_id"]),
        name=record.name,
        key=record.key,
        value=record.value,
        raw=(key, value),
    )
