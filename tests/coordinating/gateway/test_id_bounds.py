"""Ids that are longer than clients could need never reach the log; what is there can still be seen and removed."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.config import Bounds
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.message_versions import GroupRequest
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    HeartbeatRequest,
    JoinGroupProtocol,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    SyncGroupRequest,
)
from tests.coordinating.gateway.router_bench import Bench

COMMITTED = OffsetCommitRequestTopic(
    name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
)
LONGEST = "x" * Bounds().id_bytes_max
LONGEST_MEMBER = LONGEST + "-" + "u" * 36


def requests(group_id: str = "g", member_id: str = "m", other: str = "i") -> list[tuple[str, GroupRequest]]:
    """Return a request of each kind that keeps something, with these ids; `other`: all but those of the group and the
    member."""
    fetched = OffsetFetchRequestGroup(group_id=group_id, member_id=member_id)
    return [
        ("JoinGroup", JoinGroupRequest(
            group_id=group_id, session_timeout_ms=10_000, member_id=member_id, group_instance_id=other,
            protocol_type=other, protocols=(JoinGroupProtocol(name=other, metadata=b""),),
        )),
        ("SyncGroup", SyncGroupRequest(
            group_id=group_id, generation_id=1, member_id=member_id, group_instance_id=other, protocol_type=other,
            protocol_name=other, assignments=(),
        )),
        ("Heartbeat", HeartbeatRequest(
            group_id=group_id, generation_id=1, member_id=member_id, group_instance_id=other
        )),
        ("OffsetCommit", OffsetCommitRequest(
            group_id=group_id, member_id=member_id, group_instance_id=other, topics=(COMMITTED,)
        )),
        ("ConsumerGroupHeartbeat", ConsumerGroupHeartbeatRequest(
            group_id=group_id, member_id=member_id, member_epoch=0, instance_id=other, rack_id=other,
            server_assignor=other,
        )),
        ("OffsetFetch", OffsetFetchRequest(groups=(fetched,))),
    ]  # fmt: skip


KINDS = [api for api, _ in requests()]


@pytest.mark.parametrize("api", KINDS)
def test_the_longest_ids_pass_and_longer_ones_are_refused(api: str) -> None:
    bench = Bench()
    assert bench.ask(api, dict(requests(LONGEST, LONGEST_MEMBER, LONGEST))[api], client_id=LONGEST) == []
    assert len(bench.events) == 1
    for request, client_id, code in (
        (dict(requests(group_id=LONGEST + "x"))[api], "c", ErrorCode.INVALID_GROUP_ID),
        (dict(requests(member_id=LONGEST_MEMBER + "x"))[api], "c", ErrorCode.INVALID_REQUEST),
        (dict(requests())[api], LONGEST + "x", ErrorCode.INVALID_REQUEST),
    ):
        (answer,) = bench.ask(api, request, client_id=client_id)
        assert str(int(code)) in _codes(answer), answer
    assert len(bench.events) == 1


@pytest.mark.parametrize("api", [api for api in KINDS if api != "OffsetFetch"])
def test_what_else_is_kept_of_a_member_has_the_same_bound(api: str) -> None:
    bench = Bench()
    bench.ask(api, dict(requests(other=LONGEST + "x"))[api])
    assert bench.events == []


def test_bytes_count_and_not_characters() -> None:
    bench = Bench()
    bench.ask("Heartbeat", dict(requests(group_id="é" * (len(LONGEST) // 2)))["Heartbeat"])
    assert len(bench.events) == 1
    bench.ask("Heartbeat", dict(requests(group_id="é" * (len(LONGEST) // 2 + 1)))["Heartbeat"])
    assert len(bench.events) == 1


def test_a_longer_expression_is_refused() -> None:
    """Its compilation would keep others waiting."""
    bench, longest = Bench(), "é" * (Bounds().regex_bytes_max // 2)
    heartbeat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    bench.ask("ConsumerGroupHeartbeat", replace(heartbeat, subscribed_topic_regex=longest))
    assert len(bench.events) == 1
    (answer,) = bench.ask("ConsumerGroupHeartbeat", replace(heartbeat, subscribed_topic_regex=longest + "x"))
    assert _codes(answer) == {str(int(ErrorCode.INVALID_REGULAR_EXPRESSION))}
    assert len(bench.events) == 1


@pytest.mark.parametrize(
    ("api", "request_"),
    [
        ("DescribeGroups", DescribeGroupsRequest(groups=(LONGEST + "x",))),
        ("ConsumerGroupDescribe", ConsumerGroupDescribeRequest(group_ids=(LONGEST + "x",))),
        ("DeleteGroups", DeleteGroupsRequest(groups_names=(LONGEST + "x",))),
        ("OffsetDelete", OffsetDeleteRequest(group_id=LONGEST + "x", topics=())),
        ("LeaveGroup", LeaveGroupRequest(
            group_id=LONGEST + "x", members=(LeaveGroupMember(member_id=LONGEST_MEMBER + "x"),)
        )),
    ],
)  # fmt: skip
def test_groups_with_longer_ids_can_be_seen_left_and_deleted(api: str, request_: GroupRequest) -> None:
    """They are from before the bound, or from senders of events."""
    bench = Bench()
    bench.ask(api, request_)
    assert len(bench.events) == 1


def _codes(answer: object) -> set[str]:
    """Return all numbers that stand as an error code somewhere in an answer."""
    found: set[str] = set()
    waiting = [answer]
    while waiting:
        value = waiting.pop()
        if isinstance(value, ErrorCode):
            found.add(str(int(value)))
        elif isinstance(value, tuple | list):
            waiting.extend(value)
        elif hasattr(value, "__struct_fields__"):
            waiting.extend(getattr(value, name) for name in value.__struct_fields__)
    return found
