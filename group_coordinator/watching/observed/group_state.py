"""What is known of one group as bytes: on disk while it does not find room in memory, and over a restart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.observed.evidence import Place
from group_coordinator.watching.observed.offsets_log import CommitRecord, LogRecord, read_raw
from group_coordinator.watching.observed.transactions import AnyCommits, Fact
from schemas.kafka.record_batches import RawRecord
from schemas.records import NO_LEADER_EPOCH
from schemas.wire import DecodeError

_Fact = TypeVar("_Fact")


class _Group(Struct, Generic[_Fact], frozen=True, kw_only=True):
    """The evidence of one group."""

    group_id: str
    facts: Sequence[_Fact]
    lines: Sequence[BrokerLine]
    whole_from: Place | None = None
    """From where on all of its records are there."""


GroupState = _Group[Fact]


class _Record(Struct, frozen=True, kw_only=True, tag=True):
    """A record that is no commit, as it lies in the log."""

    partition: int
    offset: int
    timestamp_ms: int
    leader_epoch: int | None
    key: bytes
    value: bytes | None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Group[_Record | CommitRecord | AnyCommits]).decode


def encode_group(state: GroupState) -> bytes:
    return _encode(replace(state, facts=[_stored(fact) for fact in state.facts]))


def decode_group(data: bytes) -> GroupState:
    """Return what was encoded. Raises msgspec.DecodeError, DecodeError."""
    group = _decode(data)
    facts = [_restored(fact) for fact in group.facts]
    return GroupState(group_id=group.group_id, facts=facts, lines=group.lines, whole_from=group.whole_from)


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
