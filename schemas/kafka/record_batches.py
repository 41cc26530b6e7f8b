"""Batches of a Kafka log, read as they lie in a fetch response: records, and the markers that end transactions.

Clients hide the markers, and whether a record is part of a transaction. Source: Kafka's message format, version 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct as Layout
from typing import NamedTuple

from schemas.wire import DecodeError

_HEAD = Layout(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, first and last timestamp, producer id,
its epoch, first sequence, count."""
_LENGTH_END = 12
"""Of the base offset and the length; the length counts what is behind it."""
_MAGIC_AT = 16
_MAGIC = 2
_CODEC, _APPEND_TIME, _TRANSACTIONAL, _CONTROL = 0x07, 0x08, 0x10, 0x20
_CONTROL_TYPE = Layout(">hh")
_OUTCOMES = {0: "ABORT", 1: "COMMIT"}
_NO_PRODUCER = -1

Uncompress = Callable[[int, bytes], bytes]
"""From the number of the codec and the bytes to the bytes of the records."""


class RawRecord(NamedTuple):
    """A record as it lies in the log."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    key: bytes | None
    value: bytes | None
    producer_id: int = _NO_PRODUCER
    """-1 for none."""
    producer_epoch: int = -1
    is_transactional: bool = False
    control: str | None = None
    """COMMIT or ABORT for a marker, which is not a record of the topic's own; its key says so in bytes."""


class Stretch(NamedTuple):
    """What a fetch response brought of a partition."""

    records: list[RawRecord]
    next_offset: int
    """Where to read on."""
    unread: int
    """Batches in a format older than Kafka 0.11."""


def read_stretch(data: bytes, from_offset: int, uncompress: Uncompress) -> Stretch:
    """Read the whole record batches of a fetch response; its last batch may be cut. Raises `DecodeError`."""
    records: list[RawRecord] = []
    position, next_offset, unread = 0, from_offset, 0
    while position + _HEAD.size <= len(data):
        length = int.from_bytes(data[position + 8 : position + _LENGTH_END])
        end = position + _LENGTH_END + length
        if end > len(data):
            break
        if data[position + _MAGIC_AT] != _MAGIC:
            unread += 1
            next_offset = int.from_bytes(data[position : position + 8]) + 1
        else:
            head = _HEAD.unpack_from(data, position)
            records += _records(head, data[position + _HEAD.size : end], from_offset, uncompress)
            next_offset = max(next_offset, head[0] + head[6] + 1)
        position = end
    return Stretch(records, next_offset, unread)


def _records(head: tuple[int, ...], data: bytes, from_offset: int, uncompress: Uncompress) -> Iterator[RawRecord]:
    base_offset, _, leader_epoch, _, _, attributes, _, first_ms, last_ms, producer_id, producer_epoch, _, count = head
    is_transactional, is_control = bool(attributes & _TRANSACTIONAL), bool(attributes & _CONTROL)
    if attributes & _CODEC:
        data = uncompress(attributes & _CODEC, data)
    position = 0
    for _ in range(count):
        size, position = _varint(data, position)
        end = position + size
        delta_ms, position = _varint(data, position + 1)
        delta, position = _varint(data, position)
        key, position = _bytes(data, position)
        value, position = _bytes(data, position)
        if not position < end <= len(data):
            raise DecodeError(f"a record of {size} bytes does not end where it should", position)
        position = end
        control = _outcome(key) if is_control else None
        if base_offset + delta < from_offset or (is_control and control is None):
            continue
        timestamp_ms = last_ms if attributes & _APPEND_TIME else first_ms + delta_ms
        yield RawRecord(
            base_offset + delta,
            timestamp_ms,
            leader_epoch,
            key,
            value,
            producer_id,
            producer_epoch,
            is_transactional,
            control,
        )


def _outcome(key: bytes | None) -> str | None:
    """What a control record says of a transaction; None: it is of another type."""
    if key is None or len(key) < _CONTROL_TYPE.size:
        return None
    return _OUTCOMES.get(_CONTROL_TYPE.unpack_from(key)[1])


def _bytes(data: bytes, position: int) -> tuple[bytes | None, int]:
    size, position = _varint(data, position)
    if size < 0:
        return None, position
    end = position + size
    return data[position:end], end


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A signed number in zigzag form, and where it ends."""
    try:
        byte = data[position]
        position += 1
        if byte < 0x80:  # nearly always
            return (byte >> 1) ^ -(byte & 1), position
        value, shift = byte & 0x7F, 7
        while byte >= 0x80:
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            shift += 7
    except IndexError:
        raise DecodeError("a number breaks off", position) from None
    return (value >> 1) ^ -(value & 1), position
