"""What a member does with each answer, with silence, and with what its application asks."""

from __future__ import annotations

from uuid import NAMESPACE_DNS, NAMESPACE_OID

import pytest

from group_coordinator.members.config import MemberConfig
from group_coordinator.members.effects import (
    Assigned,
    Closed,
    Committed,
    CoordinatorUnknown,
    Failed,
    GaveUp,
    Lost,
    OffsetAndMetadata,
    PartitionCountsNeeded,
    Revoked,
)
from group_coordinator.members.member import GroupMember
from group_coordinator.members.requests import request_ids
from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    LeaveGroupResponse,
    SyncGroupResponse,
)
from tests.members.bench import P0, P1, Bench

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
REJOIN_AT_ONCE = {
    ErrorCode.ILLEGAL_GENERATION: ("c-1", "IllegalGenerationException"),
    ErrorCode.UNKNOWN_MEMBER_ID: ("", "UnknownMemberIdException"),
    ErrorCode.REBALANCE_IN_PROGRESS: ("c-1", "RebalanceInProgressException"),
}


# --------------------------------------------------------------------------------------------------------- settings


def test_settings_that_cannot_work_are_refused_with_every_mistake() -> None:
    config = MemberConfig(group_id="", session_timeout_ms=3_000, heartbeat_interval_ms=3_000, max_poll_interval_ms=0)
    with pytest.raises(ValueError, match=r"max_poll_interval_ms is 0.*heartbeat_interval_ms.*group_id is empty"):
        GroupMember(config, iter(()))


def test_an_unknown_assignor_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="no assignor 'best'"):
        GroupMember(MemberConfig(group_id="g", partition_assignment_strategy=("best",)), iter(()))


def test_requests_go_to_the_shard_of_the_group() -> None:
    config = MemberConfig(group_id="orders-app")
    member = GroupMember(config, iter(f"id-{n}" for n in range(9)), shard_count=50)
    member.start(0, ("orders",))
    member.poll(0)
    send = member.take_outputs()[0]
    assert (send.api, send.shard, send.request_id) == ("JoinGroup", group_partition("orders-app", 50), "id-0")


def test_request_ids_are_unique_and_the_same_for_the_same_namespace() -> None:
    first, again, other = request_ids(NAMESPACE_OID), request_ids(NAMESPACE_OID), request_ids(NAMESPACE_DNS)
    mine = [next(first) for _ in range(100)]
    assert mine == [next(again) for _ in range(100)]
    assert len({*mine, *(next(other) for _ in range(100))}) == 200


# ------------------------------------------------------------------------------------------------------------- join


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
    request = bench.open("JoinGroup")[0].request
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
    subscription = decode_subscription(bench.open("JoinGroup")[0].request.protocols[0].metadata)
    assert (subscription.owned_partitions, subscription.generation_id) == ((P0, P1), 7)
    assert not bench.heard(Revoked)


def test_a_sticky_member_tells_what_it_owned_in_its_user_data_after_giving_it_up() -> None:
    bench = Bench(partition_assignment_strategy=("sticky",))
    bench.stable(P0, generation_id=7)
    bench.member.subscribe(("orders", "payments"))
    bench.poll()
    assert bench.last(Revoked).partitions == (P0,)
    bench.poll()
    subscription = decode_subscription(bench.open("JoinGroup")[0].request.protocols[0].metadata)
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
        assert bench.open("JoinGroup")[0].request.reason == f"rebalance failed due to {exception}"
    told = bool(bench.heard(CoordinatorUnknown))
    assert told == (error_code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


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
    request = bench.open("JoinGroup")[0].request
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


# ------------------------------------------------------------------------------------------------------ lead and sync


def test_the_leader_shares_the_partitions_of_all_topics() -> None:
    bench = Bench(partition_assignment_strategy=("range",))
    bench.poll()
    members = tuple(
        JoinGroupResponseMember(member_id=name, metadata=encode_subscription(Subscription(topics=topics)))
        for name, topics in {"a": ("orders",), "b": ("orders", "payments")}.items()
    )
    bench.join(member_id="a", leader="a", members=members)
    assert bench.last(PartitionCountsNeeded).topics == ("payments",)
    assert not bench.open("SyncGroup")
    bench.member.partitions_changed({"payments": 1})
    bench.poll()
    request = bench.open("SyncGroup")[0].request
    shares = {each.member_id: set(decode_assignment(each.assignment).partitions) for each in request.assignments}
    assert shares == {"a": {P0}, "b": {P1, TopicPartition("payments", 0)}}
    assert bench.member.topics_of_interest == ("orders", "payments")


def test_a_leader_that_cannot_learn_a_topic_decides_without_it() -> None:
    bench = Bench(request_timeout_ms=5_000)
    bench.poll()
    foreign = JoinGroupResponseMember(member_id="b", metadata=encode_subscription(Subscription(topics=("ghost",))))
    bench.join(member_id="a", leader="a", members=(foreign,))
    bench.wait(4_999)
    assert not bench.open("SyncGroup")
    bench.wait(1)
    assert bench.open("SyncGroup")


def test_a_member_whose_subscription_cannot_be_read_gets_nothing_and_hurts_nobody() -> None:
    bench = Bench()
    bench.poll()
    broken = JoinGroupResponseMember(member_id="b", metadata=b"\x00")
    good = JoinGroupResponseMember(member_id="a", metadata=encode_subscription(Subscription(topics=("orders",))))
    bench.join(member_id="a", leader="a", members=(broken, good))
    request = bench.open("SyncGroup")[0].request
    shares = {each.member_id: decode_assignment(each.assignment).partitions for each in request.assignments}
    assert shares == {"a": (P0, P1), "b": ()}


def test_a_leader_that_is_to_skip_the_assignment_syncs_without_one() -> None:
    bench = Bench(group_instance_id="i")
    bench.poll()
    bench.join(member_id="a", leader="a", skip_assignment=True)
    assert bench.open("SyncGroup")[0].request.assignments == ()
    bench.sync(P0)
    bench.poll()
    bench.member.partitions_changed({"orders": 3})
    bench.poll()
    bench.poll()
    assert bench.open("JoinGroup")[0].request.reason == "cached metadata has changed"


def test_a_leader_that_becomes_a_follower_no_longer_watches_the_topics() -> None:
    bench = Bench()
    bench.poll()
    bench.join(member_id="c-1", leader="c-1")
    bench.sync()
    bench.poll()
    assert bench.member.is_leader
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    bench.poll()
    bench.join(generation_id=2, leader="other")
    bench.sync()
    bench.poll()
    assert not bench.member.is_leader
    bench.member.partitions_changed({"orders": 9})
    bench.poll()
    assert not bench.open("JoinGroup")


@pytest.mark.parametrize(("error_code", "expected"), REJOIN_AT_ONCE.items())
def test_a_sync_that_comes_too_late_joins_again_at_once(error_code: ErrorCode, expected: tuple[str, str]) -> None:
    bench = Bench()
    bench.poll()
    bench.join()
    bench.answer("SyncGroup", SyncGroupResponse(error_code=error_code))
    request = bench.open("JoinGroup")[0].request
    assert (request.member_id, request.reason) == (expected[0], f"rebalance failed due to {expected[1]}")


@pytest.mark.parametrize("error_code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.INCONSISTENT_GROUP_PROTOCOL])
def test_a_sync_that_is_refused_for_good_ends_the_member(error_code: ErrorCode) -> None:
    bench = Bench()
    bench.poll()
    bench.join()
    bench.answer("SyncGroup", SyncGroupResponse(error_code=error_code))
    assert bench.last(Failed).error_code is error_code


def test_a_sync_without_an_answer_joins_again() -> None:
    bench = Bench(request_timeout_ms=5_000)
    bench.poll()
    bench.join()
    bench.wait(5_100)
    assert bench.open("JoinGroup")[0].request.reason == "rebalance failed due to DisconnectException"


def test_an_assignment_that_does_not_match_the_subscription_is_not_taken() -> None:
    bench = Bench()
    bench.poll()
    bench.join()
    bench.member.subscribe(("payments",))
    bench.sync(P0)
    bench.poll()
    assert not bench.heard(Assigned)
    request = bench.open("JoinGroup")[0].request
    assert request.reason == "received assignment does not match the current subscription"


def test_an_assignment_without_bytes_is_an_empty_one_and_a_damaged_one_ends_the_member() -> None:
    for data, failed in ((b"", False), (encode_assignment(Assignment()) + b"tail", False), (b"\x00\x01\x02", True)):
        bench = Bench()
        bench.poll()
        bench.join()
        bench.answer("SyncGroup", SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=data))
        bench.poll()
        assert bool(bench.heard(Failed)) is failed
        assert [told.partitions for told in bench.heard(Assigned)] == ([] if failed else [()])


# -------------------------------------------------------------------------------------------------------- heartbeats


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
    reasons = [told.reason for told in bench.heard(CoordinatorUnknown)]
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
    request = bench.open("JoinGroup")[0].request
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
    beat = bench.open("Heartbeat")[0]
    bench.member.subscribe(("orders", "payments"))
    bench.poll()
    bench.join(generation_id=2)
    bench.deliver(beat, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
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


def test_a_member_that_is_stuck_beats_on_and_rejoins_when_its_application_polls() -> None:
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


# ------------------------------------------------------------------------------------------------------------ close


def test_closing_commits_gives_up_and_leaves() -> None:
    bench = Bench()
    bench.stable(P0, committed=5)
    bench.member.processed(P0, 9)
    bench.member.close(bench.now_ms)
    bench.poll()
    assert not bench.open("LeaveGroup"), "the commit comes first"
    bench.commit_answer()
    assert bench.last(Revoked).partitions == (P0,)
    number = bench.member.commit({P0: OffsetAndMetadata(11)})
    bench.wait(0)
    assert not bench.open("LeaveGroup"), "the application may still commit what it gives up"
    bench.commit_answer()
    assert bench.last(Committed).commit_id == number
    bench.poll()
    leaver = bench.open("LeaveGroup")[0].request.members[0]
    assert (leaver.member_id, leaver.reason) == ("c-1", "the consumer is being closed")
    assert not bench.heard(Closed)
    bench.answer("LeaveGroup", LeaveGroupResponse())
    assert bench.heard(Closed)
    bench.wait(600_000)
    assert bench.member.next_deadline_ms() is None


@pytest.mark.parametrize("error_code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_leave_that_nobody_took_is_said_again_within_the_request_timeout(error_code: ErrorCode) -> None:
    bench = Bench(request_timeout_ms=5_000)
    bench.stable()
    bench.member.close(bench.now_ms)
    bench.poll()
    bench.answer("LeaveGroup", LeaveGroupResponse(error_code=error_code))
    assert not bench.member.is_closed
    bench.wait(100)
    bench.answer("LeaveGroup", LeaveGroupResponse(error_code=error_code))
    bench.wait(200)
    first, second, third = [send.request for send in bench.sent if send.api == "LeaveGroup"]
    assert first == second == third
    bench.wait(4_700)
    assert bench.member.is_closed, "nobody listened, and it is over"
    assert bench.member.next_deadline_ms() is None


def test_a_leave_is_not_repeated_for_an_answer_about_the_member() -> None:
    bench = Bench()
    bench.stable()
    bench.member.close(bench.now_ms)
    bench.poll()
    bench.answer("LeaveGroup", LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert bench.member.is_closed


def test_who_unsubscribes_leaves_again_where_nobody_listened_and_may_join_meanwhile() -> None:
    bench = Bench()
    bench.stable(P0)
    bench.member.subscribe(())
    bench.poll()
    bench.answer("LeaveGroup", LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    bench.member.subscribe(("orders",))
    bench.poll()
    bench.join(2, member_id="c-2")
    bench.wait(100)
    left = bench.answer("LeaveGroup", LeaveGroupResponse())
    assert [each.member_id for each in left.request.members] == ["c-1"]
    assert bench.member.member_id == "c-2"


def test_closing_does_not_wait_for_ever() -> None:
    bench = Bench(request_timeout_ms=30_000)
    bench.stable(P0)
    bench.member.processed(P0, 9)
    bench.member.close(bench.now_ms)
    bench.wait(29_999)
    assert not bench.member.is_closed
    bench.wait(1)
    assert bench.member.is_closed
    assert bench.last(Revoked).partitions == (P0,)


def test_a_member_that_never_joined_closes_without_a_word() -> None:
    bench = Bench()
    bench.member.close(bench.now_ms)
    bench.poll()
    assert bench.member.is_closed
    assert not bench.sent


def test_a_member_that_waits_for_its_join_leaves_by_the_id_that_it_was_given() -> None:
    bench = Bench()
    bench.poll()
    bench.answer("JoinGroup", JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="c-1"))
    bench.member.close(bench.now_ms)
    bench.wait(0)
    assert bench.open("LeaveGroup")[0].request.members[0].member_id == "c-1"


def test_a_failed_member_closes_at_once() -> None:
    bench = Bench()
    bench.poll()
    bench.answer("JoinGroup", JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    bench.member.close(bench.now_ms)
    bench.wait(0)
    assert bench.member.is_closed
