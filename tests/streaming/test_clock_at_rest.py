"""The arithmetic of the ticker in a log in which nobody else writes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from streaming.clock import REST_AFTER_MS, REST_INTERVALS, REST_STEP_INTERVALS, Renewal, Step
from tests.streaming.tick_clocks import INTERVAL_MS, PAUSE_MS, clock, write

REST_MS = REST_INTERVALS * INTERVAL_MS


class Log:
    """A log with a ticker that is on time, and now and then somebody else."""

    def __init__(self, lead_ms: int = 3_000) -> None:
        self.ticker = clock(0, lead_ms)
        self.real_ms = 0
        self.end = 0
        self.ticks: list[int] = []
        """When there was one, by real time."""
        self.clocks: list[int] = []

    def passes(self, for_ms: int) -> None:
        until_ms = self.real_ms + for_ms
        while self.real_ms < until_ms:
            self.real_ms += INTERVAL_MS
            if self.ticker.is_at_rest(self.real_ms):
                self.ticker.observe_end(self.end, self.real_ms)
            before_ms = self.ticker.clock_ms
            if self.write() is not None:
                while self.ticker.is_catching_up:
                    self.write()
                self.ticker.handled(before_ms)

    def write(self) -> Step | None:
        step = write(self.ticker, self.real_ms, self.real_ms, offset=self.end)
        if step is not None:
            assert step.renewal is Renewal.NOBODY
            self.end += 1
            self.ticks.append(self.real_ms)
            self.clocks.append(self.ticker.clock_ms)
        return step

    @property
    def lag_ms(self) -> int:
        return self.real_ms - self.ticker.clock_ms


def test_the_clock_of_a_log_in_which_nobody_writes_stands_and_catches_up() -> None:
    log = Log()
    log.passes(REST_AFTER_MS)
    assert len(log.ticks) == REST_AFTER_MS // INTERVAL_MS - 1
    del log.ticks[:], log.clocks[:]
    log.passes(600_000)
    assert 0 <= len(set(log.ticks)) - 600_000 // REST_MS <= 1, "one batch takes what is written at once"
    assert log.lag_ms < REST_MS
    assert max(after - before for before, after in pairwise(log.clocks)) == REST_STEP_INTERVALS * INTERVAL_MS
    log.passes(REST_MS - log.lag_ms)
    assert log.lag_ms == 0


def test_whoever_comes_while_the_clock_catches_up_loses_one_step() -> None:
    log = Log()
    log.passes(REST_AFTER_MS)
    log.real_ms += REST_MS - INTERVAL_MS  # looks in between find nobody
    log.ticker.observe_end(log.end, log.real_ms)
    log.real_ms += INTERVAL_MS
    stood_ms = log.ticker.clock_ms
    log.end += 1
    assert log.write() is not None
    assert not log.ticker.is_catching_up
    assert log.ticker.clock_ms == stood_ms + REST_STEP_INTERVALS * INTERVAL_MS
    log.real_ms += INTERVAL_MS
    assert log.write() == Step(log.ticker.clock_ms)
    assert log.ticker.clock_ms == stood_ms + (REST_STEP_INTERVALS + 1.1) * INTERVAL_MS


def test_whoever_comes_to_a_log_at_rest_loses_no_more_time_than_otherwise() -> None:
    log = Log()
    log.passes(REST_AFTER_MS + 10_000)
    while log.ticks[-1] == log.real_ms:
        log.passes(INTERVAL_MS)
    log.end += 1
    stood_ms = log.ticker.clock_ms
    log.ticker.handled(stood_ms)  # the watermark of the batch that he is in
    log.passes(INTERVAL_MS)
    assert log.ticks[-1] == log.real_ms, "at once"
    assert 0 < log.ticker.clock_ms - stood_ms <= 1.1 * INTERVAL_MS
    del log.ticks[:]
    log.passes(30_000)
    assert len(log.ticks) == 30_000 // INTERVAL_MS
    log.end += 1
    log.passes(9 * REST_MS - 30_000)
    assert log.lag_ms == 0, "it catches up at a tenth of real speed"


def test_one_whose_end_is_not_known_is_not_at_rest() -> None:
    log = Log()
    log.passes(REST_AFTER_MS)
    assert log.ticker.is_at_rest(log.real_ms)
    log.ticker.observe_end(None, log.real_ms)
    assert not log.ticker.is_at_rest(log.real_ms)


@pytest.mark.parametrize("looks", [True, False], ids=["it can be read", "it cannot be read"])
def test_a_log_at_rest_that_takes_no_tick_has_paused(looks: bool) -> None:
    log = Log()
    log.passes(REST_AFTER_MS + REST_MS)
    log.ticker.handled(log.ticker.clock_ms)
    answered_ms = log.ticks[-1] if looks else log.real_ms
    while (step := log.ticker.next_step(log.real_ms, log.real_ms)) is None or step.renewal is Renewal.NOBODY:
        log.real_ms += INTERVAL_MS
        if looks:
            log.ticker.observe_end(log.end, log.real_ms)
    assert log.real_ms - answered_ms == PAUSE_MS + (REST_MS if looks else 0)
    assert log.ticker.clock_ms < step.tick_ms <= log.ticker.clock_ms + 1.1 * INTERVAL_MS


def test_at_rest_the_clock_does_not_run_away_from_the_query_either() -> None:
    log = Log()
    log.passes(2 * REST_AFTER_MS)
    handled_ms = log.ticker.clock_ms
    log.ticker.handled(handled_ms)
    for real_ms in range(log.real_ms, log.real_ms + 120_000, INTERVAL_MS):
        log.real_ms = real_ms
        log.ticker.observe_end(log.end, real_ms)
        log.write()
    assert log.ticker.clock_ms == handled_ms + 3_000 + 2 * REST_MS
    assert log.real_ms - log.ticks[-1] <= REST_MS, "it is tried all the while whether the log takes ticks"
