"""Lag that is right: never negative, no backlog before the log's start, sane after a topic was made anew."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.lag import SAMPLES_MAX, EndOffsets, Lag

P = ("t", 0)


def polled(*samples: tuple[int, int], low: int = 0) -> EndOffsets:
    ends = EndOffsets()
    for time_ms, high in samples:
        ends.poll(time_ms, {P: Bounds(low, high)})
    return ends


def test_seconds_behind_are_when_the_next_message_was_appended() -> None:
    ends = polled((0, 100), (10_000, 200), (20_000, 300))
    assert ends.lag(P, 250, 20_000) == Lag(50, 4_900, False, 0)
    assert ends.lag(P, 300, 20_000) == Lag(0, 0, False, 0)
    assert ends.lag(P, 50, 20_000) == Lag(250, 20_000, True, 0)


def test_what_retention_removed_is_no_backlog() -> None:
    assert polled((0, 1_000), low=900).lag(P, 100, 0) == Lag(100, 0, True, 0, gone=800)


def test_an_offset_beyond_the_end_is_told_and_not_negative() -> None:
    ends = polled((0, 1_000), (5_000, 10))  # made anew
    assert ends.lag(P, 700, 6_000) == Lag(0, None, False, 1)
    assert ends.lag(P, 4, 6_000) == Lag(6, 1_000, True, 0)


def test_a_log_that_is_not_known_has_no_lag() -> None:
    ends = polled((0, 10))
    assert ends.lag(("other", 0), 1, 0) is None
    assert ends.group_lag({("other", 0): Committed(1, 0, "")}, 0) is None


def test_a_group_is_as_far_behind_as_its_worst_partition() -> None:
    ends = EndOffsets()
    for time_ms, high in ((0, 0), (10_000, 100)):
        ends.poll(time_ms, {P: Bounds(0, high), ("t", 1): Bounds(0, high)})
    lag = ends.group_lag({P: Committed(90, 0, ""), ("t", 1): Committed(50, 0, "")}, 10_000)
    assert lag == Lag(60, 4_900, False, 0)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=600), st.integers(0, 3_000))
def test_samples_are_bounded_and_lag_is_never_negative(steps: list[int], committed: int) -> None:
    ends, high = EndOffsets(), 0
    for number, step in enumerate(steps):
        high += step
        ends.poll(number * 1_000, {P: Bounds(0, high)})
    times, highs = ends.samples(P)
    assert len(times) == len(highs) <= SAMPLES_MAX
    assert times == sorted(times)
    lag = ends.lag(P, committed, len(steps) * 1_000)
    assert lag is not None
    assert lag.messages == max(high - committed, 0)
    assert lag.behind_ms is None or 0 <= lag.behind_ms <= len(steps) * 1_000


@pytest.mark.parametrize("high", [5, 6])
def test_a_log_that_stands_still_keeps_the_time_of_its_last_message(high: int) -> None:
    ends = polled((0, 4), *((time_ms, high) for time_ms in range(10_000, 60_000, 10_000)))
    assert ends.lag(P, high - 1, 60_000) == Lag(1, 50_000, False, 0)
