"""The ticker of one shard, with the arithmetic of the real one: it lives in the driver's process and reads its clock
anew."""

from __future__ import annotations

from coordinator_state.rule_changes import names_rules
from schemas.events import RENEWAL_AT_PRESENT, SESSION_RENEWAL, encode_tick
from simulation.log import Log, ticks_of
from streaming.clock import AppendedRecord, Renewal, SendTimes, TickClock


class Ticker:
    """Appends ticks to one partition while it is up."""

    def __init__(self, log: Log, shard: int, interval_ms: int, session_min_ms: int, ahead_max_ms: int) -> None:
        self._log = log
        self._shard = shard
        self._interval_ms = interval_ms
        self._half_session_ms = session_min_ms // 2
        self._ahead_max_ms = ahead_max_ms
        self._clock: TickClock | None = None

    def start(self, wall_ms: int, monotonic_ms: int) -> None:
        """Go on from where the log stands."""
        records = [
            record for record in self._log.partitions[self._shard]
            if record.key is not None or not names_rules(record.value)
        ]  # fmt: skip
        ticks = [clock_ms for _, clock_ms in ticks_of(records, self._ahead_max_ms)]
        if ticks:
            start_ms = max(ticks)
        elif records:
            start_ms = records[0].timestamp_ms
        else:
            start_ms = wall_ms
        self._clock = TickClock(
            start_ms,
            None if records else monotonic_ms,
            interval_ms=self._interval_ms,
            lead_ms=self._half_session_ms,
            pause_ms=self._half_session_ms,
            ahead_max_ms=self._ahead_max_ms,
            has_ticks=bool(ticks),
        )

    def stop(self) -> None:
        self._clock = None

    def handled(self, watermark_ms: int) -> None:
        if self._clock is not None:
            self._clock.handled(watermark_ms)

    def tick(self, wall_ms: int, monotonic_ms: int, timestamp_ms: int) -> None:
        """Append a tick if the clock may go on, or several of a log at rest; after a pause every session begins anew
        before it."""
        self._tick(wall_ms, monotonic_ms, timestamp_ms)
        while self._clock is not None and self._clock.is_catching_up:
            self._tick(wall_ms, monotonic_ms, timestamp_ms)

    def _tick(self, wall_ms: int, monotonic_ms: int, timestamp_ms: int) -> None:
        if self._clock is None:
            return
        if self._clock.is_unsure:
            self.start(wall_ms, monotonic_ms)
        log = self._log.partitions[self._shard]
        if self._clock.is_at_rest(monotonic_ms):
            self._clock.observe_end(len(log), monotonic_ms)
        step = self._clock.next_step(wall_ms, monotonic_ms)
        if step is None:
            return
        if step.renewal is not Renewal.NOBODY:
            at_present = step.renewal is Renewal.ALL_AT_PRESENT
            for key in dict.fromkeys(record.key for record in log if record.key is not None):
                value = RENEWAL_AT_PRESENT if at_present else SESSION_RENEWAL
                self._log.append(self._shard, timestamp_ms, key, value, monotonic_ms)
            if at_present:
                step = step._replace(tick_ms=timestamp_ms)
        self._clock.sending(step.tick_ms)
        self._log.append(self._shard, timestamp_ms, None, encode_tick(step.tick_ms), monotonic_ms)
        self._clock.acknowledge(
            step, SendTimes(wall_ms, monotonic_ms), AppendedRecord(len(log) - 1, timestamp_ms), monotonic_ms
        )
