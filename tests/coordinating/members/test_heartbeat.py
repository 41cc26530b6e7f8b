"""When a member heartbeats, and what it does with each answer."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.members.effects import Assigned, CoordinatorUnknown, Failed, Lost, Revoked
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatResponse, JoinGroupRequest
from tests.coordinating.members.bench import P0, Bench


def test_heartbeats_go_at_their_interval_from_the_join_on() -> None:
    bench = Bench(heartbeat_interval_ms=3_000)
    bench.poll()
    bench.wait(60_000)
    assert not bench.open("Heartbeat"), "the parked join keeps the member alive"
    bench.join()
    bench.wait(2_999)
    assert not bench.open("Heartbeat")
    bench.wait(1)
    assert len(bench.open("Heartbeat")) == 1


def test_the_next_heartbeat_waits_for_the_last_one_but_not_longer_than_half_a_session() -> None:
    bench = Bench(session_timeout_ms=10_000, heartbeat_interval_ms=3_000)
    bench.stable()
    bench.wait(3_000)
    first = bench.open("Heartbeat")[0]
    bench.wait(4_999)
    assert bench.open("Heartbeat") == [first]
    bench.wait(1)
    assert [send.request_id != first.request_id for send in bench.open("Heartbeat")] == [True]


def test_an_answer_that_is_late_but_within_the_wait_is_followed_by_the_next_heartbeat_at_once() -> None:
    bench = Bench(session_timeout_ms=20_000, heartbeat_interval_ms=3_000)
    bench.stable()
    bench.wait(3_000 + 8_000)
    bench.answer("Heartbeat", HeartbeatResponse())
    bench.wait(0)
    assert len(bench.open("Heartbeat")) == 1


def test_a_session_of_silence_is_told_and_the_member_keeps_its_partitions() -> None:
    bench = Bench(session_timeout_ms=10_000, heartbeat_interval_ms=3_000)
    bench.stable(P0)
    bench.wait(35_000)
    reasons = [notification.reason for notification in bench.heard(CoordinatorUnknown)]
    assert reasons.count("session timed out without receiving a heartbeat response") == 3
    assert bench.member.assignment == (P0,)
    assert bench.open("Heartbeat")


@pytest.mark.parametrize(
    ("error_code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "c-1")]
)
def test_a_heartbeat_that_finds_no_place_loses_the_partitions_and_joins_again(
    error_code: ErrorCode, member_id: str
) -> None:
    bench = Bench(enable_auto_commit=False)
    bench.stable(P0)
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=error_code))
    bench.poll()
    assert bench.last(Lost).partitions == (P0,)
    bench.poll()
    request = bench.asked(JoinGroupRequest)
    assert (request.member_id, request.reason) == (member_id, f"encountered {error_code.name} from HEARTBEAT response")


def test_a_fenced_heartbeat_ends_the_member() -> None:
    bench = Bench(group_instance_id="i")
    bench.stable(P0)
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    assert bench.last(Failed).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert bench.last(Lost).partitions == (P0,)


def test_an_answer_about_an_older_generation_is_no_news() -> None:
    bench = Bench()
    bench.stable()
    bench.wait(3_000)
    heartbeat = bench.open("Heartbeat")[0]
    bench.member.subscribe(("orders", "payments"))
    bench.poll()
    bench.join(generation_id=2)
    bench.deliver(heartbeat, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    bench.sync(P0)
    bench.poll()
    assert bench.last(Assigned).generation_id == 2


@pytest.mark.parametrize("error_code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_heartbeat_that_meets_no_coordinator_is_repeated_after_a_pause(error_code: ErrorCode) -> None:
    bench = Bench()
    bench.stable()
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=error_code))
    bench.wait(99)
    assert not bench.open("Heartbeat")
    bench.wait(1)
    assert bench.open("Heartbeat")


def test_a_member_that_is_stuck_heartbeats_on_and_rejoins_when_its_application_polls() -> None:
    bench = Bench()
    bench.stable(P0)
    for _ in range(3):
        bench.wait(3_000)
        bench.answer("Heartbeat", HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert not bench.open("JoinGroup")
    bench.poll()
    assert bench.last(Revoked).partitions == (P0,)
    bench.poll()
    assert bench.open("JoinGroup")
