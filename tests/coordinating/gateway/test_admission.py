"""Room for what is under way and for what is buffered: who gets it, who waits, who must go."""

from __future__ import annotations

from group_coordinator.coordinating.gateway.admission import LIGHT_BYTES, Admission
from group_coordinator.coordinating.gateway.buffered import Buffered
from tests.coordinating.gateway.accounts import Clock, Someone


def test_small_requests_of_who_waits_for_nothing_pass_whatever_others_ask() -> None:
    room, hostile, honest = Admission(1_000_000, 1_000_000), Someone(), Someone()
    while room.admits(hostile, 100_000):
        pass
    assert room.bytes == 1_000_000
    assert room.admits(honest, LIGHT_BYTES)
    assert not room.admits(honest, 1), "one at a time, while there is no room"
    room.release(honest, LIGHT_BYTES)
    assert room.admits(honest, LIGHT_BYTES)


def test_one_connection_does_not_take_all_the_room() -> None:
    room, greedy, other = Admission(1_000_000, 200_000), Someone(), Someone()
    assert room.admits(greedy, 150_000)
    assert not room.admits(greedy, 60_000)
    room.forget(greedy)
    assert room.admits(other, 300_000), "one request may be larger"


def test_what_is_larger_than_all_the_room_goes_alone() -> None:
    room, large, light = Admission(1_000, 1_000), Someone(), Someone()
    assert room.admits(large, 50_000)
    assert not room.admits(light, LIGHT_BYTES + 1)
    room.release(large, 50_000)
    assert light.called
    assert room.admits(light, LIGHT_BYTES + 1)


def test_who_waits_is_told_in_order_and_not_overtaken_by_what_is_heavy() -> None:
    room = Admission(100_000, 100_000)
    holder, first, second = Someone(), Someone(), Someone()
    assert room.admits(holder, 100_000)
    assert not room.admits(first, 90_000)
    assert not room.admits(second, 50_000)
    room.release(holder, 50_000)
    assert (first.called, second.called) == (1, 0)
    assert not room.admits(second, 50_000), "the first is larger, and would never come"
    room.release(holder, 50_000)
    assert room.admits(first, 90_000)
    assert second.called == 1
    room.forget(second)
    room.release(first, 90_000)
    assert room.bytes == 0


def buffered(bytes_max: int = 1_000, timeout_s: float = 30.0) -> tuple[Buffered, Clock]:
    clock = Clock()
    return Buffered(bytes_max, timeout_s, clock), clock


def test_who_holds_most_for_longest_goes_first() -> None:
    account, clock = buffered()
    hostile, honest = [Someone() for _ in range(9)], Someone()
    for holder in hostile:
        account.note(holder, 100, 0, is_unfinished=True)
    clock.now = 5.0
    account.note(honest, 300, 0, is_unfinished=False)
    assert not honest.given_up
    given_up = [holder for holder in hostile if holder.given_up]
    assert given_up
    account.note(honest, 0, 1, is_unfinished=False)
    assert account.bytes == 100 * (9 - len(given_up))


def test_who_moves_on_counts_from_then() -> None:
    account, clock = buffered()
    moving, stuck = Someone(), Someone()
    for number in range(10):
        clock.now = float(number)
        account.note(moving, 500, number, is_unfinished=False)
        if number == 5:
            account.note(stuck, 400, 0, is_unfinished=False)
    account.note(moving, 700, 11, is_unfinished=False)
    assert stuck.given_up
    assert not moving.given_up


def test_a_request_must_come_in_time() -> None:
    account, clock = buffered()
    slow, waiting = Someone(), Someone()
    account.note(slow, 1, 0, is_unfinished=True)
    account.note(waiting, 1, 0, is_unfinished=False)
    clock.now = 29.0
    account.note(slow, 2, 0, is_unfinished=True)
    account.sweep()
    assert not slow.given_up, "a byte now and then is not the end"
    clock.now = 30.0
    account.sweep()
    assert slow.given_up
    assert not waiting.given_up
