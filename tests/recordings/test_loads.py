"""When brokers took groups over, by their logs and by the answers alone."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from group_coordinator.recordings.broker_lines import BrokerLine, GroupLoaded, GroupUnloaded
from group_coordinator.recordings.group_requests import GroupRequest
from group_coordinator.recordings.loads import Places, loads_of, waited_for_move
from group_coordinator.recordings.request_lines import LoggedRequest
from schemas.messages import HeartbeatRequest

SECOND_US = 1_000_000
REFUSED = "the broker answered NOT_COORDINATOR before it asked the group"


def request(second: float, *, broker: int = 1, code: int = 0, api: str = "Heartbeat", waits_s: float = 0.001) -> Any:
    handled_us = int(second * SECOND_US)
    logged = LoggedRequest(
        arrival_us=handled_us, file_index=broker, line_number=1, handled_us=handled_us, local_us=0,
        ready_us=handled_us + int(waits_s * SECOND_US), logged_us=handled_us, api=api, api_version=4, correlation_id=1,
        client_id="c", client_host="/h", connection=f"b:{9091 + broker}-c:1-0-1", request=b"{}", response=b"{}",
    )  # fmt: skip
    return GroupRequest(
        logged=logged,
        group_id="g",
        request_id=str(second),
        request=HeartbeatRequest(group_id="g", member_id="m", generation_id=1),
        response={"errorCode": code},
        new_member_id=None,
        set_aside=REFUSED if code else None,
    )


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


def test_a_join_that_waited_until_the_coordinator_moved_had_reached_the_group() -> None:
    waits = request(2, code=16, api="JoinGroup", waits_s=1.5)
    requests = [request(1), waits, request(5, broker=2)]
    loads = loads_of(requests, [line(3.5, GroupUnloaded(group_id="g"), 1), line(4, GroupLoaded(group_id="g"), 2)],
                     Places(requests))  # fmt: skip
    assert waited_for_move(waits, loads)
    assert not waited_for_move(request(2, code=16, api="JoinGroup"), loads)
