"""Buckets: many groups under one key of Spark's state.

Every key that a batch touches costs Spark a call, a state and a timer, before our code runs. Where a batch touches ten
thousand groups, a fixed number of keys, each with the groups that fall into it, halves the time. What a group decides
does not depend on it: each is handled by itself, as `streaming.operator` does, and the others of its bucket stay the
bytes that they were.

A bucket is compressed. In each batch Spark reads the whole state to find the timers that are due, and groups that have
nothing but offsets are much alike: to a sixth of their bytes, in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import attrgetter

import msgspec
import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState

from coordinator_state import decode_group, encode_group
from streaming.arrow_columns import Columns
from streaming.operator import OperatorError, coordinate_group, error_context, event_rows, set_timeout, with_key
from streaming.operator_config import OperatorConfig
from streaming.parts import without_marks
from streaming.rows import EventRow
from streaming.state_function import Outputs, StateFunction
from streaming.stored_group import StoredGroup

BucketKey = tuple[int | None]
"""The bucket; None for the records without a key, which are all dead letters."""
BUCKET_VERSION = 2
_FIRST_VERSION = b"\x92\x01"
"""An array of two, the version 1 and the groups, not compressed: earlier releases wrote it."""
_RATIO_MAX = 255
"""LZ4 makes no more bytes of one."""

Bucket = dict[bytes, StoredGroup]
"""Key of a group's events -> the group."""


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    version: int
    size: int
    """Of the groups, in bytes, before compression."""
    groups: bytes


_codec = pa.Codec("lz4_raw")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Packed).decode
_decode_first = msgspec.msgpack.Decoder(tuple[int, Bucket]).decode
_decode_groups = msgspec.msgpack.Decoder(Bucket).decode


def bucket_of(key: str, buckets: int) -> Column:
    """Return the bucket of the column `key`. A change of this function would lose every group of every checkpoint."""
    return F.pmod(F.crc32(key), F.lit(buckets)).cast("int")


def encode_bucket(bucket: Bucket) -> bytes:
    """Encode a bucket as a row of state."""
    groups = _encode(bucket)
    return _encode(_Packed(BUCKET_VERSION, len(groups), _codec.compress(groups, asbytes=True)))


def decode_bucket(packed: bytes) -> Bucket:
    """Decode a bucket from its row of state. Raises OperatorError for another version, or for bytes that are no
    bucket."""
    try:
        if packed.startswith(_FIRST_VERSION):
            return _decode_first(packed)[1]
        bucket = _decode(packed)
        if bucket.version == BUCKET_VERSION:
            if not 0 <= bucket.size <= _RATIO_MAX * len(bucket.groups):
                raise msgspec.DecodeError(f"{bucket.size} bytes cannot be in {len(bucket.groups)}")
            return _decode_groups(_codec.decompress(bucket.groups, bucket.size, asbytes=True))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError) as problem:
        raise OperatorError(f"the state holds no bucket of groups: {problem}") from None
    raise OperatorError(
        f"the state holds a bucket of version {bucket.version}, but this release reads {BUCKET_VERSION}"
    )


def bucket_operator(config: OperatorConfig) -> StateFunction:
    """Return the function for `applyInPandasWithState`, with state as `BUCKET_STATE_SCHEMA` and event-time timeouts."""

    def coordinate(key: BucketKey, chunks: Iterable[Columns], state: GroupState) -> Outputs:
        watermark_ms = state.getCurrentWatermarkMs()
        bucket = decode_bucket(*state.get) if state.exists else {}
        rows = _rows_by_group(chunks, watermark_ms)
        due = [
            group_id
            for group_id, stored in bucket.items()
            if stored.next_deadline_ms is not None and stored.next_deadline_ms <= watermark_ms
        ]
        for group_key in dict.fromkeys([*rows, *due]):
            yield from _coordinate_group(bucket, group_key, rows.get(group_key, ()), config, watermark_ms)
        _store(bucket, state, watermark_ms)

    return StateFunction(coordinate)


def _rows_by_group(chunks: Iterable[Columns], watermark_ms: int) -> dict[bytes | None, list[EventRow]]:
    rows_by_group: dict[bytes | None, list[EventRow]] = {}
    for chunk in map(without_marks, chunks):
        for group_key, row in zip(chunk["key"], event_rows(chunk, watermark_ms), strict=True):
            rows_by_group.setdefault(group_key, []).append(row)
    return rows_by_group


def _coordinate_group(
    bucket: Bucket, group_key: bytes | None, rows: Iterable[EventRow], config: OperatorConfig, watermark_ms: int
) -> Outputs:
    """Handle the rows of one group of the bucket and put it back."""
    with error_context(group_key, config):
        stored = None if group_key is None else bucket.pop(group_key, None)
        group = None if stored is None else decode_group(stored.membership, stored.offsets)
        ordered = sorted(rows, key=attrgetter("offset"))
        next_state = yield from with_key(
            group_key, coordinate_group(group_key, ordered, config, group=group, clock_ms=watermark_ms)
        )
        if group_key is not None and next_state.group is not None:
            bucket[group_key] = StoredGroup(next_state.next_deadline_ms, *encode_group(next_state.group))


def _store(bucket: Bucket, state: GroupState, watermark_ms: int) -> None:
    if not bucket:
        if state.exists:
            state.remove()
        return
    state.update((encode_bucket(bucket),))
    deadlines = [stored.next_deadline_ms for stored in bucket.values() if stored.next_deadline_ms is not None]
    set_timeout(state, min(deadlines, default=None), watermark_ms)
