"""The arithmetic of the ticker (`streaming.ticker`), without a clock of its own. The rules:

- The clock follows wall time, at no less than 0.9 and no more than 1.1 times real speed, and never goes back.
- It continues from the last tick in the log. A pause of any kind (process down, log unavailable, machine asleep) is not
  jumped over: a step is never longer than 1.1 tick intervals, however much time went by.
- Where another ticker has ticked until now, also because this one stood still, the clock goes on without a pause. The
  brokers' time of the last tick that has moved it says so; one that moved nothing may come from a ticker that has yet
  to renew.
- After a pause every session begins anew: before the clock goes on, each group that was heard lately gets a renewal.
  Nobody who beats within a session of that is expired.
- What would take the clock too long to catch up, it leaves behind: after a pause it goes on at the brokers' time where
  it is an hour behind, or where the log has no tick yet. Before that every group of the log gets a renewal that moves
  its time there, with all that it waits for: to no group has any time gone by.
- A tick counts when the log has acknowledged it, and when it lies no further ahead of its own timestamp than it may
  (`schemas.ticks`). By those timestamps the wall clock is compared with the brokers': at the same bound the clock
  stands still, until the difference is half of that. Standing still expires nobody. Meanwhile, and before the first
  tick of a start, a tick that moves nothing asks what time it is there.
- It runs ahead of the query's own clock, its watermark, by a fixed lead at most: while nobody is answered, nobody's
  time runs out. Where a responder answers ahead of the query, its clock counts as well. The watermark, and not the last
  tick that a batch has read: what a timer decides is answered only when it has got there.
- A log in which nobody but the ticker has written anything for a while is at rest: its clock stands for some seconds,
  and then catches up in a few steps, each after the log has taken the one before. The ticker looks at the log's end
  in between. When somebody has come, the clock goes on at its usual pace at once, from where it stands. So nobody
  loses more than one step to it; what is late by some seconds is a timer of more than that while.
- To wait for the query is no pause, however long: the log takes what members say meanwhile. So that a log that fails
  just then is noticed, the tick is repeated, which changes nothing. (Were it a pause, batches that are always slow
  would renew every session each time, and no dead member would ever expire.)
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

SLOWEST_PERCENT, FASTEST_PERCENT = 90, 110
"""Bounds of the clock's speed while it approaches wall time."""
REST_AFTER_MS = 60_000
"""For so long nobody has written anything, then the log is at rest: sessions are shorter as a rule, and have run
out."""
REST_INTERVALS = 20
"""For so many tick intervals the clock of a log at rest stands. Each time that it goes on costs a batch."""
REST_STEP_INTERVALS = 3
"""Then it catches up by steps of so many tick intervals: whoever comes in between loses no more."""
CATCH_UP_MAX_MS = 3_600_000
"""To catch up an hour takes ten. What the clock is further behind, it leaves behind after the next pause."""


class Renewal(StrEnum):
    """A renewal restarts the sessions of some groups before a tick."""

    NOBODY = "nobody"
    RECENT = "recent"
    """Of groups that were heard lately: the others have no members."""
    ALL_AT_PRESENT = "all_at_present"
    """Of all groups, and their time goes on at the present."""


class Standstill(StrEnum):
    """The reason why the clock may not go on; the values are for metrics."""

    WALL_AHEAD = "wall_clock_ahead"
    """The wall clock is too far ahead of the brokers'."""
    LOG_AHEAD = "log_clock_ahead"
    """The log's own clock is: theirs was set back, or the log's was set forward before such ticks were refused."""


class Step(NamedTuple):
    """One step is written to the log at once."""

    tick_ms: int
    renewal: Renewal = Renewal.NOBODY
    """Is written before the tick. With `ALL_AT_PRESENT` the tick is then the time of the first of them: no group's
    time is behind it."""


class SendTimes(NamedTuple):
    """Both local clocks, at the moment when a tick was sent."""

    wall_ms: int
    monotonic_ms: int


class AppendedRecord(NamedTuple):
    """A record that Kafka has appended to the log."""

    offset: int
    timestamp_ms: int
    """When, by the brokers' clock."""


class TickerStatus(NamedTuple):
    """The state of a ticker, for metrics."""

    skew_ms: int | None = None
    """How far this machine's clock is ahead of the brokers', at least; None: not known yet."""
    standstill: Standstill | None = None
    """Why the clock stands still, if it does."""
    foreign_ticks: int = 0
    """How often the clock was found beyond all ticks of ours, by a tick that no responder has written."""
    clock_ms: int | None = None
    """Where the clock stands; None: not known yet."""


def next_clock_ms(clock_ms: int, elapsed_ms: int, wall_ms: int, interval_ms: int) -> int:
    """Return how far the clock may go from `clock_ms`, `elapsed_ms` of real time after it got there."""
    elapsed_ms = min(max(elapsed_ms, 0), interval_ms)
    slowest = clock_ms + elapsed_ms * SLOWEST_PERCENT // 100
    fastest = clock_ms + elapsed_ms * FASTEST_PERCENT // 100
    return min(max(wall_ms, slowest), fastest)


def rest_ms(interval_ms: int) -> int:
    """Return for how long the clock of a log at rest stands."""
    return REST_INTERVALS * interval_ms


class TickClock:
    """The clock of one shard. All times are handed in, in milliseconds; `elapsed` times come from a monotonic clock."""

    def __init__(
        self,
        start_ms: int,
        reached_ms: int | None,
        *,
        interval_ms: int,
        lead_ms: int,
        pause_ms: int,
        ahead_max_ms: int,
        has_ticks: bool = True,
        is_whole: bool = True,
        pauses_at_ms: int | None = None,
    ) -> None:
        """`reached_ms`: the monotonic time at which the clock got to `start_ms`; None of a log that exists: it has
        paused. `pause_ms`: for so long the log takes no tick, then it was a pause. `ahead_max_ms`: how far a tick
        may be ahead of its timestamp. `has_ticks`: whether the log that exists has any. `is_whole`: whether it
        reaches back to its beginning: only then all its groups are known. `pauses_at_ms`: the brokers' time
        from which on it is a pause, where another ticker has ticked until now; None: none has."""
        self.clock_ms = start_ms
        """The last acknowledged tick, or where the log stood at start."""
        self.standstill: Standstill | None = None
        """Why the clock stands still, as found by the last `next_step`."""
        self._acknowledged_ms = self._reached_ms = reached_ms
        """When the log took the last tick, and up to when the clock has gone on: at rest it catches up."""
        self._next_reached_ms: int | None = None
        """Up to when it has gone on with the step that is being written; None: up to the present."""
        self._answered_ms: int | None = None
        """When the log was last found to answer."""
        self.is_catching_up = False
        """In a log at rest the next step may follow at once."""
        self._interval_ms, self._lead_ms, self._pause_ms = interval_ms, lead_ms, pause_ms
        self._ahead_max_ms = ahead_max_ms
        self.is_new = reached_ms is not None
        """The log was empty, and has not taken a tick since."""
        self._holds_tick = has_ticks and not self.is_new
        self._has_ticks, self._is_whole = has_ticks or self.is_new, is_whole
        self._owes_renewal = not self.is_new
        self._pauses_at_ms = pauses_at_ms
        self._end = 0
        """The offset after the last tick of ours."""
        self._heard_ms = reached_ms
        """When somebody else was last found to have written; None: not known yet."""
        self._broker: tuple[int, SendTimes] | None = None
        """The brokers' time, and when it was asked for."""
        self._highest_ms = start_ms
        # Of a log that exists the query has to show first where it is.
        self._watermark_ms = start_ms if self.is_new else start_ms - lead_ms

    @property
    def skew_ms(self) -> int | None:
        """The least by which the wall clock was ahead of the brokers' at their last answer; None before the first."""
        return None if self._broker is None else self._broker[1].wall_ms - self._broker[0]

    @property
    def is_unsure(self) -> bool:
        """True if the log had no tick when it was read, and has got none since.

        It is to be read again before the next tick: the clock stands at what somebody else has written meanwhile.
        """
        return self.is_new or not (self._has_ticks or self._broker is not None)

    def finds_pause(self, monotonic_ms: int) -> bool:
        """Return whether there seems to have been a pause of which nothing was known before. It was none if another
        ticker has ticked meanwhile."""
        tickless_ms = self._since(self._acknowledged_ms, monotonic_ms)
        return not self._owes_renewal and self._has_paused(tickless_ms, monotonic_ms)

    def next_step(self, wall_ms: int, monotonic_ms: int) -> Step | None:
        """Return the step to write now; None if there is none."""
        was_catching_up, self.is_catching_up, self._next_reached_ms = self.is_catching_up, False, None
        elapsed_ms, tickless_ms = (self._since(ms, monotonic_ms) for ms in (self._reached_ms, self._acknowledged_ms))
        if self._has_paused(tickless_ms, monotonic_ms):
            self._owes_renewal = True
        is_quiet = 2 * tickless_ms >= self._pause_ms
        if self._broker is None:
            elapsed_ms = elapsed_ms if self.is_new else 0
            return Step(next_clock_ms(self.clock_ms, elapsed_ms, wall_ms, self._interval_ms))
        broker_ms = self._broker[0] + monotonic_ms - self._broker[1].monotonic_ms
        self.standstill = self._why_not(wall_ms, broker_ms)
        if self.standstill is not None:
            return Step(max(min(self.clock_ms, broker_ms), 1)) if is_quiet else None
        if self._owes_renewal and self._leaves_behind(broker_ms):
            return Step(broker_ms, Renewal.ALL_AT_PRESENT)
        if self.is_at_rest(monotonic_ms) and not self._owes_renewal:
            if elapsed_ms < self._rest_ms and not was_catching_up:
                return None
            return self._next_step_at_rest(wall_ms, monotonic_ms, elapsed_ms)
        tick_ms = next_clock_ms(self.clock_ms, elapsed_ms, wall_ms, self._interval_ms)
        tick_ms = max(min(tick_ms, self._watermark_ms + self._lead_ms), self.clock_ms)
        if self._owes_renewal:
            return Step(tick_ms, Renewal.RECENT)
        return Step(tick_ms) if tick_ms > self.clock_ms or is_quiet else None

    def _next_step_at_rest(self, wall_ms: int, monotonic_ms: int, elapsed_ms: int) -> Step:
        step_ms = REST_STEP_INTERVALS * self._interval_ms
        behind_ms = max(elapsed_ms - step_ms, 0)
        """After this step the clock stands where it should have stood so long ago."""
        tick_ms = next_clock_ms(self.clock_ms, elapsed_ms, wall_ms - behind_ms, step_ms)
        # The watermark is that of the batch before, which may have taken a part of what was written at once.
        tick_ms = min(tick_ms, self._watermark_ms + self._lead_ms + 2 * self._rest_ms)
        if tick_ms <= self.clock_ms:
            return Step(self.clock_ms)
        self._next_reached_ms = monotonic_ms - behind_ms
        return Step(tick_ms)

    def is_at_rest(self, monotonic_ms: int) -> bool:
        """Return whether only the ticker has written to the log for a while."""
        return self._heard_ms is not None and monotonic_ms - self._heard_ms >= REST_AFTER_MS

    def observe_end(self, end: int | None, monotonic_ms: int) -> None:
        """Note the end offset of the log; None if it is not known."""
        if end != self._end:
            self._heard_ms = monotonic_ms
        if end is not None:
            self._answered_ms = monotonic_ms

    def _why_not(self, wall_ms: int, broker_ms: int) -> Standstill | None:
        bound_ms = self._ahead_max_ms if self.standstill is None else self._ahead_max_ms // 2
        if wall_ms - broker_ms > bound_ms:
            return Standstill.WALL_AHEAD
        return Standstill.LOG_AHEAD if self.clock_ms - broker_ms > bound_ms else None

    def _leaves_behind(self, broker_ms: int) -> bool:
        if not self._has_ticks:
            return broker_ms > self.clock_ms
        return self._is_whole and broker_ms - self.clock_ms > CATCH_UP_MAX_MS

    def _has_paused(self, tickless_ms: int, monotonic_ms: int) -> bool:
        """At rest the log shows by its end that it is there, though not for ever that it takes what is written."""
        silence_ms = min(tickless_ms, self._since(self._answered_ms, monotonic_ms))
        return silence_ms >= self._pause_ms or tickless_ms >= self._rest_ms + self._pause_ms

    def _since(self, moment_ms: int | None, monotonic_ms: int) -> int:
        return self._pause_ms if moment_ms is None else monotonic_ms - moment_ms

    @property
    def _rest_ms(self) -> int:
        return rest_ms(self._interval_ms)

    def sending(self, tick_ms: int) -> None:
        """Note that this tick of ours is being written."""
        self._highest_ms = max(self._highest_ms, tick_ms)

    def acknowledge(self, step: Step, sent_at: SendTimes, appended: AppendedRecord, monotonic_ms: int) -> bool:
        """Note that the log holds this tick; return whether the clock has moved by it."""
        timestamp_ms = appended.timestamp_ms
        self.observe_end(appended.offset, monotonic_ms)
        self._end = appended.offset + 1
        self._acknowledged_ms = monotonic_ms
        self._reached_ms = monotonic_ms if self._next_reached_ms is None else self._next_reached_ms
        self.is_catching_up = self.is_at_rest(monotonic_ms) and monotonic_ms - self._reached_ms >= self._interval_ms
        if self._broker is None and self._pauses_at_ms is not None:
            self._owes_renewal = timestamp_ms >= self._pauses_at_ms
        self._broker = timestamp_ms, sent_at
        if step.tick_ms - timestamp_ms > self._ahead_max_ms:  # it is no valid tick
            if not self._holds_tick:
                self.clock_ms = self._highest_ms = timestamp_ms
            return False
        moves = step.tick_ms > self.clock_ms
        self.is_new, self._holds_tick = False, True
        self.clock_ms = max(self.clock_ms, step.tick_ms)
        if step.renewal is not Renewal.NOBODY:
            self._owes_renewal, self._has_ticks = False, True
        return moves

    def handled(self, watermark_ms: int) -> bool:
        """Note that a batch with this watermark is committed, or that a responder has answered up to this clock: all
        timers due until then are handled. Return whether it lies beyond our own ticks: then it comes from another
        ticker, and the clock goes on from there."""
        is_beyond = watermark_ms > self._highest_ms
        self._highest_ms = max(self._highest_ms, watermark_ms)
        self._watermark_ms = max(self._watermark_ms, watermark_ms)
        self.clock_ms = max(self.clock_ms, watermark_ms)
        return is_beyond
