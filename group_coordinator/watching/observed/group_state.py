"""What is known of one group as bytes: on disk while it does not find room in memory, and over a restart."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from group_coordinator.watching.broker_logs.broker_lines import AnyLineEvent, BrokerLine
from group_coordinator.watching.observed.evidence import Place
from group_coordinator.watching.observed.offsets_log import CommitRecord, LogRecord, read_raw
from group_coordinator.watching.observed.transactions import AnyCommits, Fact
from schemas.kafka.record_batches import RawRecord
from schemas.records import NO_LEADER_EPOCH
from schemas.wire import DecodeError


class GroupState(Struct, frozen=True, kw_only=True):
    """The evidence of one group."""

    group_id: str
    facts: Sequence[Fact]
    lines: Sequence[BrokerLine]
    whole_from: Place | None
    """From where on all of its records are there."""


class _Record(Struct, frozen=True, kw_only=True, tag=True):
    """A record that is no commit, as it lies in the log."""

    partition: int
    offset: int
    timestamp_ms: int
    leader_epoch: int | None
    key: bytes
    value: bytes | None


class _Line(Struct, frozen=True, kw_only=True):
    time_ms: int
    broker: int | None
    partition: int | None
    file: str
    number: int
    event: AnyLineEvent


class _Group(Struct, frozen=True, kw_only=True):
    group_id: str
    facts: list[_Record | CommitRecord | AnyCommits]
    lines: list[_Line]
    whole_from: tuple[int, int] | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Group).decode


def encode_group(state: GroupState) -> bytes:
    return _encode(
        _Group(
            group_id=state.group_id,
            facts=[_stored(fact) for fact in state.facts],
            lines=[_stored_line(line) for line in state.lines],
            whole_from=state.whole_from,
        )
    )


def decode_group(data: bytes) -> GroupState:
    """Return what was encoded. Raises msgspec.DecodeError, DecodeError."""
    group = _decode(data)
    return GroupState(
        group_id=group.group_id,
        facts=[_restored(fact) for fact in group.facts],
        lines=[_restored_line(line) for line in group.lines],
        whole_from=group.whole_from,
    )


def _stored(fact: Fact) -> _Record | CommitRecord | AnyCommits:
    if not isinstance(fact, LogRecord):
        return fact
    return _Record(
        partition=fact.partition,
        offset=fact.offset,
        timestamp_ms=fact.timestamp_ms,
        leader_epoch=fact.leader_epoch,
        key=fact.raw[0],
        value=fact.raw[1],
    )


def _restored(fact: _Record | Fact) -> Fact:
    if not isinstance(fact, _Record):
        return fact
    leader_epoch = NO_LEADER_EPOCH if fact.leader_epoch is None else fact.leader_epoch
    record = read_raw(fact.partition, RawRecord(fact.offset, fact.timestamp_ms, leader_epoch, fact.key, fact.value))
    if not isinstance(record, LogRecord):
        raise DecodeError("a record of another type", 0)
    return record


def _stored_line(line: BrokerLine) -> _Line:
    return _Line(
        time_ms=line.time_ms,
        broker=line.broker,
        partition=line.partition,
        file=line.file,
        number=line.number,
        event=line.event,  # type: ignore[arg-type]  # every LineEvent is one of them
    )


def _restored_line(line: _Line) -> BrokerLine:
    return BrokerLine(
        time_ms=line.time_ms,
        broker=line.broker,
        partition=line.partition,
        file=line.file,
        number=line.number,
        event=line.event,
    )
