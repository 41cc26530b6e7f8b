"""Outputs packed for the driver, without a JVM."""

from __future__ import annotations

import pyarrow as pa

from schemas.output_records import OutputRecord
from streaming.arrow_columns import runs
from streaming.packed_outputs import pack_runs, place, unpack
from streaming.rows import output_batch


def record(epoch: int, seq: int, value: bytes | None = b"\xff") -> OutputRecord:
    return OutputRecord("c.responses", -1, b"key", value, {"epoch": str(epoch), "seq": str(seq)})


LETTER = OutputRecord("c.dead-letters", -1, None, None, {"reason": "no_key", "partition": "1", "offset": "20"})


def test_what_is_packed_is_unpacked_in_runs_of_a_group() -> None:
    outputs = [
        (None, [LETTER]),
        (b"g", [record(1, 1), record(1, 2, None)]),
        (b"", [record(5, 1)]),
        (b"g", [record(1, 3)]),
    ]
    (packed,) = pack_runs([output_batch(outputs), output_batch(outputs).slice(0, 0)])
    assert [(row["group_key"], unpack(row["records"])) for row in packed.to_pylist()] == outputs


def test_dead_letters_come_before_what_the_group_says_and_numbers_are_no_texts() -> None:
    ordered = [
        LETTER, LETTER._replace(headers={**LETTER.headers, "offset": "100"}), record(9, 9), record(9, 10),
        record(10, 1),
    ]  # fmt: skip
    backwards = ordered[::-1]
    assert sorted(backwards, key=place) == ordered


def test_runs_tell_null_from_empty_and_look_at_every_column() -> None:
    keys = pa.array([b"", None, None, b"a", b"a"], pa.binary())
    assert list(runs(keys)) == [(0, 1), (1, 3), (3, 5)]
    assert list(runs(keys, pa.array([1, 1, 2, 2, 2]))) == [(0, 1), (1, 2), (2, 3), (3, 5)]
    assert list(runs(keys.slice(0, 1))) == [(0, 1)]
