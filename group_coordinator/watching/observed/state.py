"""What an observer keeps, as bytes, so that it goes on after a restart where it was: group by group.

A file begins with a head, and then has each group. Before each of these stands its length, in four bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import msgspec
from msgspec import Struct

from group_coordinator.watching.observed.group_state import GroupState, decode_group
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.standstills import StandstillState
from group_coordinator.watching.observed.transactions import PartitionState
from schemas.wire import DecodeError

_FORMAT = 2
_LENGTH_BYTES = 4
_FIRST_OF_FORMAT_1 = 0x80
"""So large at least was the first byte of a file: it was one map, without a length before it."""


class StateError(ValueError):
    """The bytes are no state that this version reads. The message is a sentence."""


class _Head(Struct, frozen=True, kw_only=True):
    format: int
    cluster_id: str
    partitions: list[tuple[int, int, PartitionState]]
    groups: int
    """So many parts follow."""
    standstills: StandstillState | None = None


class _Format(Struct):
    format: int


_encode = msgspec.msgpack.Encoder().encode


def encode_state(observer: Observer, cluster_id: str) -> Iterator[bytes]:
    """Yield all that the observer keeps, piece by piece. It takes nothing meanwhile."""
    yield from _framed(
        _encode(
            _Head(
                format=_FORMAT,
                cluster_id=cluster_id,
                partitions=list(observer.partitions()),
                groups=observer.parts,
                standstills=observer.standstill_evidence.state(),
            )
        )
    )
    for group in observer.evidence():
        yield from _framed(group)


def restore_state(observer: Observer, file: BinaryIO, cluster_id: str) -> None:
    """Give an observer that knows nothing yet what another one kept. Raises StateError, and then it knows nothing.

    Raises OSError. The file is read twice, so that nothing is taken of one that is damaged.
    """
    for _ in _read(file, cluster_id):
        pass
    file.seek(0)
    for part in _read(file, cluster_id):
        if isinstance(part, _Head):
            if part.standstills is not None:
                observer.standstill_evidence.restore(part.standstills)
            for number, next_offset, partition in part.partitions:
                observer.restore_partition(number, next_offset, partition)
        else:
            observer.restore_group(part)


def _read(file: BinaryIO, cluster_id: str) -> Iterator[_Head | GroupState]:
    try:
        head = _head(file)
        if head.cluster_id != cluster_id:
            raise StateError(f"it is of cluster {head.cluster_id}, and this one is {cluster_id}.")
        yield head
        for _ in range(head.groups):
            yield decode_group(_frame(file))
    except (msgspec.DecodeError, DecodeError) as problem:
        raise StateError(f"it is damaged: {problem}.") from problem


def _head(file: BinaryIO) -> _Head:
    first = file.read(1)
    file.seek(0)
    data = file.read() if first and first[0] >= _FIRST_OF_FORMAT_1 else _frame(file)
    written = msgspec.msgpack.decode(data, type=_Format).format
    if written != _FORMAT:
        raise StateError(f"it is in format {written}, and this version reads {_FORMAT}.")
    return msgspec.msgpack.decode(data, type=_Head)


def _framed(data: bytes) -> Iterator[bytes]:
    yield len(data).to_bytes(_LENGTH_BYTES)
    yield data


def _frame(file: BinaryIO) -> bytes:
    length = int.from_bytes(file.read(_LENGTH_BYTES))
    data = file.read(length)
    if not length or len(data) < length:
        raise DecodeError("it breaks off", 0)
    return data
