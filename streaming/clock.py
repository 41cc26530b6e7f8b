"""The arithmetic of the ticker (`streaming.ticker`), without a clock of its own. The rules:

- The clock follows wall time, at no less than 0.9 and no more than 1.1 times real speed, and never goes back.
- It continues from the last tick in the log. A pause of any kind (process down, log unavailable, machine asleep) is not
  jumped over: a step is never longer than 1.1 tick intervals, however much time went by.
- After a pause every session begins anew: before the clock goes on, each group that was heard lately gets a renewal. Nobody
  who beats within a session of that is expired.
- A tick counts when the log has acknowledged it.
- It runs ahead of the query's own clock, its watermark, by a fixed lead at most: while nobody is answered, nobody's time runs out.
  The watermark, and not the last tick that a batch has read: what a timer decides is answered only when it has got there.
- To wait for the query is no pause, however long: the log takes what members say meanwhile. So that a log that fails just then
  is noticed, the tick is repeated, which changes nothing. (Were it a pause, batches that are always slow would renew every
  session each time, and no dead member would ever expire.)
"""

from __future__ import annotations

SLOWEST_PERCENT, FASTEST_PERCENT = 90, 110
"""Bounds of the clock's speed while it approaches wall time."""


def next_clock_ms(clock_ms: int, elapsed_ms: int, wall_ms: int, interval_ms: int) -> int:
    """Where the clock may go from `clock_ms`, `elapsed_ms` of real time after it got there."""
    elapsed_ms = min(max(elapsed_ms, 0), interval_ms)
    slowest = clock_ms + elapsed_ms * SLOWEST_PERCENT // 100
    fastest = clock_ms + elapsed_ms * FASTEST_PERCENT // 100
    return min(max(wall_ms, slowest), fastest)


class TickClock:
    """The clock of one shard. All times are handed in, in milliseconds; `elapsed` times come from a monotonic clock."""

    def __init__(self, start_ms: int, reached_ms: int | None, *, interval_ms: int, lead_ms: int, pause_ms: int) -> None:
        """`reached_ms`: the monotonic time at which the clock got to `start_ms`; None of a log that exists: it has paused.
        `pause_ms`: for so long the log takes no tick, then it was a pause."""
        self.clock_ms = start_ms
        """The last acknowledged tick, or where the log stood at start."""
        self._acknowledged_ms = reached_ms
        self._interval_ms = interval_ms
        self._lead_ms = lead_ms
        self._pause_ms = pause_ms
        # Of a log that exists the query has to show first where it is.
        self._watermark_ms = start_ms if reached_ms is not None else start_ms - lead_ms

    def next_tick_ms(self, wall_ms: int, monotonic_ms: int) -> int | None:
        """The tick to write now; None when there is none to write: the clock waits for the query."""
        elapsed_ms = self._silence_ms(monotonic_ms)
        tick_ms = next_clock_ms(self.clock_ms, elapsed_ms, wall_ms, self._interval_ms)
        tick_ms = min(tick_ms, self._watermark_ms + self._lead_ms)
        if tick_ms > self.clock_ms:
            return tick_ms
        return self.clock_ms if 2 * elapsed_ms >= self._pause_ms else None

    def has_paused(self, monotonic_ms: int) -> bool:
        """Whether sessions must begin anew before the next tick."""
        return self._silence_ms(monotonic_ms) >= self._pause_ms

    def _silence_ms(self, monotonic_ms: int) -> int:
        """For how long the log has taken no tick."""
        return self._pause_ms if self._acknowledged_ms is None else monotonic_ms - self._acknowledged_ms

    def acknowledge(self, tick_ms: int, monotonic_ms: int) -> bool:
        """The log holds this tick. Whether the clock has moved by it."""
        moves = tick_ms > self.clock_ms
        self.clock_ms = max(self.clock_ms, tick_ms)
        self._acknowledged_ms = monotonic_ms
        return moves

    def handled(self, watermark_ms: int) -> None:
        """The query has committed a batch with this watermark: all that was due until then is answered.

        One beyond our own ticks comes from somebody else's: the clock goes on from there.
        """
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        self.clock_ms = max(self.clock_ms, watermark_ms)
