"""The arithmetic of the ticker (`streaming.ticker`), without a clock of its own. The rules:

- The clock follows wall time, at no less than 0.9 and no more than 1.1 times real speed, and never goes back.
- It continues from the last tick in the log. A pause of any kind (process down, log unavailable, machine asleep) is not
  jumped over: a step is never longer than 1.1 tick intervals, however much time went by.
- After a pause every session begins anew: before the clock goes on, each group that was heard within the longest session
  gets a renewal. Nobody who beats within a session of that is expired.
- A tick counts when the log has acknowledged it.
- It runs ahead of what the query has handled by a fixed lead at most: while nobody is answered, nobody's time runs out.
"""

from __future__ import annotations

from collections import deque

SLOWEST_PERCENT, FASTEST_PERCENT = 90, 110
"""Bounds of the clock's speed while it approaches wall time."""
PAUSE_INTERVALS = 10
"""A clock that stood still for as many tick intervals (5 s by default, less than the shortest session) has paused."""


def next_clock_ms(clock_ms: int, elapsed_ms: int, wall_ms: int, interval_ms: int) -> int:
    """Where the clock may go from `clock_ms`, `elapsed_ms` of real time after it got there."""
    elapsed_ms = min(max(elapsed_ms, 0), interval_ms)
    slowest = clock_ms + elapsed_ms * SLOWEST_PERCENT // 100
    fastest = clock_ms + elapsed_ms * FASTEST_PERCENT // 100
    return min(max(wall_ms, slowest), fastest)


def before_a_pause(monotonic_ms: int, interval_ms: int) -> int:
    """A clock that goes on at `monotonic_ms` after it last moved here has paused."""
    return monotonic_ms - PAUSE_INTERVALS * interval_ms


class TickClock:
    """The clock of one shard. All times are handed in, in milliseconds; `elapsed` times come from a monotonic clock."""

    def __init__(self, start_ms: int, reached_ms: int, *, interval_ms: int, lead_ms: int) -> None:
        """`reached_ms`: the monotonic time at which the clock got to `start_ms`; of a log that exists, `before_a_pause`."""
        self.clock_ms = start_ms
        """The last acknowledged tick, or where the log stood at start."""
        self._reached_ms = reached_ms
        self._interval_ms = interval_ms
        self._lead_ms = lead_ms
        self._handled_ms = start_ms
        self._unhandled: deque[tuple[int, int]] = deque()

    def next_tick_ms(self, wall_ms: int, monotonic_ms: int) -> int | None:
        """The tick to write now; None when the clock has to stand still."""
        elapsed_ms = monotonic_ms - self._reached_ms
        tick_ms = next_clock_ms(self.clock_ms, elapsed_ms, wall_ms, self._interval_ms)
        tick_ms = min(tick_ms, self._handled_ms + self._lead_ms)
        return tick_ms if tick_ms > self.clock_ms else None

    def has_paused(self, monotonic_ms: int) -> bool:
        """Whether sessions must begin anew before the next tick."""
        return before_a_pause(monotonic_ms, self._interval_ms) >= self._reached_ms

    def acknowledge(self, tick_ms: int, offset: int, monotonic_ms: int) -> None:
        """The log holds this tick at this offset."""
        self.clock_ms = max(self.clock_ms, tick_ms)
        self._reached_ms = monotonic_ms
        self._unhandled.append((offset, tick_ms))

    def handled(self, end_offset: int, watermark_ms: int) -> None:
        """The query has committed all that lies before this offset; its clock is the watermark.

        A watermark beyond our own ticks comes from somebody else's: the clock goes on from there.
        """
        while self._unhandled and self._unhandled[0][0] < end_offset:
            self._handled_ms = max(self._handled_ms, self._unhandled.popleft()[1])
        self._handled_ms = max(self._handled_ms, watermark_ms)
        self.clock_ms = max(self.clock_ms, watermark_ms)
