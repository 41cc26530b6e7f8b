"""What a member does as leader, and with each answer to its SyncGroup."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.members.effects import Assigned, Failed, PartitionCountsNeeded
from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_assignment,
    encode_assignment,
    encode_subscription,
)
from schemas.error_codes import ErrorCode
from schemas.messages import (
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponseMember,
    SyncGroupRequest,
    SyncGroupResponse,
)
from tests.coordinating.members.bench import P0, P1, Bench

REJOIN_AT_ONCE = {
    ErrorCode.ILLEGAL_GENERATION: ("c-1", "IllegalGenerationException"),
    ErrorCode.UNKNOWN_MEMBER_ID: ("", "UnknownMemberIdException"),
    ErrorCode.REBALANCE_IN_PROGRESS: ("c-1", "RebalanceInProgressException"),
}


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
    request = bench.asked(SyncGroupRequest)
    shares = {
        assignment.member_id: set(decode_assignment(assignment.assignment).partitions)
        for assignment in request.assignments
    }
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
    request = bench.asked(SyncGroupRequest)
    shares = {
        assignment.member_id: decode_assignment(assignment.assignment).partitions for assignment in request.assignments
    }
    assert shares == {"a": (P0, P1), "b": ()}


def test_a_leader_that_is_to_skip_the_assignment_syncs_without_one() -> None:
    bench = Bench(group_instance_id="i")
    bench.poll()
    bench.join(member_id="a", leader="a", skip_assignment=True)
    assert bench.asked(SyncGroupRequest).assignments == ()
    bench.sync(P0)
    bench.poll()
    bench.member.partitions_changed({"orders": 3})
    bench.poll()
    bench.poll()
    assert bench.asked(JoinGroupRequest).reason == "cached metadata has changed"


def test_a_leader_that_becomes_a_follower_no_longer_watches_the_topics() -> None:
    bench = Bench()
    bench.poll()
    bench.join(member_id="c-1", leader="c-1")
    bench.sync()
    bench.poll()
    was_leader = bench.member.is_leader
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    bench.poll()
    bench.join(generation_id=2, leader="other")
    bench.sync()
    bench.poll()
    assert (was_leader, bench.member.is_leader) == (True, False)
    bench.member.partitions_changed({"orders": 9})
    bench.poll()
    assert not bench.open("JoinGroup")


@pytest.mark.parametrize(("error_code", "expected"), REJOIN_AT_ONCE.items())
def test_a_sync_that_comes_too_late_joins_again_at_once(error_code: ErrorCode, expected: tuple[str, str]) -> None:
    bench = Bench()
    bench.poll()
    bench.join()
    bench.answer("SyncGroup", SyncGroupResponse(error_code=error_code))
    request = bench.asked(JoinGroupRequest)
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
    assert bench.asked(JoinGroupRequest).reason == "rebalance failed due to DisconnectException"


def test_an_assignment_that_does_not_match_the_subscription_is_not_taken() -> None:
    bench = Bench()
    bench.poll()
    bench.join()
    bench.member.subscribe(("payments",))
    bench.sync(P0)
    bench.poll()
    assert not bench.heard(Assigned)
    request = bench.asked(JoinGroupRequest)
    assert request.reason == "received assignment does not match the current subscription"


def test_an_assignment_without_bytes_is_an_empty_one_and_a_damaged_one_ends_the_member() -> None:
    for data, failed in ((b"", False), (encode_assignment(Assignment()) + b"tail", False), (b"\x00\x01\x02", True)):
        bench = Bench()
        bench.poll()
        bench.join()
        bench.answer("SyncGroup", SyncGroupResponse(protocol_type="consumer", protocol_name="range", assignment=data))
        bench.poll()
        assert bool(bench.heard(Failed)) is failed
        assert [notification.partitions for notification in bench.heard(Assigned)] == ([] if failed else [()])
