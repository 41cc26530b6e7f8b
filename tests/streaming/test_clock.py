"""The arithmetic of the ticker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaming.clock import (
    CATCH_UP_MAX_MS,
    AppendedRecord,
    Renewal,
    SendTimes,
    Standstill,
    Step,
    TickClock,
    next_clock_ms,
)
from tests.streaming.tick_clocks import AHEAD_MS, INTERVAL_MS, PAUSE_MS, clock, continued, write

times = st.integers(1_000, 10**13)


@given(times, st.integers(-10_000, 10**9), times)
def test_a_step_is_never_back_and_never_longer_than_a_tenth_above_an_interval(
    clock_ms: int, elapsed_ms: int, wall_ms: int
) -> None:
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


def test_a_pause_is_not_jumped_over() -> None:
    ticker = clock()
    write(ticker, 100_500, 500)
    assert ticker.next_step(wall_ms=1_000_000, monotonic_ms=900_500) == Step(101_050, Renewal.RECENT)


def test_a_clock_that_moves_has_not_paused() -> None:
    ticker = clock()
    for real_ms in range(INTERVAL_MS, 30 * INTERVAL_MS, INTERVAL_MS):
        assert write(ticker, 100_000 + real_ms, real_ms) == Step(100_000 + real_ms)
        ticker.handled(100_000 + real_ms)


def test_a_log_that_takes_no_tick_for_half_a_session_is_a_pause() -> None:
    ticker = clock()
    write(ticker, 100_500, 500)
    for real_ms, renewal in (
        (500 + PAUSE_MS - 1, Renewal.NOBODY),
        (500 + PAUSE_MS, Renewal.RECENT),
        (3_600_000, Renewal.RECENT),
    ):
        step = ticker.next_step(100_000 + real_ms, real_ms)
        assert step is not None
        assert step.renewal is renewal
    write(ticker, 3_700_000, 3_600_000)
    step = ticker.next_step(3_700_500, 3_600_500)
    assert step is not None
    assert step.renewal is Renewal.NOBODY


def test_a_pause_is_found_when_it_is_over_and_once() -> None:
    """Then the log is asked whether another ticker has ticked meanwhile."""
    ticker = clock()
    write(ticker, 100_500, 500)
    assert not ticker.finds_pause(500 + PAUSE_MS - 1)
    assert ticker.finds_pause(500 + PAUSE_MS)
    ticker.next_step(101_000 + PAUSE_MS, 1_000 + PAUSE_MS)
    assert not ticker.finds_pause(1_000 + PAUSE_MS)
    assert not continued(100_000).finds_pause(3_600_000), "its start is a pause in any case"


def live(ticker: TickClock, batch_ms: int, real_ms: int) -> int:
    """For so long, with a query whose batches take so long: how often it paused."""
    pauses, watermark_ms, read_ms = 0, ticker.clock_ms, ticker.clock_ms
    for now_ms in range(INTERVAL_MS, real_ms, INTERVAL_MS):
        if now_ms % batch_ms == 0:
            ticker.handled(watermark_ms)  # the batch that ends had the clock of those before it
            watermark_ms, read_ms = read_ms, ticker.clock_ms
        step = write(ticker, 100_000 + now_ms, now_ms)
        pauses += step is not None and step.renewal is not Renewal.NOBODY
    return pauses


@pytest.mark.parametrize("batch_ms", [500, 1_000, 5_000, 10_000, 60_000])
def test_batches_that_are_always_slow_slow_the_clock_and_are_no_pause(batch_ms: int) -> None:
    """Were each of them a pause, every session would begin anew each time, and the dead would stay for ever."""
    ticker = clock()
    assert live(ticker, batch_ms, 3_600_000) == 0
    assert ticker.clock_ms >= 100_000 + min(3_600_000 * 0.9, 3_000 * (3_600_000 // (3 * batch_ms) - 1))


def test_a_log_that_is_gone_while_the_clock_waits_for_its_query_is_a_pause_nevertheless() -> None:
    ticker = clock(lead_ms=500)
    write(ticker, 100_500, 500)
    assert ticker.next_step(101_500, 1_500) is None
    assert ticker.next_step(102_000, 2_000) == Step(100_500), "the same again, to see whether the log takes it"
    assert ticker.next_step(110_000, 10_000) == Step(100_500, Renewal.RECENT)


def test_a_clock_that_continues_a_log_has_paused_and_waits_until_the_query_is_there() -> None:
    ticker = continued(100_000)
    assert write(ticker, 900_000, 5_000_000) == Step(100_000), "which moves nothing: it asks for the brokers' time"
    assert write(ticker, 900_000, 5_000_000) == Step(100_000, Renewal.RECENT)
    ticker.handled(97_200)  # there it was when it stopped
    assert ticker.next_step(900_500, 5_000_500) == Step(100_200)
    ticker.handled(100_000)
    assert ticker.next_step(900_500, 5_000_500) == Step(100_550)


def test_a_tick_counts_only_when_it_is_acknowledged() -> None:
    ticker = clock()
    for attempt, tick_ms in ((500, 100_500), (2_500, 100_550), (60_000, 100_550)):
        assert ticker.next_step(100_000 + attempt, attempt) == Step(tick_ms)
        assert ticker.clock_ms == 100_000
    write(ticker, 160_100, 60_100)
    assert ticker.clock_ms == 100_550


def test_the_clock_waits_for_a_query_that_does_not_answer() -> None:
    ticker, real_ms = clock(lead_ms=1_000), 0
    for _ in range(4):
        real_ms += INTERVAL_MS
        write(ticker, 100_000 + real_ms, real_ms)
    assert ticker.clock_ms == 101_000
    assert ticker.next_step(100_000 + real_ms, real_ms) is None
    ticker.handled(100_500)
    assert ticker.next_step(100_000 + real_ms, real_ms) == Step(101_500)


# ------------------------------------------------------------------------------------ the brokers' clock, and strangers


def test_at_the_bound_of_its_skew_it_stands_still_and_asks_until_the_difference_is_half_of_it() -> None:
    ticker = clock()
    assert write(ticker, 100_500, 500, skew_ms=AHEAD_MS) == Step(100_500)
    assert ticker.skew_ms == AHEAD_MS
    assert write(ticker, 101_000, 1_000, skew_ms=AHEAD_MS) == Step(101_000), "at the bound it may still go on"
    assert write(ticker, 101_500, 1_500, skew_ms=AHEAD_MS + 1) == Step(101_500), "one more: then it knows"
    assert ticker.clock_ms == 101_000, "it was no valid tick"
    assert ticker.next_step(102_000, 2_000) is None
    assert ticker.standstill is Standstill.WALL_AHEAD
    step = write(ticker, 103_000, 3_000, skew_ms=AHEAD_MS)
    assert step is not None
    assert step.tick_ms <= 101_000, "it asks, and moves nothing"
    assert ticker.next_step(103_500, 3_500) is None, "still too much to begin again"
    write(ticker, 104_500, 4_500, skew_ms=AHEAD_MS // 2)
    assert ticker.next_step(105_000, 5_000) == Step(101_550)
    assert ticker.standstill is None


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5_000),
            st.sampled_from((0, 0, 0, -7_200_000, -4_000, -100, 100, 4_000, 7_200_000)),
            st.sampled_from((0, 0, 0, -7_200_000, -4_000, 100, 4_000, 7_200_000)),
        ),
        max_size=60,
    )
)
def test_whatever_clocks_are_set_to_hardly_a_tick_is_invalid_and_none_that_is_moves_the_clock(
    happenings: list[tuple[int, int, int]],
) -> None:
    ticker = clock(start_ms=10**9)
    wall_ms = broker_ms = 10**9
    real_ms = invalid = log_ms = 0
    for slept_ms, wall_by_ms, broker_by_ms in happenings:
        real_ms += slept_ms
        wall_ms += slept_ms + wall_by_ms
        broker_ms += slept_ms + broker_by_ms
        step = ticker.next_step(wall_ms, real_ms)
        assert not ticker.handled(log_ms)
        if step is None:
            continue
        tick_ms = broker_ms if step.renewal is Renewal.ALL_AT_PRESENT else step.tick_ms
        ticker.sending(tick_ms)
        if tick_ms <= broker_ms + AHEAD_MS:
            log_ms = max(log_ms, tick_ms)
        else:
            invalid += 1
        ticker.acknowledge(
            step._replace(tick_ms=tick_ms), SendTimes(wall_ms, real_ms), AppendedRecord(0, broker_ms), real_ms
        )
        assert log_ms <= ticker.clock_ms
    assert invalid <= 1 + sum(1 for _, _, broker_by_ms in happenings if broker_by_ms)


def test_a_new_log_whose_tickers_clock_is_wrong_begins_at_the_brokers_time() -> None:
    ticker = clock(start_ms=9_000_000)
    assert write(ticker, 9_000_500, 500, skew_ms=3_600_000) == Step(9_000_500)
    assert ticker.clock_ms == 9_000_500 - 3_600_000
    step = write(ticker, 9_002_500, 2_500, skew_ms=3_600_000)
    assert step is not None
    assert step.tick_ms == 9_000_500 - 3_600_000


def test_a_log_that_was_poisoned_before_is_told_and_not_followed() -> None:
    """The checkpoint's watermark is that of a tick of the future, which an older release took."""
    ticker = continued(100_000)
    write(ticker, 101_000, 0)
    ticker.handled(10**12)
    assert ticker.next_step(101_500, 500) is None
    assert ticker.standstill is Standstill.LOG_AHEAD
    step = write(ticker, 103_000, 2_000)
    assert step is not None
    assert step.tick_ms == 103_000, "valid, and it moves nothing"


def test_a_tick_of_somebody_else_is_noticed_and_the_clock_goes_on_from_it() -> None:
    ticker = clock()
    write(ticker, 100_500, 500)
    assert not ticker.handled(100_500)
    ticker.sending(101_000)
    assert not ticker.handled(101_000), "one of ours, of which we have not heard yet whether it was taken"
    assert ticker.handled(103_000)
    assert not ticker.handled(103_000)
    assert ticker.next_step(101_000, 1_000) == Step(103_450), (
        "ahead of wall time: nine tenths of real speed until that has caught up"
    )


@pytest.mark.parametrize(("start_ms", "found"), [(5_000, {}), (95_000_000, {"has_ticks": False})])
def test_a_clock_of_long_ago_is_left_behind_with_everything_that_waits(start_ms: int, found: dict[str, bool]) -> None:
    """A stranger's first tick may be of 1970; and before the first tick groups may have begun at any time."""
    now_ms = 100_000_000
    ticker = continued(start_ms, **found)
    assert write(ticker, now_ms, 0) == Step(start_ms)
    step = ticker.next_step(now_ms, 0)
    assert step == Step(now_ms, Renewal.ALL_AT_PRESENT)
    taken_step = step._replace(tick_ms=now_ms + 7)  # the time of the last renewal
    ticker.sending(taken_step.tick_ms)
    ticker.acknowledge(taken_step, SendTimes(now_ms, 0), AppendedRecord(0, now_ms + 8), 10)
    assert ticker.clock_ms == now_ms + 7
    assert ticker.next_step(now_ms + 500, 500) is None, "then it waits for the query, as ever"
    ticker.handled(now_ms + 7)
    assert ticker.next_step(now_ms + 500, 500) == Step(now_ms + 500)


def test_what_can_be_caught_up_and_what_is_not_whole_is_not_left_behind() -> None:
    for start_ms, findings in ((100_000_000 - CATCH_UP_MAX_MS, {}), (5_000, {"is_whole": False})):
        ticker = continued(start_ms, **findings)
        write(ticker, 100_000_000, 0)
        assert ticker.next_step(100_000_000, 0) == Step(start_ms, Renewal.RECENT)


def test_a_new_log_is_looked_at_again_until_it_has_taken_a_tick() -> None:
    """What others have written meanwhile says where the clock stands; to jump from there would end sessions."""
    ticker = clock()
    assert ticker.is_unsure
    assert ticker.next_step(100_000, 0) == Step(100_000), "at once, before anybody else writes"
    write(ticker, 100_000, 0, skew_ms=AHEAD_MS + 1)
    assert ticker.is_unsure
    write(ticker, 102_000, 2_000)
    assert not ticker.is_unsure


def test_a_log_without_ticks_is_looked_at_again_before_its_first() -> None:
    """The ticker asks for the brokers' time by a tick of the first record's time:
    after one of long ago that would be a jump."""
    assert not continued(100_000).is_unsure
    ticker = continued(100_000, has_ticks=False)
    assert ticker.is_unsure
    write(ticker, 101_000, 0, skew_ms=20_000)
    assert not ticker.is_unsure, (
        "a tick that was refused has told the brokers' time, and the next one renews all groups"
    )


def test_a_log_without_ticks_has_no_clock_that_a_refused_tick_could_name() -> None:
    """Its records are from before the broker's clock was set back:
    the first tick is too far ahead, and not in the log."""
    ticker = continued(100_000, has_ticks=False)
    assert write(ticker, 101_000, 0, skew_ms=20_000) == Step(100_000)
    assert ticker.clock_ms == 81_000
    first_step = write(ticker, 103_000, 2_000, skew_ms=20_000)
    assert first_step == Step(81_000)
    write(ticker, 106_000, 5_000)
    step = ticker.next_step(106_500, 5_500)
    assert step is not None
    assert step.renewal is Renewal.ALL_AT_PRESENT, "what has begun meanwhile goes on with the clock"
