"""Who ticks for a shard, by a clock that the tests set."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.responder.ticking import TickerElection

PAUSE_MS = 3_000
SILENCE_MS = 2_000
GATEWAY_MS = 3_000
REST_MS = 10_000
LOOK_MS = 200


class Responder:
    """A responder that looks at its log again and again while time goes by. Gateways are there until they are not."""

    def __init__(self, name: str = "responder-0-m", pause_ms: int = PAUSE_MS) -> None:
        self.election = TickerElection(name, pause_ms, REST_MS, 0)
        self.now_ms = 0
        self.hears_gateways = True

    def run_until(self, time_ms: int, *, has_caught_up: bool = True) -> bool:
        """Return whether it ticks then."""
        for now_ms in [*range(self.now_ms + LOOK_MS, time_ms, LOOK_MS), time_ms]:
            self.wake_up(now_ms, has_caught_up=has_caught_up)
        return self.election.may_tick(time_ms)

    def wake_up(self, now_ms: int, *, has_caught_up: bool = True) -> bool:
        """Look for the first time since it stood still; return whether it ticks then."""
        self.now_ms = now_ms
        if self.hears_gateways:
            self.election.gateway_heard(now_ms)
        return self.election.look(now_ms, has_caught_up=has_caught_up)

    def sees_tick(self, writer: str | None, *, is_at_rest: bool = False) -> None:
        self.election.tick_seen(writer, self.now_ms, is_at_rest=is_at_rest)


def test_a_responder_ticks_when_the_coordinator_is_silent_and_a_gateway_is_there() -> None:
    responder = Responder()
    responder.run_until(1_000)
    responder.sees_tick(None)
    assert not responder.run_until(999 + SILENCE_MS)
    assert responder.run_until(1_000 + SILENCE_MS)
    assert SILENCE_MS < PAUSE_MS, "it is no pause"


def test_without_a_gateway_nobody_ticks_and_it_ends_soon_after_the_last_sign() -> None:
    responder = Responder()
    responder.hears_gateways = False
    assert not responder.run_until(60_000)
    responder.hears_gateways = True
    assert responder.run_until(60_200)
    responder.hears_gateways = False
    assert responder.run_until(60_200 + GATEWAY_MS)
    assert not responder.run_until(60_200 + GATEWAY_MS + 1)
    responder.hears_gateways = True
    assert responder.run_until(90_000)


def test_a_gateway_may_be_silent_for_as_long_as_a_pause() -> None:
    responder = Responder(pause_ms=20_000)
    assert responder.run_until(20_000)
    responder.hears_gateways = False
    assert responder.run_until(40_000)
    assert not responder.run_until(40_001)


def test_who_has_not_read_the_log_to_its_end_does_not_begin_but_goes_on() -> None:
    responder = Responder()
    assert not responder.run_until(60_000, has_caught_up=False)
    assert responder.run_until(60_200, has_caught_up=True)
    assert responder.run_until(60_400, has_caught_up=False)


def test_the_first_tick_of_the_coordinator_ends_it() -> None:
    responder = Responder()
    assert responder.run_until(5_000)
    responder.sees_tick("responder-0-m")
    assert responder.run_until(5_100), "its own ticks say nothing"
    responder.sees_tick(None)
    assert not responder.run_until(5_200)


@pytest.mark.parametrize(("other", "goes_on"), [("responder-0-a", False), ("responder-0-z", True)])
def test_of_two_responders_one_goes_on(other: str, goes_on: bool) -> None:
    responder = Responder()
    assert responder.run_until(5_000)
    responder.sees_tick(other)
    assert responder.run_until(5_100) == goes_on


def test_while_another_responder_ticks_none_begins() -> None:
    responder = Responder()
    for now_ms in range(500, 20_000, 500):
        assert not responder.run_until(now_ms)
        responder.sees_tick("responder-0-z")


def test_the_clock_of_a_log_at_rest_may_stand_for_longer() -> None:
    responder = Responder()
    responder.sees_tick(None, is_at_rest=True)
    assert not responder.run_until(REST_MS + SILENCE_MS - 1)
    assert responder.run_until(REST_MS + SILENCE_MS)


def test_when_somebody_comes_to_a_log_at_rest_its_ticker_has_the_usual_time() -> None:
    responder = Responder()
    responder.sees_tick(None, is_at_rest=True)
    responder.run_until(9_000)
    responder.election.event_seen(9_000)
    responder.run_until(9_500)
    responder.election.event_seen(9_500)
    assert not responder.run_until(9_000 + SILENCE_MS - 1)
    assert responder.run_until(9_000 + SILENCE_MS)


@pytest.mark.parametrize("away_ms", [SILENCE_MS, 10 * SILENCE_MS])
@pytest.mark.parametrize("looks_first", [True, False])
def test_who_ticked_and_stood_still_does_not_go_on_as_if_nothing_had_been(away_ms: int, looks_first: bool) -> None:
    """A coordinator may tick by now. The log's end is still the one that was read before, and signs of gateways may
    have been read already."""
    responder = Responder()
    assert responder.run_until(5_000)
    woken_ms = 5_000 + away_ms
    if looks_first:
        assert not responder.wake_up(woken_ms)
    responder.election.gateway_heard(woken_ms)
    assert not responder.election.may_tick(woken_ms)
    responder.wake_up(woken_ms + 1)
    responder.sees_tick(None)
    assert not responder.run_until(woken_ms + 1_500)


def test_who_stood_still_counts_silence_anew() -> None:
    """It has heard nobody tick for a while, because it did not listen."""
    responder = Responder()
    responder.run_until(1_000)
    responder.sees_tick(None)
    assert not responder.wake_up(1_000 + SILENCE_MS)
    assert not responder.run_until(1_000 + 2 * SILENCE_MS - 1)
    assert responder.run_until(1_000 + 2 * SILENCE_MS)


def test_a_slow_moment_of_who_ticks_is_no_handover() -> None:
    responder = Responder()
    assert responder.run_until(5_000)
    assert responder.wake_up(5_000 + SILENCE_MS - 1)
