"""Batches as brokers write them; kafka-python builds them here."""

from __future__ import annotations

import gzip
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch

from schemas.kafka.record_batches import RawRecord, Stretch, read_stretch
from schemas.wire import DecodeError
from tests.schemas.kafka.batches import Row, batch

ROWS = st.lists(
    st.tuples(st.integers(0, 10**13), st.none() | st.binary(max_size=200), st.none() | st.binary(max_size=200)),
    min_size=1,
    max_size=20,
)


def read(data: bytes, from_offset: int = 0) -> Stretch:
    return read_stretch(data, from_offset, lambda _, packed: gzip.decompress(packed))


@given(ROWS, st.integers(0, 2**40))
def test_records_are_those_that_another_reader_finds(drawn: list[Any], base: int) -> None:
    rows = [(number, *drawn_row) for number, drawn_row in enumerate(drawn)]
    data = batch(rows, base=base)
    kafka_python_rows = [
        (drawn_row.offset, drawn_row.timestamp, drawn_row.key, drawn_row.value)
        for drawn_row in iter(DefaultRecordBatch(memoryview(data)))
    ]
    batches_read = read(data)
    assert [
        (record.offset, record.timestamp_ms, record.key, record.value) for record in batches_read.records
    ] == kafka_python_rows
    assert batches_read.next_offset == base + len(rows)


def test_a_transaction_and_its_marker() -> None:
    written = batch([(0, 7, b"k", b"v")], transactional=42)
    marker = batch([(0, 9, b"\0\0\0\1", b"\0\0\0\0\0\5")], base=1, transactional=42, control=True)
    other_marker = batch([(0, 9, b"\0\0\0\2", b"")], base=2, control=True)
    batches_read = read(written + marker + other_marker)
    assert batches_read.records == [
        RawRecord(0, 7, 5, b"k", b"v", 42, 3, is_transactional=True),
        RawRecord(1, 9, 5, b"\0\0\0\1", b"\0\0\0\0\0\5", 42, 3, is_transactional=True, control="COMMIT"),
    ]
    assert batches_read.next_offset == 3


def test_what_lies_before_is_passed_over_and_what_is_cut_waits() -> None:
    data = batch([(0, 1, b"a", b""), (1, 1, b"b", b"")]) + batch([(0, 1, b"c", b"")], base=9)
    assert [record.key for record in read(data, 1).records] == [b"b", b"c"]
    cut = read(data[:-1], 1)
    assert [record.key for record in cut.records] == [b"b"]
    assert cut.next_offset == 2
    assert read(b"", 7) == Stretch([], 7, 0)


def test_a_compressed_batch() -> None:
    rows: list[Row] = [(0, 1, b"a" * 100, b"b" * 100), (1, 2, b"c" * 100, None)]
    packed, plain = batch(rows, codec=1), batch(rows)
    assert len(packed) < len(plain)
    assert read(packed) == read(plain)


def test_batches_that_lost_all_to_compaction_are_passed() -> None:
    data = bytearray(batch([(0, 1, b"a", b"")]))
    empty = data[:61]
    empty[8:12] = (61 - 12).to_bytes(4)
    empty[57:61] = (0).to_bytes(4)
    empty[23:27] = (6).to_bytes(4)  # the last offset stays
    assert read(bytes(empty)) == Stretch([], 7, 0)


def test_old_formats_are_counted() -> None:
    data = bytearray(batch([(0, 1, b"a", b"")]))
    data[16] = 1
    assert read(bytes(data)) == Stretch([], 1, 1)


@given(ROWS, st.data())
def test_damage_raises_nothing_else(drawn: list[Any], draw: st.DataObject) -> None:
    data = bytearray(batch([(number, *drawn_row) for number, drawn_row in enumerate(drawn)]))
    place = draw.draw(st.integers(61, len(data) - 1))
    data[place] ^= 1 << draw.draw(st.integers(0, 7))
    with suppress(DecodeError):
        read(bytes(data))


def test_a_record_that_breaks_off() -> None:
    data = batch([(0, 1, b"a", b"")])
    broken = data[:8] + (len(data) - 12 - 3).to_bytes(4) + data[12:-3]
    with pytest.raises(DecodeError):
        read(broken)
