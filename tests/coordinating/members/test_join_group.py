"""What a member does with each answer to its JoinGroup, and with silence."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.members.effects import CoordinatorUnknown, Failed, GaveUp, Lost, Revoked
from schemas.consumer_protocol import Subscription, decode_subscription
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatResponse, JoinGroupRequest, JoinGroupResponse
from tests.coordinating.members.bench import P0, P1, Bench

FATAL_IN_JOIN = [
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
    ErrorCode.INVALID_GROUP_ID,
    ErrorCode.INVALID_SESSION_TIMEOUT,
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNKNOWN_SERVER_ERROR,
]
COORDINATOR_ERRORS = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "CoordinatorLoadInProgressException",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "CoordinatorNotAvailableException",
    ErrorCode.NOT_COORDINATOR: "NotCoordinatorException",
}


def test_nothing_is_sent_before_the_first_poll_or_without_a_subscription() -> None:
    bench = Bench()
    bench.wait(60_000)
    assert not bench.sent
    bench.member.subscribe(())
    bench.poll()
    assert not bench.sent


def test_the_join_carries_the_settings_and_the_subscription() -> None:
    bench = Bench(session_timeout_ms=10_000, max_poll_interval_ms=20_000, group_instance_id="i", client_rack="r")
    bench.poll()
    request = bench.asked(JoinGroupRequest)
    assert (request.session_timeout_ms, request.rebalance_timeout_ms) == (10_000, 20_000)
    assert (request.group_instance_id, request.protocol_type) == ("i", "consumer")
    assert [protocol.name for protocol in request.protocols] == ["range", "cooperative-sticky"]
    subscription = decode_subscription(request.protocols[0].metadata)
    assert subscription == Subscription(topics=("orders",), rack_id="r")


def test_a_cooperative_member_tells_what_it_owns_and_since_when() -> None:
    bench = Bench(partition_assignment_strategy=("cooperative-sticky",))
    bench.stable(P0, P1, generation_id=7)
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    bench.poll()
    subscription = decode_subscription(bench.asked(JoinGroupRequest).protocols[0].metadata)
    assert (subscription.owned_partitions, subscription.generation_id) == ((P0, P1), 7)
    assert not bench.heard(Revoked)


def test_a_sticky_member_tells_what_it_owned_in_its_user_data_after_giving_it_up() -> None:
    bench = Bench(partition_assignment_strategy=("sticky",))
    bench.stable(P0, generation_id=7)
    bench.member.subscribe(("orders", "payments"))
    bench.poll()
    assert bench.last(Revoked).partitions == (P0,)
    bench.poll()
    subscription = decode_subscription(bench.asked(JoinGroupRequest).protocols[0].metadata)
    assert subscription.owned_partitions == ()
    assert subscription.user_data is not None
    assert subscription.user_data.endswith((7).to_bytes(4, "big"))


@pytest.mark.parametrize("error_code", FATAL_IN_JOIN)
def test_a_join_that_is_refused_for_good_ends_the_member(error_code: ErrorCode) -> None:
    bench = Bench()
    bench.poll()
    bench.answer("JoinGroup", JoinGroupResponse(error_code=error_code))
    assert bench.last(Failed).error_code is error_code
    bench.poll()
    bench.wait(600_000)
    assert len(bench.sent) == 1


@pytest.mark.parametrize(("error_code", "exception"), COORDINATOR_ERRORS.items())
def test_a_join_that_meets_no_coordinator_is_repeated_with_growing_pauses(
    error_code: ErrorCode, exception: str
) -> None:
    bench = Bench()
    bench.poll()
    for pause_ms in (100, 200, 400, 800, 1_000, 1_000):
        bench.answer("JoinGroup", JoinGroupResponse(error_code=error_code))
        bench.wait(pause_ms - 1)
        assert not bench.open("JoinGroup")
        bench.wait(1)
        assert bench.asked(JoinGroupRequest).reason == f"rebalance failed due to {exception}"
    is_told = bool(bench.heard(CoordinatorUnknown))
    assert is_told == (error_code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def test_an_unknown_member_joins_with_an_empty_id_and_loses_what_it_kept() -> None:
    bench = Bench(partition_assignment_strategy=("cooperative-sticky",))
    bench.stable(P0)
    bench.member.subscribe(("orders", "payments"))
    bench.poll()
    bench.answer("JoinGroup", JoinGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert not bench.open("JoinGroup"), "the application has to be told first"
    bench.poll()
    assert bench.last(Lost).partitions == (P0,)
    bench.poll()
    request = bench.asked(JoinGroupRequest)
    assert (request.member_id, request.reason) == ("", "rebalance failed due to UnknownMemberIdException")


def test_a_join_without_an_answer_waits_as_long_as_the_rebalance_may_take() -> None:
    bench = Bench(max_poll_interval_ms=60_000)
    bench.poll()
    first = bench.open("JoinGroup")[0]
    bench.wait(64_999)
    assert bench.open("JoinGroup") == [first]
    bench.wait(101)
    assert bench.heard(GaveUp) == [GaveUp(request_id=first.request_id, api="JoinGroup")]
    second = bench.open("JoinGroup")[0]
    assert second.request_id != first.request_id
    bench.deliver(first, JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    assert bench.member.failure is None
    assert bench.open("JoinGroup") == [second]


def test_a_protocol_that_was_not_offered_ends_the_member() -> None:
    bench = Bench()
    bench.poll()
    bench.join(protocol_name="sticky")
    assert bench.last(Failed).error_code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
