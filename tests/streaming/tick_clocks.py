"""Clocks of tickers, and a log that takes all that they write."""

from __future__ import annotations

from streaming.clock import AppendedRecord, SendTimes, Step, TickClock

INTERVAL_MS, PAUSE_MS, AHEAD_MS = 500, 3_000, 3_000


def clock(start_ms: int = 100_000, lead_ms: int = 3_000) -> TickClock:
    """Of a new log."""
    return TickClock(start_ms, 0, interval_ms=INTERVAL_MS, lead_ms=lead_ms, pause_ms=PAUSE_MS, ahead_max_ms=AHEAD_MS)


def continued(start_ms: int, **findings: bool) -> TickClock:
    """Of a log that exists."""
    return TickClock(
        start_ms, None, interval_ms=INTERVAL_MS, lead_ms=3_000, pause_ms=PAUSE_MS, ahead_max_ms=AHEAD_MS, **findings
    )


def write(ticker: TickClock, wall_ms: int, monotonic_ms: int, skew_ms: int = 0, offset: int = 0) -> Step | None:
    """Let it write what it has to write; the broker's clock is so far behind the wall. The log ends at the offset."""
    step = ticker.next_step(wall_ms, monotonic_ms)
    if step is not None:
        ticker.sending(step.tick_ms)
        ticker.acknowledge(
            step, SendTimes(wall_ms, monotonic_ms), AppendedRecord(offset, wall_ms - skew_ms), monotonic_ms
        )
    return step
