"""Requests of consumer groups (KIP-848) in the request router: rights, fan-out, bounds, and their bytes on the wire."""

from __future__ import annotations

from random import Random

import pytest
from msgspec.structs import asdict

from group_coordinator.coordinating.gateway.consumer_groups import in_kafkas_order
from group_coordinator.coordinating.gateway.frames import parse_request_head
from group_coordinator.coordinating.gateway.held_requests import EACH_MAX
from group_coordinator.coordinating.gateway.translation import read_request, write_response
from schemas.consumer_group_messages import (
    ConsumerGroupAssignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    NamedTopicPartitions,
    TopicPartitions,
)
from schemas.error_codes import ErrorCode
from schemas.kafka.codec import encode
from schemas.wire import INT16, INT32, uuid_text
from tests.coordinating.gateway.answers import read_response
from tests.coordinating.gateway.router_bench import Bench

SECRET = "coordinator.history"
RULES = "User:alice secret deny\nUser:bob topic coordinator.* allow\n* * allow"
TOPIC_ID = uuid_text(Random(1).randbytes(16))


def beat(member_id: str = "m", epoch: int = 1, *names: str, group_id: str = "g") -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id=group_id, member_id=member_id, member_epoch=epoch, subscribed_topic_names=names or None
    )


def described(
    group_id: str, topic: str = "orders", error_code: ErrorCode = ErrorCode.NONE, version: int = 1
) -> ConsumerGroupDescribeResponse:
    topics = (NamedTopicPartitions(topic_id=TOPIC_ID, topic_name=topic, partitions=(0, 3)),)
    member = DescribedConsumerGroupMember(
        member_id="m", member_epoch=3, client_id="c", client_host="/h", subscribed_topic_names=("orders",),
        assignment=DescribedAssignment(), target_assignment=DescribedAssignment(topic_partitions=topics),
        member_type=1 if version else -1,
    )  # fmt: skip
    members = () if error_code else (member,)
    group = DescribedConsumerGroup(group_id=group_id, group_state="Stable", members=members, error_code=error_code)
    return ConsumerGroupDescribeResponse(groups=(group,))


# -------------------------------------------------------------------------------------------------------------- rights


def test_a_member_that_names_a_topic_of_the_coordinator_is_refused() -> None:
    bench = Bench(RULES)
    (answer,) = bench.ask("ConsumerGroupHeartbeat", beat("m", 0, "orders", SECRET), version=1)
    assert answer == ConsumerGroupHeartbeatResponse(error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert bench.events == []
    assert bench.ask("ConsumerGroupHeartbeat", beat("m", 0, "orders", SECRET), version=1, principal="User:bob") == []
    assert len(bench.events) == 1


def test_the_group_is_looked_at_before_its_topics() -> None:
    (answer,) = Bench(RULES).ask("ConsumerGroupHeartbeat", beat("m", 0, SECRET, group_id="secret"), version=1)
    assert answer == ConsumerGroupHeartbeatResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)


@pytest.mark.parametrize(
    ("principal", "expected"), [("User:alice", ErrorCode.TOPIC_AUTHORIZATION_FAILED), ("User:bob", ErrorCode.NONE)]
)
def test_a_group_that_would_show_a_topic_of_the_coordinator_is_not_described(
    principal: str, expected: ErrorCode
) -> None:
    bench = Bench(RULES)
    request = ConsumerGroupDescribeRequest(group_ids=("a", "b"))
    assert bench.ask("ConsumerGroupDescribe", request, version=1, principal=principal) == []
    for event, on_answer in bench.coordinator.events:
        on_answer(described(event.group_id, SECRET if event.group_id == "a" else "orders"))
    (answer,) = bench.answers
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    assert [(group.group_id, group.error_code, len(group.members)) for group in answer.groups] == [
        ("a", expected, 0 if expected else 1),
        ("b", ErrorCode.NONE, 1),
    ]


def test_groups_that_may_not_be_seen_come_first() -> None:
    bench = Bench(RULES)
    bench.ask("ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=("a", "secret", "b")), version=1)
    for event, on_answer in reversed(bench.coordinator.events):
        on_answer(described(event.group_id))
    (answer,) = bench.answers
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    assert [(group.group_id, group.error_code) for group in answer.groups] == [
        ("secret", ErrorCode.GROUP_AUTHORIZATION_FAILED), ("a", ErrorCode.NONE), ("b", ErrorCode.NONE)
    ]  # fmt: skip
    assert in_kafkas_order(answer) == answer


# -------------------------------------------------------------------------------------------------------------- bounds


def test_one_member_has_few_heartbeats_under_way() -> None:
    """Each may be answered with all that the member owns."""
    bench = Bench()
    for _ in range(EACH_MAX):
        assert bench.ask("ConsumerGroupHeartbeat", beat(), version=1) == []
    in_doubt = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    assert bench.ask("ConsumerGroupHeartbeat", beat(), version=1) == [in_doubt]
    assert bench.ask("ConsumerGroupHeartbeat", beat("other"), version=1) == []
    _, on_answer = bench.coordinator.events[0]
    on_answer(ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1))
    assert bench.ask("ConsumerGroupHeartbeat", beat(), version=1) == []


def test_a_member_of_version_0_gets_its_id_from_the_coordinator() -> None:
    """It derives it from the id of the request, which is in the event."""
    bench = Bench()
    bench.ask("ConsumerGroupHeartbeat", beat("", 0, "orders"), version=0)
    (event,) = bench.events
    assert (event.new_member_id, event.request) == (None, beat("", 0, "orders"))


# --------------------------------------------------------------------------------------------------------- on the wire


@pytest.mark.parametrize("version", [0, 1])
def test_heartbeats_on_the_wire(version: int) -> None:
    owned = (TopicPartitions(topic_id=TOPIC_ID, partitions=(1, 7)),)
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=5, instance_id="i", rack_id="r", rebalance_timeout_ms=9,
        subscribed_topic_names=("a", "b"), subscribed_topic_regex="a.*" if version else None,
        server_assignor="range", topic_partitions=owned,
    )  # fmt: skip
    payload = (
        INT16.pack(68) + INT16.pack(version) + INT32.pack(7) + INT16.pack(2) + b"me" + b"\0"
        + encode("ConsumerGroupHeartbeatRequest", version, asdict(request))
    )  # fmt: skip
    head = parse_request_head(payload)
    assert head is not None
    assert read_request("ConsumerGroupHeartbeat", head, payload) == request
    answers = (
        ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=6, heartbeat_interval_ms=5_000),
        ConsumerGroupHeartbeatResponse(member_epoch=6, assignment=ConsumerGroupAssignment(topic_partitions=owned)),
        ConsumerGroupHeartbeatResponse(error_code=ErrorCode.FENCED_MEMBER_EPOCH, error_message="fenced"),
    )
    for answer in answers:
        written = write_response("ConsumerGroupHeartbeat", version, 7, answer)
        assert read_response("ConsumerGroupHeartbeat", version, written) == answer


@pytest.mark.parametrize("version", [0, 1])
def test_descriptions_on_the_wire(version: int) -> None:
    answer = described("g", version=version)
    written = write_response("ConsumerGroupDescribe", version, 7, answer)
    assert read_response("ConsumerGroupDescribe", version, written) == answer
