"""When brokers took groups over, by their logs and by the answers alone."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.loads import (
    STALE,
    Places,
    loads_of,
    waited_for_move,
    with_restarts,
    without_stale,
)
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, GroupLoaded, GroupUnloaded
from schemas.error_codes import ErrorCode
from tests.proving.recordings.heartbeats import SECOND_US, request


def line(second: float, event: Any, broker: int) -> BrokerLine:
    return BrokerLine(time_ms=int(second * 1000), broker=broker, partition=0, file="f", number=1, event=event)


def test_another_broker_answers() -> None:
    requests = [request(1), request(2), request(4, broker=2, code=16), request(5, broker=2)]
    (load,) = loads_of(requests, (), Places(requests))
    assert 2 * SECOND_US < load.from_us < 4 * SECOND_US
    assert 4 * SECOND_US <= load.loaded_us <= 5 * SECOND_US


def test_the_same_broker_was_started_again() -> None:
    requests = [request(1), request(30, code=14), request(31)]
    (load,) = loads_of(requests, (), Places(requests))
    assert SECOND_US < load.from_us < 2 * SECOND_US
    assert 30 * SECOND_US < load.loaded_us <= 31 * SECOND_US


def test_brokers_logs_tell_when() -> None:
    requests = [request(1), request(2), request(5, broker=2)]
    moves = [
        line(3, GroupUnloaded(group_id="g"), 1),
        line(4, GroupLoaded(group_id="g"), 2),
    ]
    (load,) = loads_of(requests, moves, Places(requests))
    assert (load.from_us // SECOND_US, load.loaded_us, load.broker_id) == (3, 4 * SECOND_US, 2)


def test_a_load_before_the_group_was_is_none_of_its() -> None:
    requests = [request(2), request(3)]
    assert loads_of(requests, [line(1, GroupLoaded(group_id="g"), 1)], Places(requests)) == []


def test_a_client_that_asks_the_wrong_broker_moves_nothing() -> None:
    requests = [request(1), request(2, broker=2, code=16), request(3), request(4)]
    assert loads_of(requests, (), Places(requests)) == []


def test_files_and_addresses_of_one_broker_are_one_place() -> None:
    first, second = request(1), request(2)
    rotated = replace(second, logged=replace(second.logged, file_index=7))
    assert loads_of([first, rotated], (), Places([first, rotated])) == []


def test_in_a_taps_file_only_addresses_tell_brokers_apart() -> None:
    def tapped(request: GroupRequest) -> GroupRequest:
        return replace(request, logged=replace(request.logged, file_index=0, is_tapped=True))

    first, second = tapped(request(1)), tapped(request(2))
    assert loads_of([first, second], (), Places([first, second])) == []
    moved = tapped(request(2, broker=2))
    assert len(loads_of([first, moved], (), Places([first, moved]))) == 1


def test_a_join_that_waited_until_the_coordinator_moved_had_reached_the_group() -> None:
    waits = request(2, code=16, api="JoinGroup", waits_s=1.5)
    requests = [request(1), waits, request(5, broker=2)]
    loads = loads_of(requests, [line(3.5, GroupUnloaded(group_id="g"), 1), line(4, GroupLoaded(group_id="g"), 2)],
                     Places(requests))  # fmt: skip
    assert waited_for_move(waits, loads)
    assert not waited_for_move(request(2, code=16, api="JoinGroup"), loads)


def test_a_group_that_nobody_asked_for_was_loaded_by_the_broker_that_was_started_again() -> None:
    asked = [request(1), request(30, code=14), request(31)]
    silent = [request(2, connection=1), request(40, connection=2)]
    places = Places([*asked, *silent])
    groups = {"asked": asked, "silent": silent}
    loads = with_restarts(groups, {group_id: loads_of(each, (), places) for group_id, each in groups.items()}, places)
    assert loads["silent"] == []  # a connection outlived it: the group only moved

    asked = [request(1), request(30, code=14, connection=3), request(31, connection=3)]
    groups, places = {"asked": asked, "silent": silent}, Places([*asked, *silent])
    loads = with_restarts(groups, {group_id: loads_of(each, (), places) for group_id, each in groups.items()}, places)
    (load,) = loads["silent"]
    assert 2 * SECOND_US < load.from_us < load.loaded_us < 31 * SECOND_US
    assert len(loads["asked"]) == 1


def test_a_group_that_is_being_loaded_is_there_soon() -> None:
    """Its members' sessions begin then, and not when the first of them comes back."""
    requests = [request(1), request(30, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), request(33)]
    (load,) = loads_of(requests, (), Places(requests))
    assert 30 * SECOND_US < load.loaded_us <= 31 * SECOND_US


def test_a_refusal_that_is_sent_late_tells_of_no_second_load() -> None:
    """The first was refused while the group was loaded, and its answer was behind that of the second."""
    refused = request(1, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, waits_s=2.0)
    requests = [refused, request(2), request(4)]
    assert loads_of(requests, (), Places(requests)) == []


def test_groups_of_one_broker_are_loaded_when_the_first_of_them_is_there() -> None:
    """A member that asks late says little of when its group was loaded; a refusal says that it was not yet."""
    prompt = [request(1), request(30, code=14), request(31)]
    late = [request(1.2), request(30, code=14), request(36)]
    still_loading = [request(1.4), request(33, code=14), request(36)]
    groups = {"prompt": prompt, "late": late, "still loading": still_loading}
    places = Places([each for requests in groups.values() for each in requests])
    loads = with_restarts(groups, {group_id: loads_of(each, (), places) for group_id, each in groups.items()}, places)
    loaded_us = {group_id: load.loaded_us for group_id, (load,) in loads.items()}
    assert 30 * SECOND_US < loaded_us["prompt"] <= 31 * SECOND_US
    assert 30 * SECOND_US < loaded_us["late"] <= 31 * SECOND_US
    assert 33 * SECOND_US <= loaded_us["still loading"] <= 36 * SECOND_US


def test_what_another_broker_loads_says_nothing() -> None:
    here, there = [request(1), request(30, code=14), request(31)], [request(1, broker=2), request(36, broker=3)]
    groups = {"here": here, "there": there}
    places = Places([*here, *there])
    own = {group_id: loads_of(each, (), places) for group_id, each in groups.items()}
    loads = with_restarts(groups, own, places)
    assert {group_id: load.loaded_us for group_id, (load,) in loads.items()} == {
        group_id: load.loaded_us for group_id, (load,) in own.items()
    }


def test_a_broker_that_stood_still_and_does_not_know_of_its_successor_moves_nothing() -> None:
    """It answers from what it had, until it learns that another broker coordinates the group since long."""
    stale = [request(20, api="ConsumerGroupDescribe"), request(20.3)]
    requests = [request(1), request(8), request(15, broker=2), request(19, broker=2), *stale, request(21, broker=2)]
    groups = without_stale({"g": requests}, Places(requests))
    assert [each.set_aside for each in groups["g"]] == [None] * 4 + [STALE] * 2 + [None]
    (load,) = loads_of(groups["g"], (), Places(groups["g"]))
    assert 8 * SECOND_US < load.from_us < load.loaded_us <= 15 * SECOND_US


def test_a_group_that_goes_back_to_a_broker_that_answered_others_meanwhile_has_moved() -> None:
    back = [request(20), request(20.5)]
    requests = [request(1), request(15, broker=2), request(19, broker=2), *back, request(21, broker=2)]
    others = [request(second / 2) for second in range(2, 60)]
    groups = without_stale({"g": requests, "other": others}, Places([*requests, *others]))
    assert not any(each.set_aside for each in groups["g"])
