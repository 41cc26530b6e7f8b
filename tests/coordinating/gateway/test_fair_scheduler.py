"""Slices of the loop's time: long work comes after everybody else's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from group_coordinator.coordinating.gateway.fair_scheduler import FairScheduler
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.machines import connection, fed
from tests.coordinating.gateway.raw_requests import commit_of, find_coordinators


def run_turns(work: Callable[[FairScheduler, list[str]], None]) -> list[str]:
    seen: list[str] = []

    async def live() -> None:
        loop = asyncio.get_running_loop()
        scheduler = FairScheduler(loop)
        work(scheduler, seen)
        for _ in range(20):
            seen.append("loop")
            await asyncio.sleep(0)

    asyncio.run(live())
    return seen


def test_between_two_long_turns_the_loop_sees_to_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.coordinating.gateway.fair_scheduler.SLICE_S", 0.0)

    def work(scheduler: FairScheduler, seen: list[str]) -> None:
        for name in "abc":
            scheduler.ask_for(lambda name=name: seen.append(name))  # type: ignore[misc]

    assert run_turns(work)[:6] == ["loop", "a", "loop", "b", "loop", "c"]


def test_who_has_more_comes_again_behind_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.coordinating.gateway.fair_scheduler.SLICE_S", 0.0)

    def work(scheduler: FairScheduler, seen: list[str]) -> None:
        left = {"a": 3, "b": 1}

        def turn_of(name: str) -> Callable[[], None]:
            def turn() -> None:
                seen.append(name)
                left[name] -= 1
                if left[name]:
                    scheduler.ask_for(turn)

            return turn

        a, b = turn_of("a"), turn_of("b")
        for turn in (a, a, b):
            scheduler.ask_for(turn)

    assert [each for each in run_turns(work) if each != "loop"] == ["a", "b", "a", "a"]


def test_a_turn_that_fails_costs_the_others_nothing() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    def work(scheduler: FairScheduler, seen: list[str]) -> None:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: seen.append("failed"))
        scheduler.ask_for(fail)
        gone = lambda: seen.append("gone")  # noqa: E731
        scheduler.ask_for(gone)
        scheduler.ask_for(lambda: seen.append("next"))
        scheduler.forget(gone)

    assert [each for each in run_turns(work) if each != "loop"] == ["failed", "next"]


def begun_at_once(data: bytes) -> tuple[int, bool]:
    """How many of the requests are begun when they come, and whether there are more."""
    machine = connection(is_alone=False)
    machine.from_client(data)
    return len(machine.to_coordinator), machine.has_more


def test_a_small_request_is_begun_at_once_and_the_many_behind_it_in_turns() -> None:
    assert begun_at_once(wire.heartbeat(1)) == (1, False)
    begun, has_more = begun_at_once(b"".join(wire.heartbeat(number) for number in range(200)))
    assert 1 <= begun <= 10
    assert has_more


def test_a_dense_request_waits_for_its_turn_and_is_alone_in_it() -> None:
    assert begun_at_once(find_coordinators(10_000)) == (0, True)
    machine = connection(is_alone=False)
    machine.from_client(find_coordinators(10_000) * 3)
    for turn in range(3):
        assert machine.has_more
        assert not machine.reads_client
        machine.go_on()
        assert len(machine.to_coordinator) == turn + 1
    assert not machine.has_more


@pytest.mark.parametrize("partitions", [24_999, 25_000, 50_000])
def test_a_request_has_only_so_many_items(partitions: int) -> None:
    """Each costs far more than its bytes; the topic is one, too."""
    machine = fed(connection(), commit_of(partitions))
    assert len(machine.to_coordinator) == (partitions < 25_000)
    assert (machine.closing is not None) == (partitions >= 25_000)


def test_an_unfinished_request_is_told_from_one_that_waits() -> None:
    request = find_coordinators(10_000)
    machine = fed(connection(), request[:-1])
    assert (machine.awaits_rest, machine.has_more, machine.buffered_bytes) == (True, False, len(request) - 1)
    machine.from_client(request[-1:])
    assert (machine.awaits_rest, machine.buffered_bytes) == (False, 0)
