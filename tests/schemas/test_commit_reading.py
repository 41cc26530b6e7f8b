"""Commits that are read by their layout are those that Kafka's definitions read; damage is refused alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.commit_reading import read_commit_key, read_commit_value
from schemas.records import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue, decode_offset_commit_value
from schemas.wire import DecodeError
from tests.encoded_records import encode_key, encode_offset_commit_value

VALUES = st.builds(
    OffsetCommitValue,
    offset=st.integers(-1, 2**63 - 1),
    leader_epoch=st.integers(-1, 2**31 - 1),
    metadata=st.text(max_size=150),
    commit_timestamp_ms=st.integers(0, 2**62),
    topic_id=st.none() | st.uuids().map(str),
)


def read(data: bytes) -> OffsetCommitValue | None:
    try:
        return read_commit_value(data)
    except DecodeError:
        return None


def defined(data: bytes) -> OffsetCommitValue | None:
    try:
        return decode_offset_commit_value(data)
    except DecodeError:
        return None


@given(VALUES, st.integers(0, 4))
def test_every_version(value: OffsetCommitValue, version: int) -> None:
    data = encode_offset_commit_value(value, version)
    value_read = read(data)
    assert value_read is not None
    assert value_read == defined(data)


@given(VALUES, st.integers(3, 4), st.data())
def test_damaged_bytes(value: OffsetCommitValue, version: int, draw: st.DataObject) -> None:
    damaged = bytearray(encode_offset_commit_value(value, version))
    bit = draw.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    size = draw.draw(st.integers(0, len(damaged)))
    assert read(bytes(damaged)) == defined(bytes(damaged))
    assert read(bytes(damaged[:size])) == defined(bytes(damaged[:size]))


@given(st.binary(max_size=60), st.integers(3, 4))
def test_random_bytes(data: bytes, version: int) -> None:
    data = version.to_bytes(2) + data
    assert read(data) == defined(data)


def test_keys() -> None:
    key = OffsetCommitKey("g", "t", 7)
    assert read_commit_key(encode_key(key)) == key
    assert read_commit_key(encode_key(key)) is read_commit_key(encode_key(key))
    assert read_commit_key(encode_key(GroupMetadataKey("g"))) is None
    with pytest.raises(DecodeError):
        read_commit_key(encode_key(key)[:-1])
