"""The request router: what it answers itself, how it splits requests over groups and puts answers together."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer.group import OffsetFetchResponse as WireOffsetFetchResponse

from group_coordinator.coordinating.gateway.admission import Admission
from group_coordinator.coordinating.gateway.brokers import Coordinators
from group_coordinator.coordinating.gateway.config import Bounds
from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from group_coordinator.coordinating.gateway.refusals import refusal
from group_coordinator.coordinating.gateway.translation import write_response
from group_coordinator.coordinating.gateway.versions import GROUP_APIS, GROUP_VERSIONS
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    DescribedConsumerGroup,
)
from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from schemas.message_versions import GroupRequest
from schemas.messages import (
    ApiKey,
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupResponse,
    LeaveGroupMember,
    LeaveGroupRequest,
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    Request,
    SyncGroupRequest,
)
from tests.coordinating.gateway.accounts import Someone
from tests.coordinating.gateway.router_bench import NODES, Bench, join

# ------------------------------------------------------------------------------------------------- how much at a time


def beat(**fields: Any) -> PendingRequest:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0, **fields)
    return PendingRequest(
        number=1, api="ConsumerGroupHeartbeat", api_version=1, client_id="c", client_host="127.0.0.1",
        principal="User:alice", request=request,
    )  # fmt: skip


@pytest.mark.parametrize(
    "costly", [{"subscribed_topic_regex": r"\p{L}{1,1000}"}, {"subscribed_topic_names": ("n",) * 20_000}]
)
def test_what_takes_long_to_decide_is_sent_a_few_at_a_time_and_beats_pass(costly: dict[str, Any]) -> None:
    router, bytes_max = Bench().router, Bounds().queued_max_request_bytes
    room = Admission(bytes_max, bytes_max)
    admitted = [room.admits(Someone(), router.weigh(beat(**costly))) for _ in range(100)]
    assert 1 <= sum(admitted) <= 4
    assert all(room.admits(Someone(), router.weigh(beat())) for _ in range(1_000))


# ------------------------------------------------------------------------------------------------------ FindCoordinator


def test_the_coordinator_is_an_existing_broker_by_kafkas_hash() -> None:
    (answer,) = Bench().ask("FindCoordinator", FindCoordinatorRequest(coordinator_keys=("a", "orders", "billing")))
    assert isinstance(answer, FindCoordinatorResponse)
    for coordinator in answer.coordinators:
        assert coordinator.node_id == (2, 7, 1_001)[group_partition(coordinator.key, 3)]
        assert (coordinator.host, coordinator.port, coordinator.error_code) == (
            "gateway",
            20_000 + coordinator.node_id,
            ErrorCode.NONE,
        )


def test_every_gateway_names_the_same_broker() -> None:
    first, second = Coordinators(NODES), Coordinators(NODES[::-1])
    for number in range(50):
        assert first.of(f"group-{number}") == second.of(f"group-{number}")


def test_no_broker_no_coordinator() -> None:
    bench = Bench()
    bench.nodes = ()
    (answer,) = bench.ask("FindCoordinator", FindCoordinatorRequest(coordinator_keys=("a",)))
    assert isinstance(answer, FindCoordinatorResponse)
    assert answer.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


# ------------------------------------------------------------------------------------------------------------ JoinGroup


def test_a_new_member_gets_its_id_here_and_joins_with_it_at_once() -> None:
    bench = Bench()
    (answer,) = bench.ask("JoinGroup", join(), version=9)
    assert isinstance(answer, JoinGroupResponse)
    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("client-")
    assert bench.events == [], "no way to the coordinator"
    bench.ask("JoinGroup", join(answer.member_id), version=9)
    (event,) = bench.events
    assert event.new_member_id == answer.member_id
    assert event.api_version == 3, "one that takes a new member without asking it back"
    assert event.request == join("")


def test_no_member_id_is_given_out_for_no_group() -> None:
    bench = Bench()
    bench.ask("JoinGroup", join(group_id=""), version=9)
    (event,) = bench.events
    assert event.request == join(group_id=""), "the coordinator refuses it"


def test_the_id_is_new_only_once() -> None:
    """A JoinGroup that is repeated, after a connection was lost, is that of a member."""
    bench = Bench()
    (answer,) = bench.ask("JoinGroup", join(), version=5)
    assert isinstance(answer, JoinGroupResponse)
    for _ in range(2):
        bench.ask("JoinGroup", join(answer.member_id), version=5)
    _, second = bench.events
    assert (second.new_member_id, second.api_version, second.request) == (None, 5, join(answer.member_id))


def test_the_id_is_good_for_its_group_only() -> None:
    bench = Bench()
    (answer,) = bench.ask("JoinGroup", join(), version=5)
    assert isinstance(answer, JoinGroupResponse)
    bench.ask("JoinGroup", join(answer.member_id, group_id="other"), version=5)
    assert bench.events[0].new_member_id is None


@pytest.mark.parametrize(
    ("version", "instance", "hands_out", "prefix"),
    [(3, None, True, "client"), (9, "i", True, "i"), (9, None, False, "client")],
)
def test_others_ask_the_coordinator_and_bring_their_id(
    version: int, instance: str | None, hands_out: bool, prefix: str
) -> None:
    bench = Bench(hands_out=hands_out)
    assert bench.ask("JoinGroup", join(instance=instance), version=version) == []
    (event,) = bench.events
    assert event.api_version == version
    assert event.new_member_id is not None
    assert event.new_member_id.startswith(f"{prefix}-")
    assert (event.client_id, event.client_host) == ("client", "/127.0.0.1")


def test_a_member_that_rejoins_is_no_new_one() -> None:
    bench = Bench()
    bench.ask("JoinGroup", join("client-1"), version=9)
    assert (bench.events[0].new_member_id, bench.events[0].api_version) == (None, 9)


# -------------------------------------------------------------------------------------------- requests over many groups


def test_groups_are_described_one_by_one_and_answered_together() -> None:
    bench = Bench("User:alice secret deny\n* * allow")
    request = DescribeGroupsRequest(groups=("a", "secret", "b"), include_authorized_operations=True)
    assert bench.ask("DescribeGroups", request) == []
    assert [event.request for event in bench.events] == [
        DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=True) for group_id in ("a", "b")
    ]
    for event, on_answer in reversed(bench.coordinator.events):
        on_answer(DescribeGroupsResponse(groups=(DescribedGroup(group_id=event.group_id, group_state="Stable"),)))
    (answer,) = bench.answers
    assert isinstance(answer, DescribeGroupsResponse)
    assert [(group.group_id, group.group_state, group.error_code) for group in answer.groups] == [
        ("a", "Stable", ErrorCode.NONE),
        ("secret", "", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("b", "Stable", ErrorCode.NONE),
    ]


def test_a_group_named_twice_is_deleted_once() -> None:
    bench = Bench()
    bench.ask("DeleteGroups", DeleteGroupsRequest(groups_names=("a", "b", "a")))
    for event, on_answer in bench.coordinator.events:
        on_answer(DeleteGroupsResponse(results=(DeletableGroupResult(group_id=event.group_id),)))
    (answer,) = bench.answers
    assert isinstance(answer, DeleteGroupsResponse)
    assert [result.group_id for result in answer.results] == ["a", "b"]


def test_offsets_of_many_groups() -> None:
    bench = Bench()
    groups = tuple(OffsetFetchRequestGroup(group_id=group_id, topics=None) for group_id in ("a", "b"))
    bench.ask("OffsetFetch", OffsetFetchRequest(groups=groups, require_stable=True), version=8)
    assert [event.request for event in bench.events] == [
        OffsetFetchRequest(groups=(group,), require_stable=True) for group in groups
    ]
    for event, on_answer in bench.coordinator.events:
        on_answer(OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=event.group_id),)))
    (answer,) = bench.answers
    assert isinstance(answer, OffsetFetchResponse)
    assert [group.group_id for group in answer.groups] == ["a", "b"]


@pytest.mark.parametrize("api", ["DescribeGroups", "DeleteGroups", "OffsetFetch"])
def test_a_request_over_very_many_groups_asks_for_the_first_of_them(api: str) -> None:
    """The others are loading, as it were: admin clients ask for them again."""
    names = tuple(f"g{number}" for number in range(1_003))
    requests: dict[str, Request] = {
        "DescribeGroups": DescribeGroupsRequest(groups=names),
        "DeleteGroups": DeleteGroupsRequest(groups_names=names),
        "OffsetFetch": OffsetFetchRequest(
            groups=tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in names)
        ),
    }
    bench = Bench()
    assert bench.ask(api, requests[api], version=8 if api == "OffsetFetch" else 2) == []
    for event, on_answer in bench.coordinator.events:  # more come with the answers
        on_answer(refusal(event.request, ErrorCode.NONE))
    assert [event.group_id for event in bench.events] == list(names[:1_000])
    (answer,) = bench.answers
    groups: tuple[Any, ...] = getattr(answer, "results" if api == "DeleteGroups" else "groups")
    assert [(group.group_id, group.error_code) for group in groups] == [
        (name, ErrorCode.NONE if number < 1_000 else ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        for number, name in enumerate(names)
    ]


def test_requests_over_no_group() -> None:
    assert Bench().ask("DescribeGroups", DescribeGroupsRequest(groups=())) == [DescribeGroupsResponse(groups=())]


# ----------------------------------------------------------------------------------------------------------- ListGroups


def test_each_broker_lists_its_own_groups() -> None:
    listed = [
        ListedGroup(group_id=f"g{number}", protocol_type="consumer", group_state="Stable") for number in range(30)
    ]
    bench = Bench(None, *listed)
    group_ids: list[str] = []
    for node in NODES:
        (answer,) = bench.ask("ListGroups", ListGroupsRequest(), node_id=node.node_id)
        assert isinstance(answer, ListGroupsResponse)
        assert answer.groups
        group_ids += [group.group_id for group in answer.groups]
    assert sorted(group_ids) == sorted(group.group_id for group in listed)
    (complete_list,) = bench.ask("ListGroups", ListGroupsRequest())
    assert complete_list == ListGroupsResponse(groups=tuple(listed))


def test_list_filters() -> None:
    stable = ListedGroup(group_id="a", protocol_type="consumer", group_state="Stable")
    empty = ListedGroup(group_id="b", protocol_type="consumer", group_state="Empty")
    hidden = ListedGroup(group_id="secret", protocol_type="consumer", group_state="Stable")
    new = ListedGroup(group_id="c", protocol_type="consumer", group_state="Reconciling", group_type="consumer")
    bench = Bench("* secret deny\n* * allow", stable, empty, hidden, new)
    for request, expected in (
        (ListGroupsRequest(), (stable, empty, new)),
        (ListGroupsRequest(states_filter=(" STABLE",)), (stable,)),
        (ListGroupsRequest(types_filter=("Classic",)), (stable, empty)),
        (ListGroupsRequest(types_filter=("Consumer",)), (new,)),
        (ListGroupsRequest(states_filter=("reconciling",), types_filter=("classic",)), ()),
    ):
        assert bench.ask("ListGroups", request) == [ListGroupsResponse(groups=expected)]


def test_groups_that_are_still_being_read() -> None:
    bench = Bench()
    bench.groups.groups = None
    assert bench.ask("ListGroups", ListGroupsRequest()) == [
        ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    ]


# ------------------------------------------------------------------------------------------------------------- refusals

REQUESTS: dict[str, GroupRequest] = {
    "FindCoordinator": FindCoordinatorRequest(coordinator_keys=("g",)),
    "JoinGroup": join("m"),
    "SyncGroup": SyncGroupRequest(group_id="g", generation_id=1, member_id="m"),
    "Heartbeat": HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
    "LeaveGroup": LeaveGroupRequest(group_id="g", members=(LeaveGroupMember(member_id="m"),)),
    "OffsetCommit": OffsetCommitRequest(
        group_id="g",
        topics=(
            OffsetCommitRequestTopic(
                name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=1),)
            ),
        ),
    ),
    "OffsetFetch": OffsetFetchRequest(
        groups=(
            OffsetFetchRequestGroup(group_id="g", topics=(OffsetFetchRequestTopic(name="t", partition_indexes=(0,)),)),
        )
    ),
    "OffsetDelete": OffsetDeleteRequest(group_id="g", topics=()),
    "DescribeGroups": DescribeGroupsRequest(groups=("g",)),
    "DeleteGroups": DeleteGroupsRequest(groups_names=("g",)),
    "ConsumerGroupHeartbeat": ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1),
    "ConsumerGroupDescribe": ConsumerGroupDescribeRequest(group_ids=("g",)),
}


def test_every_api_is_refused_here() -> None:
    assert REQUESTS.keys() == {name for key, name in GROUP_APIS.items() if key != ApiKey.LIST_GROUPS}


@pytest.mark.parametrize("api", REQUESTS)
def test_who_may_not_is_told_so_in_every_version(api: str) -> None:
    bench = Bench("User:bob * allow")
    key = next(key for key, name in GROUP_APIS.items() if name == api)
    first, last = GROUP_VERSIONS[key]
    for version in range(first, last + 1):
        (answer,) = bench.ask(api, REQUESTS[api], version=version)
        payload = write_response(api, version, 1, answer)
        assert b"\x00\x1e" in payload, f"30 is nowhere in {answer}"
    assert bench.events == []


def test_version_1_of_offset_fetch_has_its_error_at_each_partition() -> None:
    answer = refusal(REQUESTS["OffsetFetch"], ErrorCode.COORDINATOR_NOT_AVAILABLE)
    payload = write_response("OffsetFetch", 1, 1, answer)
    read = WireOffsetFetchResponse.decode(payload, version=1, header=True)
    assert [
        (partition.partition_index, partition.committed_offset, partition.error_code)
        for partition in read.topics[0].partitions
    ] == [(0, -1, 15)]


def test_an_answer_goes_through_as_it_is() -> None:
    bench = Bench()
    bench.ask("Heartbeat", REQUESTS["Heartbeat"], version=4)
    ((event, on_answer),) = bench.coordinator.events
    assert (event.group_id, event.api, event.api_version, event.request) == ("g", "Heartbeat", 4, REQUESTS["Heartbeat"])
    on_answer(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert bench.answers == [HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)]


# ------------------------------------------------------------------------------------------------ authorized operations

ALL_OPERATIONS = sum(1 << operation for operation in (3, 6, 8, 10, 11))
"""READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS, as a broker says of a group to who may do everything."""
RULES = """
User:alice   mine-*   allow
"""


@pytest.mark.parametrize("asks", [True, False])
def test_what_a_client_may_do_with_a_group_is_said_to_who_asks(asks: bool) -> None:
    none = -(2**31)
    bench = Bench(RULES)
    bench.ask("DescribeGroups", DescribeGroupsRequest(groups=("mine-1", "other"), include_authorized_operations=asks))
    ((_, on_answer),) = bench.coordinator.events
    described = DescribedGroup(
        group_id="mine-1", group_state="Stable", protocol_type="consumer", protocol_data="range", members=()
    )
    on_answer(DescribeGroupsResponse(groups=(described,)))
    (answer,) = bench.answers
    assert isinstance(answer, DescribeGroupsResponse)
    expected = ALL_OPERATIONS if asks else none
    assert [(group.group_id, group.authorized_operations) for group in answer.groups] == [
        ("mine-1", expected), ("other", none),
    ]  # fmt: skip


@pytest.mark.parametrize("asks", [True, False])
def test_so_it_is_with_consumer_groups(asks: bool) -> None:
    none = -(2**31)
    bench = Bench(RULES)
    request = ConsumerGroupDescribeRequest(group_ids=("mine-1", "mine-2"), include_authorized_operations=asks)
    bench.ask("ConsumerGroupDescribe", request, version=1)
    (_, first), (_, second) = bench.coordinator.events
    first(ConsumerGroupDescribeResponse(groups=(DescribedConsumerGroup(group_id="mine-1", group_state="Stable"),)))
    no_group = DescribedConsumerGroup(group_id="mine-2", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
    second(ConsumerGroupDescribeResponse(groups=(no_group,)))
    (answer,) = bench.answers
    assert isinstance(answer, ConsumerGroupDescribeResponse)
    expected = ALL_OPERATIONS if asks else none
    assert [(group.group_id, group.authorized_operations) for group in answer.groups] == [
        ("mine-1", expected), ("mine-2", none),
    ]  # fmt: skip
