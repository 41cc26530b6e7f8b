"""The clock carried from ticks to requests."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import EventError, EventProblem, encode_tick
from schemas.ticks import CLOCK_MAX_MS, read_tick
from streaming.source import carry_clock

REQUEST = (b"group", b"{}")
AHEAD_MS = 3_000


def tick(clock_ms: int) -> tuple[None, bytes]:
    return None, encode_tick(clock_ms)


def batch(
    *records: tuple[bytes | None, bytes | None], timestamps: Sequence[int | None] | None = None
) -> pa.RecordBatch:
    """Records whose timestamps are unknown, unless they are given."""
    keys, values = zip(*records, strict=True)
    stamps = timestamps or [None] * len(keys)
    columns: list[pa.Array[Any]] = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(stamps, pa.int64()),
        pa.array(range(len(keys)), pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["key", "value", "timestamp_ms", "offset"])


def clocks(*batches: pa.RecordBatch) -> list[int]:
    return [clock for batch in carry_clock(batches, AHEAD_MS) for clock in batch.column("clock_ms").to_numpy().tolist()]


def test_a_request_has_the_clock_of_the_last_tick_before_it_over_batches() -> None:
    assert clocks(batch(REQUEST, tick(5), REQUEST), batch(REQUEST, tick(7)), batch(REQUEST)) == [0, 5, 5, 5, 7, 7]


def test_a_tick_that_goes_back_or_repeats_changes_nothing() -> None:
    assert clocks(batch(tick(9), REQUEST, tick(3), REQUEST, tick(9), REQUEST)) == [9] * 6


def test_only_ticks_are_marked_and_a_malformed_one_is_a_row_like_others() -> None:
    marked = next(
        carry_clock(
            [batch(tick(5), REQUEST, (None, b'{"type":"tick"}'), (None, None), (b"", encode_tick(6)))], AHEAD_MS
        )
    )
    assert marked.column("tick").cast(pa.int64()).to_pylist() == [5_000, None, None, None, None]


def test_a_tick_at_the_end_of_time_can_be_marked() -> None:
    (marked,) = carry_clock([batch(tick(CLOCK_MAX_MS))], AHEAD_MS)
    assert marked.column("tick").cast(pa.int64()).to_pylist() == [CLOCK_MAX_MS * 1_000]


@given(st.lists(st.none() | st.integers(1, 50), max_size=30), st.lists(st.integers(0, 30), max_size=4))
def test_batches_make_no_difference(ticks: list[int | None], cuts: list[int]) -> None:
    records = [REQUEST if tick_ms is None else tick(tick_ms) for tick_ms in ticks]
    edges = [0, *sorted(min(cut, len(records)) for cut in cuts), len(records)]
    batches = [batch(*records[a:b]) for a, b in pairwise(edges) if a < b]
    latest_ms, expected = 0, []
    for tick_ms in ticks:
        latest_ms = max(latest_ms, tick_ms or 0)
        expected.append(latest_ms)
    assert clocks(*batches) == expected


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
        read_tick(value, None, AHEAD_MS)
    assert caught.value.problem is problem


def test_a_tick_may_be_written_by_others() -> None:
    assert read_tick(b'{ "clock_ms": 12, "type": "tick" }', None, AHEAD_MS) == 12
    assert read_tick(encode_tick(CLOCK_MAX_MS), None, AHEAD_MS) == CLOCK_MAX_MS


NOW_MS = 1_800_000_000_000


@given(st.integers(1, CLOCK_MAX_MS), st.integers(0, 10_000_000))
def test_a_tick_counts_up_to_a_bound_after_its_own_record_and_however_far_before(
    timestamp_ms: int, ahead_max_ms: int
) -> None:
    latest_ms = min(timestamp_ms + ahead_max_ms, CLOCK_MAX_MS)
    for clock_ms in {1, timestamp_ms, latest_ms}:
        assert read_tick(encode_tick(clock_ms), timestamp_ms, ahead_max_ms) == clock_ms
    with pytest.raises(EventError) as caught:
        read_tick(encode_tick(latest_ms + 1), timestamp_ms, ahead_max_ms)
    assert caught.value.problem is EventProblem.MALFORMED_TICK


@pytest.mark.parametrize("timestamp_ms", [None, 0, -1])
def test_a_record_that_was_kept_without_its_timestamp_is_believed(timestamp_ms: int | None) -> None:
    assert read_tick(encode_tick(CLOCK_MAX_MS), timestamp_ms, 0) == CLOCK_MAX_MS


def test_a_tick_from_the_future_moves_nothing_and_hides_no_later_one() -> None:
    records = [
        tick(NOW_MS), tick(NOW_MS + 8 * 86_400_000), REQUEST, tick(CLOCK_MAX_MS), REQUEST, tick(NOW_MS + 3_001),
        tick(NOW_MS + 500), REQUEST,
    ]  # fmt: skip
    one_batch = batch(*records, timestamps=[NOW_MS] * 6 + [NOW_MS + 400] * 2)
    assert clocks(one_batch) == [NOW_MS] * 6 + [NOW_MS + 500] * 2
    (marked,) = carry_clock([one_batch], AHEAD_MS)
    taken_indexes = [0, 6]
    assert [
        index for index, tick_value in enumerate(marked.column("tick").to_pylist()) if tick_value is not None
    ] == taken_indexes
    assert [clock for part in (one_batch[:3], one_batch[3:]) for clock in clocks(part)] == [NOW_MS] * 3 + [0] * 3 + [
        NOW_MS + 500
    ] * 2
