"""Who ticks for a shard, by a clock that the tests set."""

from __future__ import annotations

import pytest

from group_coordinator.responder.ticking import TickerElection

PAUSE_MS = 3_000
SILENCE_MS = 2_000
GATEWAY_MS = 3_000
REST_MS = 10_000


def election(name: str = "responder-0-m", pause_ms: int = PAUSE_MS) -> TickerElection:
    return TickerElection(name, pause_ms, REST_MS, 0)


def test_a_responder_ticks_when_the_coordinator_is_silent_and_a_gateway_is_there() -> None:
    decided = election()
    decided.tick_seen(None, 1_000)
    decided.gateway_heard(1_000)
    assert not decided.decide(999 + SILENCE_MS, has_caught_up=True)
    assert decided.decide(1_000 + SILENCE_MS, has_caught_up=True)
    assert SILENCE_MS < PAUSE_MS, "it is no pause"


def test_without_a_gateway_nobody_ticks_and_it_ends_soon_after_the_last_sign() -> None:
    decided = election()
    assert not decided.decide(10**9, has_caught_up=True)
    decided.gateway_heard(10**9)
    assert decided.decide(10**9, has_caught_up=True)
    assert decided.decide(10**9 + GATEWAY_MS, has_caught_up=True)
    assert not decided.decide(10**9 + GATEWAY_MS + 1, has_caught_up=True)
    decided.gateway_heard(10**9 + 60_000)
    assert decided.decide(10**9 + 60_000, has_caught_up=True)


def test_a_gateway_may_be_silent_for_as_long_as_a_pause() -> None:
    decided = election(pause_ms=20_000)
    decided.gateway_heard(20_000)
    assert decided.decide(40_000, has_caught_up=True)
    assert not decided.decide(40_001, has_caught_up=True)


def test_who_has_not_read_the_log_to_its_end_does_not_begin_but_goes_on() -> None:
    decided = election()
    decided.gateway_heard(60_000)
    assert not decided.decide(60_000, has_caught_up=False)
    assert decided.decide(60_000, has_caught_up=True)
    assert decided.decide(60_100, has_caught_up=False)


def test_the_first_tick_of_the_coordinator_ends_it() -> None:
    decided = election()
    decided.gateway_heard(5_000)
    assert decided.decide(5_000, has_caught_up=True)
    decided.tick_seen("responder-0-m", 5_100)
    assert decided.decide(5_100, has_caught_up=True), "its own ticks say nothing"
    decided.tick_seen(None, 5_200)
    assert not decided.decide(5_200, has_caught_up=True)


@pytest.mark.parametrize(("other", "goes_on"), [("responder-0-a", False), ("responder-0-z", True)])
def test_of_two_responders_one_goes_on(other: str, goes_on: bool) -> None:
    decided = election()
    decided.gateway_heard(5_000)
    assert decided.decide(5_000, has_caught_up=True)
    decided.tick_seen(other, 5_100)
    assert decided.decide(5_100, has_caught_up=True) == goes_on


def test_while_another_responder_ticks_none_begins() -> None:
    decided = election()
    for now_ms in range(0, 20_000, 500):
        decided.gateway_heard(now_ms)
        decided.tick_seen("responder-0-z", now_ms)
        assert not decided.decide(now_ms + 499, has_caught_up=True)


def test_the_clock_of_a_log_at_rest_may_stand_for_longer() -> None:
    decided = election()
    decided.tick_seen(None, 0, is_at_rest=True)
    decided.gateway_heard(REST_MS)
    assert not decided.decide(REST_MS + SILENCE_MS - 1, has_caught_up=True)
    assert decided.decide(REST_MS + SILENCE_MS, has_caught_up=True)


def test_when_somebody_comes_to_a_log_at_rest_its_ticker_has_the_usual_time() -> None:
    decided = election()
    decided.tick_seen(None, 0, is_at_rest=True)
    decided.gateway_heard(9_000)
    decided.event_seen(9_000)
    decided.event_seen(9_500)
    assert not decided.decide(9_000 + SILENCE_MS - 1, has_caught_up=True)
    assert decided.decide(9_000 + SILENCE_MS, has_caught_up=True)
