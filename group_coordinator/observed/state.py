"""What an observer keeps, as bytes, so that it goes on after a restart where it was."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from group_coordinator.observed.observer import Observer
from group_coordinator.observed.offsets_log import CommitRecord, LogRecord, read_record
from group_coordinator.observed.transactions import AbortedCommits, Commits, Fact, PartitionState, PendingCommits
from group_coordinator.recordings.broker_lines import AnyLineEvent, BrokerLine
from schemas.wire import DecodeError

_FORMAT = 1


class StateError(ValueError):
    """The bytes are no state that this version reads. The message is a sentence."""


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
    facts: list[_Record | CommitRecord | Commits | PendingCommits | AbortedCommits]
    lines: list[_Line]
    whole_from: tuple[int, int] | None = None


class _State(Struct, frozen=True, kw_only=True):
    format: int
    cluster_id: str
    partitions: list[tuple[int, int, PartitionState]]
    groups: list[_Group]


class _Head(Struct):
    format: int


_encode = msgspec.msgpack.Encoder().encode


def encode_state(observer: Observer, cluster_id: str) -> bytes:
    """Encode all that the observer keeps."""
    groups = [
        _Group(
            group_id=group_id,
            facts=[_stored(fact) for fact in facts],
            lines=[_stored_line(line) for line in lines],
            whole_from=whole_from,
        )
        for group_id, facts, lines, whole_from in observer.evidence()
    ]
    partitions = list(observer.partitions())
    return _encode(_State(format=_FORMAT, cluster_id=cluster_id, partitions=partitions, groups=groups))


def restore_state(observer: Observer, data: bytes, cluster_id: str) -> None:
    """Give an observer that knows nothing yet what another one kept. Raises StateError, and then it knows nothing."""
    try:
        written = msgspec.msgpack.decode(data, type=_Head).format
        if written != _FORMAT:
            raise StateError(f"it is in format {written}, and this version reads {_FORMAT}.")
        state = msgspec.msgpack.decode(data, type=_State)
        groups = [(group, [_restored(fact) for fact in group.facts]) for group in state.groups]
    except (msgspec.DecodeError, DecodeError) as problem:
        raise StateError(f"it is damaged: {problem}.") from problem
    if state.cluster_id != cluster_id:
        raise StateError(f"it is of cluster {state.cluster_id}, and this one is {cluster_id}.")
    for number, next_offset, partition in state.partitions:
        observer.restore_partition(number, next_offset, partition)
    for group, facts in groups:
        observer.restore_group(group.group_id, facts, _lines(group.lines), group.whole_from)


def _stored(fact: Fact) -> _Record | CommitRecord | Commits | PendingCommits | AbortedCommits:
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
    record = read_record(
        fact.key,
        fact.value,
        partition=fact.partition,
        offset=fact.offset,
        timestamp_ms=fact.timestamp_ms,
        leader_epoch=fact.leader_epoch,
    )
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


def _lines(lines: Sequence[_Line]) -> list[BrokerLine]:
    return [
        BrokerLine(
            time_ms=line.time_ms,
            broker=line.broker,
            partition=line.partition,
            file=line.file,
            number=line.number,
            event=line.event,
        )
        for line in lines
    ]
