"""The clock carried from ticks to requests."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import EventError, EventProblem, encode_tick
from streaming.ticks import CLOCK_MAX_MS, carry_clock, read_tick

REQUEST = (b"group", b"{}")


def tick(clock_ms: int) -> tuple[None, bytes]:
    return None, encode_tick(clock_ms)


def batch(*records: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
    keys, values = zip(*records, strict=True)
    return pa.RecordBatch.from_arrays([pa.array(keys, pa.binary()), pa.array(values, pa.binary())], names=["key", "value"])


def clocks(*batches: pa.RecordBatch) -> list[int]:
    return [clock for each in carry_clock(batches) for clock in each.column("clock_ms").to_pylist()]


def test_a_request_has_the_clock_of_the_last_tick_before_it_over_batches() -> None:
    assert clocks(batch(REQUEST, tick(5), REQUEST), batch(REQUEST, tick(7)), batch(REQUEST)) == [0, 5, 5, 5, 7, 7]


def test_a_tick_that_goes_back_or_repeats_changes_nothing() -> None:
    assert clocks(batch(tick(9), REQUEST, tick(3), REQUEST, tick(9), REQUEST)) == [9] * 6


def test_only_ticks_are_marked_and_a_malformed_one_is_a_row_like_others() -> None:
    marked = next(carry_clock([batch(tick(5), REQUEST, (None, b'{"type":"tick"}'), (None, None), (b"", encode_tick(6)))]))
    assert marked.column("tick").cast(pa.int64()).to_pylist() == [5_000, None, None, None, None]


def test_a_tick_at_the_end_of_time_can_be_marked() -> None:
    (marked,) = carry_clock([batch(tick(CLOCK_MAX_MS))])
    assert marked.column("tick").cast(pa.int64()).to_pylist() == [CLOCK_MAX_MS * 1_000]


@given(st.lists(st.none() | st.integers(1, 50), max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_batches_make_no_difference(ticks: list[int | None], cuts: list[int]) -> None:
    records = [REQUEST if each is None else tick(each) for each in ticks]
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    batches = [batch(*records[a:b]) for a, b in pairwise(edges) if a < b]
    seen, wanted = 0, []
    for each in ticks:
        seen = max(seen, each or 0)
        wanted.append(seen)
    assert clocks(*batches) == wanted


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, EventProblem.NO_KEY),
        (b"", EventProblem.NO_KEY),
        (b'{"type":"request"}', EventProblem.NO_KEY),
        (b'{"type":"\xff"}', EventProblem.NO_KEY),
        (b'{"type":"tick","\xff":1}', EventProblem.MALFORMED_TICK),
        (b'{"type":"tick"}', EventProblem.MALFORMED_TICK),
        (b'{"type":"tick","clock_ms":0}', EventProblem.MALFORMED_TICK),
        (b'{"type":"tick","clock_ms":1.5}', EventProblem.MALFORMED_TICK),
        (encode_tick(CLOCK_MAX_MS + 1), EventProblem.MALFORMED_TICK),
        (encode_tick(2**70), EventProblem.MALFORMED_TICK),
    ],
)
def test_what_is_no_tick_says_why(value: bytes | None, problem: EventProblem) -> None:
    with pytest.raises(EventError) as caught:
        read_tick(value)
    assert caught.value.problem is problem


def test_a_tick_may_be_written_by_others() -> None:
    assert read_tick(b'{ "clock_ms": 12, "type": "tick" }') == 12
    assert read_tick(encode_tick(CLOCK_MAX_MS)) == CLOCK_MAX_MS
