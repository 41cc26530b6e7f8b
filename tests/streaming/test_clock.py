"""The arithmetic of the ticker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.clock import TickClock, next_clock_ms

INTERVAL_MS, PAUSE_MS = 500, 3_000
times = st.integers(1_000, 10**13)


@given(times, st.integers(-10_000, 10**9), times)
def test_a_step_is_never_back_and_never_longer_than_a_tenth_above_an_interval(clock_ms: int, elapsed_ms: int, wall_ms: int) -> None:
    step_ms = next_clock_ms(clock_ms, elapsed_ms, wall_ms, INTERVAL_MS) - clock_ms
    assert 0 <= step_ms <= 1.1 * min(max(elapsed_ms, 0), INTERVAL_MS)


@given(times, st.integers(0, INTERVAL_MS))
def test_a_clock_on_time_is_wall_time(clock_ms: int, elapsed_ms: int) -> None:
    assert next_clock_ms(clock_ms, elapsed_ms, clock_ms + elapsed_ms, INTERVAL_MS) == clock_ms + elapsed_ms


@given(times, st.integers(-600_000, 600_000))
def test_it_approaches_wall_time_from_both_sides_at_a_tenth_of_real_speed(wall_ms: int, ahead_ms: int) -> None:
    clock_ms, real_ms = wall_ms + ahead_ms, 0
    while clock_ms != wall_ms + real_ms:
        clock_ms = next_clock_ms(clock_ms, INTERVAL_MS, wall_ms + real_ms + INTERVAL_MS, INTERVAL_MS)
        real_ms += INTERVAL_MS
        assert real_ms <= abs(ahead_ms) * 10 + 2 * INTERVAL_MS


def clock(start_ms: int = 100_000, lead_ms: int = 3_000) -> TickClock:
    return TickClock(start_ms, 0, interval_ms=INTERVAL_MS, lead_ms=lead_ms, pause_ms=PAUSE_MS)


def test_a_pause_is_not_jumped_over() -> None:
    ticker = clock()
    assert ticker.next_tick_ms(wall_ms=9_000_000, monotonic_ms=8_900_000) == 100_550


def test_a_clock_that_moves_has_not_paused() -> None:
    ticker, real_ms = clock(), 0
    for _ in range(30):
        real_ms += INTERVAL_MS
        tick_ms = ticker.next_tick_ms(100_000 + real_ms, real_ms)
        assert tick_ms == 100_000 + real_ms
        assert not ticker.has_paused(real_ms)
        ticker.acknowledge(tick_ms, real_ms)
        ticker.handled(tick_ms)


def test_a_log_that_takes_no_tick_for_half_a_session_is_a_pause() -> None:
    ticker = clock()
    assert not ticker.has_paused(PAUSE_MS - 1)
    assert ticker.has_paused(PAUSE_MS)
    assert ticker.has_paused(3_600_000)
    ticker.acknowledge(100_550, 3_600_000)
    assert not ticker.has_paused(3_600_000 + INTERVAL_MS)


def live(ticker: TickClock, batch_ms: int, real_ms: int) -> int:
    """For so long, with a query whose batches take so long: how often it paused."""
    pauses, watermark_ms, read_ms = 0, ticker.clock_ms, ticker.clock_ms
    for now_ms in range(INTERVAL_MS, real_ms, INTERVAL_MS):
        if now_ms % batch_ms == 0:
            ticker.handled(watermark_ms)  # the batch that ends had the clock of those before it
            watermark_ms, read_ms = read_ms, ticker.clock_ms
        tick_ms = ticker.next_tick_ms(100_000 + now_ms, now_ms)
        if tick_ms is not None:
            pauses += ticker.has_paused(now_ms)
            ticker.acknowledge(tick_ms, now_ms)
    return pauses


@pytest.mark.parametrize("batch_ms", [500, 1_000, 5_000, 10_000, 60_000])
def test_batches_that_are_always_slow_slow_the_clock_and_are_no_pause(batch_ms: int) -> None:
    """Were each of them a pause, every session would begin anew each time, and the dead would stay for ever."""
    ticker = clock()
    assert live(ticker, batch_ms, 3_600_000) == 0
    assert ticker.clock_ms >= 100_000 + min(3_600_000 * 0.9, 3_000 * (3_600_000 // (3 * batch_ms) - 1))


def test_a_log_that_is_gone_while_the_clock_waits_for_its_query_is_a_pause_nevertheless() -> None:
    ticker = clock(lead_ms=500)
    ticker.acknowledge(100_500, 500)
    assert ticker.next_tick_ms(101_500, 1_500) is None
    assert ticker.next_tick_ms(102_000, 2_000) == 100_500, "the same again, to see whether the log takes it"
    assert not ticker.has_paused(2_000)
    assert ticker.next_tick_ms(110_000, 10_000) == 100_500
    assert ticker.has_paused(10_000)


def test_a_clock_that_continues_a_log_has_paused_and_waits_until_the_query_is_there() -> None:
    ticker = TickClock(100_000, None, interval_ms=INTERVAL_MS, lead_ms=3_000, pause_ms=PAUSE_MS)
    assert ticker.has_paused(5_000_000)
    assert ticker.next_tick_ms(9_000_000, 5_000_000) == 100_000
    ticker.acknowledge(100_000, 5_000_000)
    ticker.handled(97_200)  # there it was when it stopped
    assert ticker.next_tick_ms(9_000_000, 5_000_500) == 100_200
    ticker.handled(100_000)
    assert ticker.next_tick_ms(9_000_000, 5_000_500) == 100_550


def test_a_tick_counts_only_when_it_is_acknowledged() -> None:
    ticker = clock()
    for attempt in (500, 2_500, 60_000):
        assert ticker.next_tick_ms(100_000 + attempt, attempt) in (100_500, 100_550)
    ticker.acknowledge(100_550, 60_100)
    assert ticker.clock_ms == 100_550
    assert ticker.next_tick_ms(160_600, 60_600) == 101_100


def test_the_clock_waits_for_a_query_that_does_not_answer() -> None:
    ticker, real_ms = clock(lead_ms=1_000), 0
    for _ in range(4):
        real_ms += INTERVAL_MS
        tick_ms = ticker.next_tick_ms(100_000 + real_ms, real_ms)
        if tick_ms is not None:
            ticker.acknowledge(tick_ms, real_ms)
    assert ticker.clock_ms == 101_000
    assert ticker.next_tick_ms(100_000 + real_ms, real_ms) is None
    ticker.handled(100_500)
    assert ticker.next_tick_ms(100_000 + real_ms, real_ms) == 101_500


def test_it_goes_on_from_a_tick_that_somebody_else_wrote() -> None:
    ticker = clock()
    ticker.handled(500_000)
    tick_ms = ticker.next_tick_ms(100_500, 500)
    assert tick_ms == 500_450  # ahead of wall time: nine tenths of real speed until that has caught up
