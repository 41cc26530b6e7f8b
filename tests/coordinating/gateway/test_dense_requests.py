"""Requests that are dense: what one of them may cost the loop that serves everybody,
whatever it names and however often."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from kafka.protocol.admin.groups import ListGroupsRequest
from kafka.protocol.admin.topics import DescribeTopicPartitionsRequest
from kafka.protocol.consumer.fetch import FetchRequest
from kafka.protocol.consumer.offsets import ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.held_requests import EACH_MAX
from group_coordinator.coordinating.gateway.refusals import refusal
from group_coordinator.coordinating.gateway.request_bounds import cost_of_listing
from schemas.error_codes import ErrorCode
from schemas.messages import JoinGroupRequest, SyncGroupRequest
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.filtered_connections import HONEST, SECRET, connection
from tests.coordinating.gateway.machines import carried
from tests.coordinating.gateway.raw_requests import produce, varint
from tests.coordinating.gateway.router_bench import Bench, join


def begun(request: Any) -> Connection:
    """A connection that has had its turn for a request."""
    machine = connection()
    machine.from_client(wire.request(request, 5))
    machine.go_on()
    return machine


# ---------------------------------------------------------------------------------------------- topics that are refused


def metadata(*names: str) -> MetadataRequest:
    topics = [MetadataRequest.MetadataRequestTopic(version=12, topic_id=None, name=name) for name in names]
    return MetadataRequest(
        version=12, topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def described(*names: str) -> DescribeTopicPartitionsRequest:
    cls = DescribeTopicPartitionsRequest
    return cls(
        version=0,
        topics=[cls.TopicRequest(version=0, name=name) for name in names],
        response_partition_limit=1,
        cursor=None,
    )


def offsets(name: str, partitions: int) -> ListOffsetsRequest:
    cls = ListOffsetsRequest.ListOffsetsTopic
    requested = [
        cls.ListOffsetsPartition(version=1, partition_index=index, timestamp=-1, current_leader_epoch=-1)
        for index in range(partitions)
    ]
    return ListOffsetsRequest(version=1, replica_id=-1, topics=[cls(version=1, name=name, partitions=requested)])


def fetch(name: str, partitions: int) -> FetchRequest:
    cls = FetchRequest.FetchTopic
    requested = [
        cls.FetchPartition(version=4, partition=index, fetch_offset=0, partition_max_bytes=1)
        for index in range(partitions)
    ]
    return FetchRequest(
        version=4, replica_id=-1, max_wait_ms=1, min_bytes=1, max_bytes=1, isolation_level=0,
        topics=[cls(version=4, topic=name, partitions=requested)]
    )  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [
        lambda: metadata(*[SECRET] * 2_500),
        lambda: metadata(*[f"coordinator.{number}" for number in range(2_500)]),
        lambda: metadata(HONEST, *[f"coordinator.{number}" for number in range(2_500)], HONEST),
        lambda: described(*[f"coordinator.{number}" for number in range(2_500)]),
        lambda: offsets(SECRET, 20_000),
        lambda: fetch(SECRET, 20_000),
    ],
    ids=["repeated", "others", "between", "described", "offsets", "fetched"],
)
def test_what_is_refused_and_put_together_again_is_bounded(make: Callable[[], Any]) -> None:
    """Each name that is masked costs as much as a small request, twice: in the request and in its answer."""
    machine = begun(make())
    assert machine.closing is not None
    assert "refused" in machine.closing
    assert carried(machine.to_broker) == b""


@pytest.mark.parametrize(
    "make",
    [
        lambda: offsets(HONEST, 20_000),
        lambda: fetch(HONEST, 20_000),
        lambda: metadata(*[f"orders-{number}" for number in range(2_500)]),
    ],
    ids=["offsets", "fetched", "names"],
)
def test_what_is_not_refused_has_no_such_bound(make: Callable[[], Any]) -> None:
    request_ = make()
    machine = begun(request_)
    assert machine.closing is None
    assert carried(machine.to_broker) == wire.request(request_, 5)


def test_topics_that_one_request_names_are_bounded() -> None:
    assert begun(metadata(*["orders"] * 24_000)).closing is None
    assert begun(metadata(*["orders"] * 26_000)).closing is not None
    ids = [MetadataRequest.MetadataRequestTopic(version=12, topic_id=uuid4(), name=None) for _ in range(26_000)]
    request = MetadataRequest(
        version=12, topics=ids, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    assert begun(request).closing is not None


# -------------------------------------------------------------------------------------------------------------- Produce


EMPTY_TOPICS = varint(300_001) + b"\x01\x01\x00" * 300_000 + b"\x00"
EMPTY_PARTITIONS = b"\x02\x02t" + varint(100_001) + b"\x00\x00\x00\x01\x00\x00" * 100_000 + b"\x00\x00"
REFUSED_TOPICS = (
    varint(5_001)
    + (b"\x15coordinator.eventsxx" + b"\x02\x00\x00\x00\x01\x15" + b"r" * 20 + b"\x00\x00") * 5_000
    + b"\x00"
)


@pytest.mark.parametrize(
    "body", [EMPTY_TOPICS, EMPTY_PARTITIONS, REFUSED_TOPICS], ids=["topics", "partitions", "refused"]
)
@pytest.mark.parametrize("chunk", [1_000, 262_144])
def test_a_produce_without_records_to_speak_of_is_not_served(body: bytes, chunk: int) -> None:
    machine = connection()
    request = produce(body)
    passed = 0
    for start in range(0, len(request), chunk):
        machine.from_client(request[start : start + chunk])
        while machine.has_more:
            machine.go_on()
        passed += len(carried(machine.to_broker))
    assert machine.closing is not None
    assert passed < 400_000


def test_many_partitions_are_let_through_in_turns() -> None:
    """As dense as honest ones may be: a few records for each of very many partitions."""
    partition = b"\x00\x00\x00\x01" + b"\x47" + b"r" * 70 + b"\x00"
    request = produce(b"\x02\x02t" + varint(6_001) + partition * 6_000 + b"\x00\x00")
    machine = connection()
    machine.from_client(request[:262_144])
    turns, passed = 0, carried(machine.to_broker)
    assert len(passed) < 200_000, "not all of it at once"
    assert not machine.reads_client
    machine.from_client(request[262_144:])
    while machine.has_more:
        machine.go_on()
        turns += 1
        passed += carried(machine.to_broker)
    assert turns > 1
    assert passed == request
    assert machine.closing is None


def test_bulk_goes_through_as_it_comes() -> None:
    request = produce(b"\x02\x02t\x02\x00\x00\x00\x01" + varint(1_000_001) + b"r" * 1_000_000 + b"\x00\x00\x00")
    machine = connection()
    for start in range(0, len(request), 262_144):
        piece = request[start : start + 262_144]
        machine.from_client(piece)
        assert not machine.has_more
        assert carried(machine.to_broker) == piece


# ------------------------------------------------------------------------------------------------- JoinGroup, SyncGroup


STATIC = replace(join(), group_instance_id="i")
SYNC = SyncGroupRequest(
    group_id="g", generation_id=1, member_id="m", protocol_type=None, protocol_name=None, assignments=()
)


@pytest.mark.parametrize(
    "request_", [join("m"), STATIC, replace(STATIC, member_id="m"), SYNC, replace(SYNC, group_instance_id="i")]
)
def test_one_member_asks_only_so_often_at_once(request_: JoinGroupRequest | SyncGroupRequest) -> None:
    """Each may be answered with megabytes that others have written, and none of them waits for room."""
    bench, api = Bench(), type(request_).__name__.removesuffix("Request")
    refused = [answer for _ in range(100) for answer in bench.ask(api, request_)]
    events = bench.coordinator.events
    assert len(events) == EACH_MAX
    assert refused == [refusal(request_, ErrorCode.COORDINATOR_NOT_AVAILABLE)] * (100 - EACH_MAX)
    assert not bench.ask(api, replace(request_, group_id="h"))
    for event, on_answer in list(events):
        on_answer(refusal(event.request, ErrorCode.REBALANCE_IN_PROGRESS))
    assert bench.router.held_requests == 0
    assert not bench.ask(api, request_)


def test_new_members_are_no_one_member() -> None:
    bench = Bench(hands_out=False)
    for _ in range(50):
        bench.ask("JoinGroup", join())
    assert len(bench.coordinator.events) == 50


# ----------------------------------------------------------------------------------------------------------- ListGroups


def list_groups(correlation_id: int) -> bytes:
    return wire.request(ListGroupsRequest(version=4, states_filter=[]), correlation_id)


def test_a_list_of_very_many_groups_waits_for_its_turn() -> None:
    """A few bytes that are much work: on many connections at once, all of it would come before anybody else."""
    machine = connection()
    machine.listing_cost = lambda: cost_of_listing(5_000)
    machine.from_client(wire.heartbeat(1) + list_groups(2) + list_groups(3))
    assert [pending.api for pending in machine.to_coordinator] == ["Heartbeat"]
    assert machine.has_more
    machine.go_on()
    assert len(machine.to_coordinator) == 2
    assert machine.has_more, "one in a turn"
    machine.go_on()
    assert len(machine.to_coordinator) == 3
    assert not machine.has_more


def test_a_list_of_few_groups_is_begun_when_it_comes() -> None:
    machine = connection()
    machine.listing_cost = lambda: cost_of_listing(40)
    machine.from_client(list_groups(2))
    assert len(machine.to_coordinator) == 1
