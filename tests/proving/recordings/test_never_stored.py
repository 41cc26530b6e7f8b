"""What a coordinator did after it had lost its partition is undone by the load that follows."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from group_coordinator.proving.recordings.coordinator_log import LogEntry
from group_coordinator.proving.recordings.expectations import Load
from group_coordinator.proving.recordings.group_requests import GroupRequest
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.loads import Places, loads_of
from group_coordinator.proving.recordings.never_stored import is_undone, kept_entries, with_undone, with_unstored
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, GroupLoaded
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatRequest, JoinGroupRequest, SyncGroupAssignment, SyncGroupRequest
from tests.proving.recordings.heartbeats import request

STANDSTILL_MS = (2_500, 12_000)


def refused(second: float) -> GroupRequest:
    """Return a heartbeat that is answered with UNKNOWN_MEMBER_ID by the group."""
    return replace(request(second, code=ErrorCode.UNKNOWN_MEMBER_ID), set_aside=None)


def joined(second: float, generation: int) -> GroupRequest:
    """Return a JoinGroup of a member that comes anew."""
    body = JoinGroupRequest(
        group_id="g", session_timeout_ms=8_000, rebalance_timeout_ms=8_000, member_id="", group_instance_id=None,
        protocol_type="consumer", protocols=(),
    )  # fmt: skip
    answer = {"errorCode": 0, "generationId": generation, "leader": "n", "memberId": "n"}
    return replace(request(second, api="JoinGroup"), request=body, response=answer, new_member_id="n")


def of_loads(requests: list[GroupRequest], entries: list[LogEntry] | None = None) -> list[Load]:
    places = Places(requests)
    loads = {"g": loads_of(requests, (), places)}
    return with_undone({"g": requests}, loads, {"g": entries or []}, [STANDSTILL_MS], places)["g"]


LOADED = request(13, code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_who_goes_on_after_the_load_had_not_expired() -> None:
    last, lost = request(2), refused(12.5)
    requests = [request(1), last, lost, LOADED, request(14)]
    (load,) = of_loads(requests)
    assert load.undone_from_us == STANDSTILL_MS[0] * 1000
    assert last.logged.handled_us < load.from_us < lost.logged.handled_us
    assert is_undone(lost, [load])
    assert not is_undone(last, [load])


def test_who_expired_for_good_stays_so() -> None:
    requests = [request(1), request(2), refused(12.5), LOADED, refused(14)]
    (load,) = of_loads(requests)
    assert load.undone_from_us is None


@pytest.mark.parametrize(("generation", "is_there"), [(1, True), (3, False)])
def test_a_generation_that_would_have_ended_shows_it(generation: int, is_there: bool) -> None:
    requests = [joined(1, 1), request(2), refused(12.5), LOADED, joined(14, generation)]
    (load,) = of_loads(requests)
    assert (load.undone_from_us is not None) == is_there


def test_what_a_broker_s_log_tells_of_it_is_undone_too() -> None:
    before = LogEntry(1_500, "member expired", member_ids=frozenset({"other"}))
    expired = LogEntry(12_100, "member expired", member_ids=frozenset({"m"}))
    (load,) = of_loads([request(1), request(2), LOADED, request(14)], [before, expired])
    assert kept_entries([before, expired], [load]) == [before]


def test_what_the_new_coordinator_refuses_stays() -> None:
    """It refuses a member that was gone as soon as it has the group, before its log tells that it has."""
    old = refused(12.5)
    new = replace(refused(13.9), request=HeartbeatRequest(group_id="g", member_id="other", generation_id=1))
    moves = [BrokerLine(time_ms=13_901, broker=1, partition=0, file="f", number=1, event=GroupLoaded(group_id="g"))]
    requests = [request(1), request(2), old, LOADED, new, request(14)]
    places = Places(requests)
    loads = {"g": loads_of(requests, moves, places)}
    (load,) = with_undone({"g": requests}, loads, {}, [STANDSTILL_MS], places)["g"]
    assert is_undone(old, [load])
    assert not is_undone(new, [load])


def test_a_heartbeat_of_nobody_is_answered_while_the_group_is_loaded(tmp_path: Path) -> None:
    """Kafka answers heartbeats with no error then, also that of a member which was told that it is unknown."""
    path = tmp_path / "request.log"
    path.write_text(
        '[2026-11-27 22:30:31,531] DEBUG Completed request:{"isForwarded":false,"requestHeader":{"requestApiKey":12,'
        '"requestApiVersion":3,"correlationId":84,"clientId":"subs-a","requestApiKeyName":"HEARTBEAT"},"request":'
        '{"groupId":"subs","generationId":6,"memberId":"","groupInstanceId":null},"response":{"throttleTimeMs":0,'
        '"errorCode":0},"connection":"127.0.0.1:20152-127.0.0.1:42548-1-105","totalTimeMs":10.651,"requestQueueTimeMs":'
        '3.175,"localTimeMs":0.021,"remoteTimeMs":0.642,"throttleTimeMs":0,"responseQueueTimeMs":2.376,"sendTimeMs":'
        '4.434,"securityProtocol":"PLAINTEXT","principal":"User:ANONYMOUS","listener":"PLAINTEXT","clientInformation":'
        '{"softwareName":"librdkafka","softwareVersion":"2.16.0"}} (kafka.request.logger)\n'
    )
    log = RequestLog([path])
    log.read()
    [heartbeat] = log.group_requests(log.topic_ids())
    assert heartbeat.set_aside is not None


def test_a_group_of_which_nothing_shows_it_is_as_another_one_of_its_broker() -> None:
    """Its only member comes anew in the next generation: both may have been."""
    shown = [request(1), refused(12.5), LOADED, request(14)]
    silent = [joined(1, 1), refused(12.5), LOADED, joined(20, 2)]
    of_silent = [replace(each, request=HeartbeatRequest(group_id="g", member_id="s", generation_id=1))
                 if isinstance(each.request, HeartbeatRequest) else each for each in silent]  # fmt: skip
    groups = {"shown": shown, "silent": of_silent}
    places = Places([*shown, *of_silent])
    loads = {group_id: loads_of(each, (), places) for group_id, each in groups.items()}
    undone = with_undone(groups, loads, {}, [STANDSTILL_MS], places)
    assert undone["silent"][0].undone_from_us is not None
    del groups["shown"], loads["shown"]
    assert with_undone(groups, loads, {}, [STANDSTILL_MS], places)["silent"][0].undone_from_us is None


def test_requests_that_were_never_answered_are_undone_too() -> None:
    """The old coordinator converted the group, and never answered who asked for it; the new one loads what it was."""
    converted, expired = LogEntry(2_500, "group converted"), LogEntry(2_600, "member expired")
    later = LogEntry(13_500, "epoch bumped", 1)
    load = Load(from_us=2_000_001, loaded_us=13_000_000, broker_id=2)
    assert kept_entries([converted, expired, later], [load]) == [expired, later]
    assert kept_entries([converted], [replace(load, broker_id=None)]) == [converted]


@pytest.mark.parametrize(("generation", "is_undone_"), [(3, True), (4, True), (5, False)])
def test_an_assignment_that_was_refused_may_have_been_stored(generation: int, is_undone_: bool) -> None:
    shares = (SyncGroupAssignment(member_id="m", assignment=b"x"),)
    body = SyncGroupRequest(group_id="g", member_id="m", generation_id=4, assignments=shares)
    refused_sync = replace(request(2.5, code=ErrorCode.NOT_COORDINATOR, api="SyncGroup", waits_s=0.5), request=body)
    load = Load(from_us=2_900_000, loaded_us=13_000_000)
    after = with_unstored({"g": [request(1), refused_sync, joined(14, generation)]}, {"g": [load]})["g"]
    undone = replace(load, from_us=2_500_000, undone_from_us=2_500_000)
    assert after == [undone if is_undone_ else load]
