"""Kafka's primitives: worked bytes, round trips, and input that lies about its lengths."""

from __future__ import annotations

import pickle
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas import wire
from schemas.wire import DecodeError, EncodeError, Reader

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=200)
FORMS = pytest.mark.parametrize("compact", [False, True], ids=["classic", "compact"])


@pytest.mark.parametrize(
    ("value", "encoded"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (131, "8301"), (16_384, "808001"), (2**32 - 1, "ffffffff0f")],
)
def test_unsigned_varint(value: int, encoded: str) -> None:
    assert wire.encode_unsigned_varint(value).hex() == encoded
    assert Reader(bytes.fromhex(encoded)).unsigned_varint() == value


@pytest.mark.parametrize("encoded", ["", "80", "ffffffff1f", "ffffffffff00", "8080808080"])
def test_unsigned_varint_that_ends_early_or_is_too_long(encoded: str) -> None:
    with pytest.raises(DecodeError):
        Reader(bytes.fromhex(encoded)).unsigned_varint()


def test_fixed_numbers() -> None:
    reader = Reader(bytes.fromhex("fffe800000007fffffffffffffff"))
    assert (reader.int16(), reader.int32(), reader.int64()) == (-2, -(2**31), 2**63 - 1)
    reader.end()


@FORMS
@given(text=TEXT)
def test_strings_round_trip(compact: bool, text: str) -> None:
    for encoded, read in (
        (wire.encode_string(text, compact), Reader.string),
        (wire.encode_nullable_string(text, compact), Reader.nullable_string),
    ):
        reader = Reader(encoded)
        assert read(reader, compact) == text
        reader.end()


@FORMS
@given(data=st.binary(max_size=200))
def test_blobs_round_trip(compact: bool, data: bytes) -> None:
    for encoded, read in (
        (wire.encode_blob(data, compact), Reader.blob),
        (wire.encode_nullable_blob(data, compact), Reader.nullable_blob),
    ):
        reader = Reader(encoded)
        assert read(reader, compact) == data
        reader.end()


def test_worked_bytes() -> None:
    assert wire.encode_string("foo") == b"\x00\x03foo"
    assert wire.encode_string("foo", compact=True) == b"\x04foo"
    assert wire.encode_blob(b"ab") == b"\x00\x00\x00\x02ab"
    assert wire.encode_blob(b"ab", compact=True) == b"\x03ab"
    assert wire.encode_nullable_string(None) == b"\xff\xff"
    assert wire.encode_nullable_string(None, compact=True) == b"\x00"
    assert wire.encode_nullable_blob(None) == b"\xff\xff\xff\xff"
    assert wire.encode_nullable_blob(None, compact=True) == b"\x00"
    assert wire.encode_int32_array((1, -1)) == bytes.fromhex("0000000200000001ffffffff")


@FORMS
def test_null_where_it_may_be_and_where_it_may_not(compact: bool) -> None:
    null_string = wire.encode_nullable_string(None, compact)
    null_blob = wire.encode_nullable_blob(None, compact)
    assert Reader(null_string).nullable_string(compact) is None
    assert Reader(null_blob).nullable_blob(compact) is None
    with pytest.raises(DecodeError, match="null string"):
        Reader(null_string).string(compact)
    with pytest.raises(DecodeError, match="null byte string"):
        Reader(null_blob).blob(compact)
    with pytest.raises(DecodeError, match="null array"):
        Reader(null_blob).array(Reader(b"").int16, 2, compact)


@FORMS
def test_longest_string(compact: bool) -> None:
    longest = "x" * wire.STRING_SIZE_MAX
    encoded = wire.encode_string(longest, compact)
    assert Reader(encoded).string(compact) == longest
    with pytest.raises(EncodeError, match="32768 bytes"):
        wire.encode_string(longest + "x", compact)


def test_compact_string_longer_than_kafka_allows() -> None:
    with pytest.raises(DecodeError, match="longer than 32767"):
        Reader(wire.encode_blob(b"x" * 32_768, compact=True)).string(compact=True)


def test_text_that_is_none_is_replaced_as_in_java() -> None:
    assert wire.encode_string("a\ud800b") == b"\x00\x03a?b"
    assert Reader(b"\x00\x03a\xffb").string() == "a\ufffdb"


def test_uuid() -> None:
    text = "4f5f80e2-cdd5-4f08-88e4-24db129e8f3b"
    encoded = bytes.fromhex("4f5f80e2cdd54f0888e424db129e8f3b")
    assert wire.encode_uuid(text) == encoded
    assert Reader(encoded).uuid() == text
    for malformed in ("", "4f5f80e2", text + "00", "x" * 32):
        with pytest.raises(EncodeError):
            wire.encode_uuid(malformed)


def test_tagged_fields() -> None:
    reader = Reader(bytes.fromhex("020002abcd8101002a"))
    assert reader.tagged_fields() == {0: b"\xab\xcd", 129: b""}
    assert reader.remaining == 1
    assert Reader(b"\x00").tagged_fields() == {}


@pytest.mark.parametrize("encoded", ["01", "0100", "010005ab", "ffffffff0f", "02000000"])
def test_tagged_fields_that_end_early(encoded: str) -> None:
    with pytest.raises(DecodeError):
        Reader(bytes.fromhex(encoded)).tagged_fields()


@given(st.lists(st.integers(min_value=-(2**31), max_value=2**31 - 1), max_size=20))
def test_int32_arrays_round_trip(values: list[int]) -> None:
    assert Reader(wire.encode_int32_array(values)).int32_array() == tuple(values)


def test_number_that_does_not_fit() -> None:
    with pytest.raises(EncodeError):
        wire.encode_int32_array((2**31,))
    with pytest.raises(EncodeError):
        wire.pack(wire.INT16, 2**15)


@pytest.mark.parametrize(
    "read",
    [
        lambda reader: reader.array(reader.string, 2),
        lambda reader: reader.int32_array(),
        lambda reader: reader.blob(),
        lambda reader: reader.nullable_blob(),
    ],
    ids=["array", "int32_array", "blob", "nullable_blob"],
)
def test_a_lying_count_allocates_nothing(read: Callable[[Reader], object]) -> None:
    lying = b"\x7f\xff\xff\xff" + bytes(100)
    tracemalloc.start()
    try:
        with pytest.raises(DecodeError):
            read(Reader(lying))
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_error_names_the_position_and_survives_pickling() -> None:
    reader = Reader(b"\x00\x01a\x00\x09b")
    reader.string()
    with pytest.raises(DecodeError) as caught:
        reader.string()
    assert str(caught.value) == "9 bytes needed, 1 left at byte 5"
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_end_insists() -> None:
    with pytest.raises(DecodeError, match="2 bytes too many at byte 0"):
        Reader(b"ab").end()
