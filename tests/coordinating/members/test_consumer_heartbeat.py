"""What a member of the consumer protocol says in its heartbeats, and when."""

from __future__ import annotations

from typing import Any
from uuid import NAMESPACE_OID

import pytest

from group_coordinator.coordinating.members.config import MemberConfig
from group_coordinator.coordinating.members.effects import (
    CoordinatorUnknown,
    Failed,
    GaveUp,
    Lost,
    PollIntervalExceeded,
)
from group_coordinator.coordinating.members.member import new_member
from group_coordinator.coordinating.members.requests import request_ids
from schemas.consumer_group_messages import (
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from schemas.error_codes import ErrorCode
from tests.coordinating.members.bench import P0, P1
from tests.coordinating.members.consumer_bench import HEARTBEAT, INTERVAL_MS, ConsumerBench, owns


def minimal(bench: ConsumerBench, epoch: int) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that says nothing new."""
    return ConsumerGroupHeartbeatRequest(group_id="g", member_id=bench.member.member_id, member_epoch=epoch)


def test_a_member_joins_with_epoch_0_and_all_that_it_has_to_say() -> None:
    bench = ConsumerBench(client_rack="r1", group_remote_assignor="range", max_poll_interval_ms=60_000)
    assert not bench.sent, "it joins when the application polls"
    bench.poll()
    assert bench.heartbeat() == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=bench.member.member_id,
        member_epoch=0,
        rack_id="r1",
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        server_assignor="range",
        topic_partitions=(),
    )
    assert bench.member.member_id
    assert bench.member.state == "joining"
    assert bench.open(HEARTBEAT)[0].api_version == 1


def test_its_id_is_its_own_and_the_same_in_every_run() -> None:
    assert ConsumerBench().member.member_id == ConsumerBench().member.member_id != ""


def test_an_assignment_is_acknowledged_at_once_and_heartbeats_say_nothing_more() -> None:
    bench = ConsumerBench()
    bench.poll()
    bench.beat(1, orders=(0, 1))
    assert bench.member.state == "reconciling"
    assert not bench.open(HEARTBEAT)
    bench.poll()
    assert bench.heartbeat() == ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=bench.member.member_id, member_epoch=1, topic_partitions=owns(orders=(0, 1))
    )
    assert (bench.member.state, bench.member.assignment) == ("stable", (P0, P1))
    bench.beat(1)
    for _ in range(3):
        bench.wait(INTERVAL_MS - 1)
        assert not bench.open(HEARTBEAT)
        bench.wait(1)
        assert bench.heartbeat() == minimal(bench, 1)
        bench.beat(1)


def test_after_a_second_answer_to_a_heartbeat_everything_is_told() -> None:
    """The log had it twice, and what the second one was answered may be an assignment that is told once."""
    bench = ConsumerBench()
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    first = bench.beat(1)
    response = ConsumerGroupHeartbeatResponse(
        member_id=bench.member.member_id,
        member_epoch=2,
        heartbeat_interval_ms=INTERVAL_MS,
        assignment=ConsumerGroupAssignment(topic_partitions=owns(orders=(0, 1))),
    )
    bench.deliver(first, response)
    assert bench.member.generation_id == 1, "the first answer holds"
    bench.wait(INTERVAL_MS)
    told = bench.heartbeat()
    assert (told.subscribed_topic_names, told.topic_partitions) == (("orders",), owns(orders=(0,)))
    assert told.rebalance_timeout_ms > 0


def test_an_empty_assignment_is_acknowledged_too() -> None:
    bench = ConsumerBench()
    bench.poll()
    bench.beat_with_nothing(1)
    bench.poll()
    assert bench.heartbeat().topic_partitions == ()
    assert bench.member.state == "stable"


def test_the_coordinator_says_the_interval() -> None:
    bench = ConsumerBench()
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    bench.beat(1, interval_ms=1_000)
    bench.wait(999)
    assert not bench.open(HEARTBEAT)
    bench.wait(1)
    assert bench.heartbeat() == minimal(bench, 1)


def test_a_changed_subscription_is_told_by_the_next_heartbeat() -> None:
    bench = ConsumerBench()
    bench.settled(orders=(0,))
    bench.member.subscribe(("orders", "bills"))
    bench.wait(INTERVAL_MS - 1)
    assert bench.member.is_rejoining, "it has something to say that changes who has what"
    assert not bench.open(HEARTBEAT)
    bench.wait(1)
    assert bench.heartbeat().subscribed_topic_names == ("bills", "orders")
    assert bench.heartbeat().rebalance_timeout_ms == -1
    bench.beat(1)
    bench.wait(INTERVAL_MS)
    assert bench.heartbeat() == minimal(bench, 1)


def test_an_expression_is_told_and_taken_back() -> None:
    bench = ConsumerBench()
    bench.member.subscribe_pattern("ord.*")
    bench.poll()
    joined_with = bench.heartbeat()
    assert (joined_with.subscribed_topic_names, joined_with.subscribed_topic_regex) == ((), "ord.*")
    bench.beat(1, orders=(0,))
    bench.poll()
    bench.beat(1)
    bench.member.subscribe(("orders",))
    bench.wait(INTERVAL_MS)
    told = bench.heartbeat()
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == (("orders",), "")
    bench.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.wait(100)
    assert bench.heartbeat().subscribed_topic_regex == "", "the coordinator may not have taken it in"


def test_a_member_that_never_had_an_expression_does_not_speak_of_any() -> None:
    bench = ConsumerBench()
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    bench.refuse(ErrorCode.NOT_COORDINATOR)
    bench.wait(100)
    assert all(request.subscribed_topic_regex is None for request in bench.heartbeats())


@pytest.mark.parametrize(
    "error_code",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR],
)
def test_after_an_error_that_passes_everything_is_told_again(error_code: ErrorCode) -> None:
    bench = ConsumerBench(max_poll_interval_ms=60_000)
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    bench.refuse(error_code)
    assert bool(bench.heard(CoordinatorUnknown)) == (error_code is not ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.wait(99)
    assert not bench.open(HEARTBEAT)
    bench.wait(1)
    assert bench.heartbeat() == ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=bench.member.member_id,
        member_epoch=1,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=("orders",),
        topic_partitions=owns(orders=(0,)),
    )
    bench.refuse(error_code)
    bench.wait(199)
    assert not bench.open(HEARTBEAT), "the pause doubles"
    bench.wait(1)
    bench.beat(1)
    bench.wait(INTERVAL_MS)
    assert bench.heartbeat() == minimal(bench, 1)


def test_after_silence_everything_is_told_again() -> None:
    bench = ConsumerBench(request_timeout_ms=10_000)
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    late = bench.open(HEARTBEAT)[0]
    bench.wait(10_100)
    assert bench.heartbeat().topic_partitions == owns(orders=(0,))
    assert bench.last(CoordinatorUnknown).reason == "no answer in time"
    bench.deliver(late, ConsumerGroupHeartbeatResponse(member_epoch=9, heartbeat_interval_ms=INTERVAL_MS))
    assert bench.member.generation_id == 1, "a late answer is ignored"


@pytest.mark.parametrize("error_code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_is_put_out_loses_its_partitions_and_joins_at_the_next_poll(error_code: ErrorCode) -> None:
    bench = ConsumerBench()
    bench.settled(epoch=7, orders=(0, 1))
    member_id = bench.member.member_id
    bench.wait(INTERVAL_MS)
    bench.refuse(error_code)
    assert bench.last(Lost).partitions == (P0, P1)
    assert (bench.member.state, bench.member.assignment, bench.member.positions) == ("fenced", (), {})
    bench.wait(INTERVAL_MS)
    assert not bench.open(HEARTBEAT)
    bench.poll()
    assert (bench.heartbeat().member_id, bench.heartbeat().member_epoch) == (member_id, 0)
    assert bench.heartbeat().topic_partitions == ()
    assert bench.heartbeat().subscribed_topic_names == ("orders",)
    assert not bench.open("OffsetCommit")


def test_without_partitions_it_joins_anew_at_once() -> None:
    bench = ConsumerBench()
    bench.poll()
    bench.beat_with_nothing(3)
    bench.poll()
    bench.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    assert bench.heartbeat().member_epoch == 0
    assert not bench.heard(Lost)


@pytest.mark.parametrize(
    "error_code",
    [
        ErrorCode.UNRELEASED_INSTANCE_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
def test_other_errors_end_the_member(error_code: ErrorCode) -> None:
    bench = ConsumerBench(group_instance_id="i")
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    bench.refuse(error_code)
    assert bench.last(Failed).error_code is error_code
    assert bench.last(Lost).partitions == (P0,)
    assert bench.member.state == "fatal"
    sent = len(bench.sent)
    bench.poll()
    bench.wait(600_000)
    assert len(bench.sent) == sent
    assert bench.member.next_deadline_ms() is None


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_whose_application_does_not_poll_leaves_and_comes_back_with_a_poll(
    instance_id: str | None, epoch: int
) -> None:
    bench = ConsumerBench(group_instance_id=instance_id, max_poll_interval_ms=12_000)
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    bench.beat(1)
    bench.wait(INTERVAL_MS)
    assert not bench.heard(PollIntervalExceeded)
    bench.wait(2_000)
    assert bench.heard(PollIntervalExceeded)
    assert bench.last(Lost).partitions == (P0,)
    leave = bench.heartbeat()
    assert (leave.member_epoch, leave.instance_id, bench.member.state) == (epoch, instance_id, "stale")
    bench.beat(epoch)
    bench.wait(60_000)
    assert not bench.open(HEARTBEAT)
    bench.poll()
    assert bench.heartbeat().member_epoch == 0
    assert bench.heartbeat().topic_partitions == ()


def test_the_answer_to_a_heartbeat_from_before_leaving_is_not_waited_for() -> None:
    bench = ConsumerBench(max_poll_interval_ms=7_000)
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    before = bench.open(HEARTBEAT)[0]
    bench.wait(2_000)
    assert GaveUp(request_id=before.request_id, api=HEARTBEAT) in bench.told
    bench.poll()
    bench.deliver(before, ConsumerGroupHeartbeatResponse(member_epoch=1, heartbeat_interval_ms=INTERVAL_MS))
    assert bench.member.state == "joining"


@pytest.mark.parametrize("error_code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize("is_refused_first", [True, False])
def test_a_leave_that_was_refused_does_not_cost_the_place_of_a_member_that_has_joined_again(
    error_code: ErrorCode, is_refused_first: bool
) -> None:
    """It keeps its id: a leave that is repeated behind the join would put it out."""
    bench = ConsumerBench(max_poll_interval_ms=12_000)
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    bench.beat(1)
    bench.wait(7_000)
    assert bench.heartbeat().member_epoch == -1
    leave = bench.open(HEARTBEAT)[0]
    refusal = ConsumerGroupHeartbeatResponse(error_code=error_code)
    if is_refused_first:
        bench.refuse(error_code)
        bench.poll()
    else:
        bench.poll()
        bench.deliver(leave, refusal)
    sent = len(bench.heartbeats())
    bench.wait(10_000)
    assert [request.member_epoch for request in bench.heartbeats()[sent:]] == []
    assert bench.heartbeats()[-1].member_epoch == 0


@pytest.mark.parametrize("leaves", ["unsubscribed", "late"])
def test_a_static_members_leave_is_repeated_until_it_has_joined_again(leaves: str) -> None:
    """Before that it may not come back: its instance id is not released."""
    bench = ConsumerBench(group_instance_id="i", max_poll_interval_ms=12_000)
    bench.settled(orders=(0,))
    if leaves == "unsubscribed":
        bench.member.subscribe(())
        bench.poll()
        bench.member.subscribe(("orders",))
    else:
        bench.wait(INTERVAL_MS)
        bench.beat(1)
        bench.wait(7_000)
    bench.poll()
    bench.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.wait(100)
    assert [request.member_epoch for request in bench.heartbeats()[-2:]] == [-2, 0], "in this order"
    join = bench.open(HEARTBEAT)[-1]
    nothing = ConsumerGroupAssignment(topic_partitions=())
    bench.deliver(
        join, ConsumerGroupHeartbeatResponse(member_epoch=2, heartbeat_interval_ms=INTERVAL_MS, assignment=nothing)
    )
    bench.refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.wait(4_000)
    assert bench.heartbeats()[-1].member_epoch == 0, "it has its place again and does not leave it"


@pytest.mark.parametrize("state", ["fenced", "stale"])
def test_a_member_that_unsubscribes_while_it_is_out_does_not_mean_to_come_back(state: str) -> None:
    bench = ConsumerBench(max_poll_interval_ms=7_000)
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    if state == "fenced":
        bench.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    else:
        bench.wait(2_000)
    assert bench.member.state == state
    bench.member.subscribe(())
    assert (bench.member.state, bench.member.is_rejoining) == ("unsubscribed", False)
    sent = len(bench.heartbeats())
    bench.poll()
    bench.wait(60_000)
    assert len(bench.heartbeats()) == sent
    bench.member.subscribe(("bills",))
    bench.poll()
    assert bench.heartbeats()[-1].subscribed_topic_names == ("bills",)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"session_timeout_ms": 6_000}, "session_timeout_ms cannot be set with group_protocol consumer."),
        ({"heartbeat_interval_ms": 100}, "heartbeat_interval_ms cannot be set with group_protocol consumer."),
        ({"partition_assignment_strategy": ("range",)}, "partition_assignment_strategy cannot be set with"),
        ({"group_protocol": "classic", "group_remote_assignor": "range"}, "group_remote_assignor cannot be set with"),
    ],
)
def test_settings_of_the_other_protocol_are_refused(settings: dict[str, Any], problem: str) -> None:
    config = MemberConfig(**({"group_id": "g", "group_protocol": "consumer"} | settings))
    with pytest.raises(ValueError, match=problem):
        new_member(config, request_ids(NAMESPACE_OID))
