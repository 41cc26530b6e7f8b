"""Committed offsets read fast, for readers of a whole topic of them.

The shapes that brokers have written since 2.1 are read here by their layout; all else is read by `schemas.records`,
which follows Kafka's definitions, and so is everything damaged. A test compares the two.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct as Layout

from schemas.records import (
    OffsetCommitKey,
    OffsetCommitValue,
    decode_key,
    decode_offset_commit_value,
)
from schemas.wire import INT64, topic_id_text

_VERSION_3, _VERSION_4 = b"\x00\x03", b"\x00\x04"
_HEAD_3 = Layout(">hqih")
"""Version, offset, leader epoch, length of the metadata."""
_HEAD_4 = Layout(">hqiB")
"""The same; the length is a varint of length + 1."""
_ONE_BYTE_MAX = 0x7F
_NO_TAGS = b"\x00"
_TOPIC_ID_HEAD = b"\x01\x00\x10"
"""One tagged field: tag 0, 16 bytes."""
_TOPIC_ID_SIZE = len(_TOPIC_ID_HEAD) + 16
_KEYS_KEPT = 65_536
"""The decoded keys that are kept: a partition of the topic seldom has more."""


@lru_cache(maxsize=_KEYS_KEPT)
def read_commit_key(data: bytes) -> OffsetCommitKey | None:
    """Decode the key of a committed offset, through a cache; None for keys of other types. Raises `DecodeError`."""
    key = decode_key(data)
    return key if isinstance(key, OffsetCommitKey) else None


def read_commit_value(data: bytes) -> OffsetCommitValue:
    """Decode the value of a committed offset as `decode_offset_commit_value` does."""
    if data.startswith(_VERSION_3):
        value = _read_3(data)
    elif data.startswith(_VERSION_4):
        value = _read_4(data)
    else:
        value = None
    return decode_offset_commit_value(data) if value is None else value


def _read_3(data: bytes) -> OffsetCommitValue | None:
    start = _HEAD_3.size
    if len(data) < start:
        return None
    _, offset, leader_epoch, size = _HEAD_3.unpack_from(data)
    end = start + size
    if size < 0 or len(data) != end + INT64.size:
        return None
    return OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=data[start:end].decode("utf-8", "replace") if size else "",
        commit_timestamp_ms=INT64.unpack_from(data, end)[0],
    )


def _read_4(data: bytes) -> OffsetCommitValue | None:
    start = _HEAD_4.size
    if len(data) < start:
        return None
    _, offset, leader_epoch, size_and_one = _HEAD_4.unpack_from(data)
    end = start + size_and_one - 1
    if not 0 < size_and_one <= _ONE_BYTE_MAX or len(data) <= end + INT64.size:
        return None
    tags = data[end + INT64.size :]
    if tags != _NO_TAGS and (len(tags) != _TOPIC_ID_SIZE or not tags.startswith(_TOPIC_ID_HEAD)):
        return None
    return OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=data[start:end].decode("utf-8", "replace") if end > start else "",
        commit_timestamp_ms=INT64.unpack_from(data, end)[0],
        topic_id=None if tags == _NO_TAGS else _topic_id(tags),
    )


@lru_cache(maxsize=1_024)
def _topic_id(tags: bytes) -> str | None:
    return topic_id_text(tags[len(_TOPIC_ID_HEAD) :])
