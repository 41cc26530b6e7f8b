"""The arithmetic of a ticker that goes on where another one has ticked."""

from __future__ import annotations

import pytest

from streaming.clock import AppendedRecord, Renewal, SendTimes, Step, TickClock

INTERVAL_MS, PAUSE_MS, AHEAD_MS = 500, 3_000, 3_000


def write(ticker: TickClock, wall_ms: int, monotonic_ms: int, skew_ms: int = 0) -> Step | None:
    """Let it write what it has to write; the broker's clock is so far behind the wall."""
    step = ticker.next_step(wall_ms, monotonic_ms)
    if step is not None:
        sent_at = SendTimes(wall_ms, monotonic_ms)
        ticker.acknowledge(step, sent_at, AppendedRecord(0, wall_ms - skew_ms), monotonic_ms)
    return step


def taken_over(pauses_at_ms: int) -> TickClock:
    """Of a log in which another ticker has ticked until now."""
    return TickClock(
        100_000, None, interval_ms=INTERVAL_MS, lead_ms=3_000, pause_ms=PAUSE_MS, ahead_max_ms=AHEAD_MS,
        pauses_at_ms=pauses_at_ms,
    )  # fmt: skip


@pytest.mark.parametrize(("left_ms", "renewal"), [(PAUSE_MS, False), (1, False), (0, True), (-(10**5), True)])
def test_a_clock_that_another_ticker_has_just_moved_goes_on_without_a_pause(left_ms: int, renewal: bool) -> None:
    ticker = taken_over(100_700 + left_ms)
    assert write(ticker, 100_700, 700) == Step(100_000), "it asks what time it is, by the brokers' clock"
    ticker.handled(100_000)
    # What it stood is not jumped over.
    assert write(ticker, 101_200, 1_200) == Step(100_550, Renewal.RECENT if renewal else Renewal.NOBODY)


def test_the_brokers_clock_decides_whether_there_was_a_pause() -> None:
    ticker = taken_over(40_701)
    write(ticker, 100_700, 700, skew_ms=60_000)  # there it is 40,700
    ticker.handled(100_000)
    assert ticker.next_step(101_200, 1_200) != Step(100_550, Renewal.RECENT)
