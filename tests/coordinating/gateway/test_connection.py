"""One connection, without sockets: the order of answers, what goes where, who may ask, bounds, and ends."""

from __future__ import annotations

from random import Random

import pytest
from kafka.protocol.admin.groups import DescribeGroupsRequest
from kafka.protocol.consumer.group import OffsetCommitRequest
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorRequest, MetadataResponse

from group_coordinator.coordinating.gateway.codec import request_payload
from group_coordinator.coordinating.gateway.config import Bounds
from group_coordinator.coordinating.gateway.frames import RequestHead, frame
from group_coordinator.coordinating.gateway.versions import OtherApi
from schemas.error_codes import ErrorCode
from schemas.message_versions import GroupResponse
from schemas.messages import DescribeGroupsResponse, HeartbeatResponse, JoinGroupResponse, SyncGroupResponse
from schemas.messages import FindCoordinatorRequest as OurFindCoordinatorRequest
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.machines import ALL_IS_WELL, carried, connection, fed

# ------------------------------------------------------------------------------------------------------ what goes where


def test_a_group_request_is_asked_and_answered_here() -> None:
    machine = fed(connection(), wire.heartbeat(7))
    (pending,) = machine.to_coordinator
    assert (pending.api, pending.api_version, pending.client_id, pending.principal) == (
        "Heartbeat",
        4,
        "client",
        "User:ANONYMOUS",
    )
    machine.answer(pending.number, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    (answer,) = wire.frames(carried(machine.to_client))
    assert wire.heartbeat_error(answer) == 27
    assert wire.correlations(answer) == [7]
    assert carried(machine.to_broker) == b"", "the broker hears nothing of groups"


def test_all_else_goes_to_the_broker_as_it_is() -> None:
    produce = wire.produce(1, acks=-1, size=100_000)
    machine = connection()
    for start in range(0, len(produce), 7_000):
        machine.from_client(produce[start : start + 7_000])
        assert carried(machine.to_broker) == produce[start : start + 7_000], "in pieces, as it comes"
    answer = wire.raw_answer(1, bytes(50_000))
    for start in range(0, len(answer), 9_000):
        machine.from_broker(answer[start : start + 9_000])
        if start:
            assert carried(machine.to_client), "in pieces, as it comes"
    assert machine.closing is None


def test_addresses_are_those_of_the_gateway() -> None:
    machine = fed(connection(), wire.metadata(3))
    assert carried(machine.to_broker) == wire.metadata(3)
    machine.from_broker(wire.metadata_answer(3))
    read = MetadataResponse.decode(carried(machine.to_client)[4:], version=9, header=True)
    assert [(broker.host, broker.port) for broker in read.brokers] == [("gateway", 20_001)]


def test_the_coordinator_of_a_transaction_is_the_brokers_business() -> None:
    of_group = wire.request(FindCoordinatorRequest(version=3, key="g", key_type=0), 1)
    of_transaction = wire.request(FindCoordinatorRequest(version=3, key="tx", key_type=1), 2)
    machine = fed(connection(), of_group, of_transaction)
    assert [pending.request for pending in machine.to_coordinator] == [
        OurFindCoordinatorRequest(coordinator_keys=("g",))
    ]
    assert carried(machine.to_broker) == of_transaction


@pytest.mark.parametrize("version", [2, 3, 8, 9])
def test_a_produce_that_nobody_confirms_has_no_answer(version: int) -> None:
    transactional_id = None if version < 3 else "t" * 300
    unconfirmed = wire.produce(1, acks=0, version=version, transactional_id=transactional_id)
    for end in (*range(4, 60), 340, len(unconfirmed)):
        machine = connection()
        machine.from_client(unconfirmed[:end])
        machine.from_client(unconfirmed[end:] + wire.metadata(2))
        assert carried(machine.to_broker) == unconfirmed + wire.metadata(2)
        machine.from_broker(wire.metadata_answer(2))
        assert wire.correlations(carried(machine.to_client)) == [2]


# ------------------------------------------------------------------------------------------------------------ the order


def test_answers_leave_in_the_order_of_their_requests() -> None:
    machine = fed(connection(), wire.heartbeat(1), wire.heartbeat(2), wire.metadata(3), wire.produce(4, acks=1))
    held, heartbeat = machine.to_coordinator
    machine.from_broker(wire.metadata_answer(3) + wire.raw_answer(4))
    machine.answer(heartbeat.number, ALL_IS_WELL)
    assert carried(machine.to_client) == b"", "one that has no answer holds what is behind it"
    machine.answer(held.number, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert wire.correlations(carried(machine.to_client)) == [1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_order_of_answers_and_the_size_of_pieces(seed: int) -> None:
    random = Random(seed)
    machine = connection()
    kinds = [random.choice(("group", "broker")) for _ in range(30)]
    stream = b"".join(wire.heartbeat(n) if kind == "group" else wire.produce(n, acks=1) for n, kind in enumerate(kinds))
    answers = b"".join(
        wire.raw_answer(n, bytes(random.randrange(300))) for n, kind in enumerate(kinds) if kind == "broker"
    )
    to_client, to_broker = b"", b""
    waiting: list[int] = []
    while stream or answers or waiting:
        step = random.random()
        if step < 0.4 and stream:
            cut = random.randrange(1, 200)
            machine.from_client(stream[:cut])
            stream = stream[cut:]
        elif step < 0.7 and answers:
            cut = min(random.randrange(1, 200), len(answers))
            sent = len(wire.frames(to_broker)) if not stream else 0
            if not stream and sent:
                machine.from_broker(answers[:cut])
                answers = answers[cut:]
        elif waiting:
            machine.answer(waiting.pop(random.randrange(len(waiting))), ALL_IS_WELL)
        waiting += [pending.number for pending in machine.to_coordinator]
        machine.to_coordinator.clear()
        to_broker += carried(machine.to_broker)
        to_client += carried(machine.to_client)
        assert machine.closing is None
    assert wire.correlations(to_client) == list(range(30))
    assert wire.correlations(to_broker)  # whole frames only


@pytest.mark.parametrize(
    ("waits", "response"), [(wire.join(1), JoinGroupResponse()), (wire.sync(1), SyncGroupResponse())]
)
def test_behind_a_request_that_waits_for_others_nothing_is_begun(waits: bytes, response: GroupResponse) -> None:
    """As at a broker: a heartbeat that is sent while a member joins is answered as of the generation that it has
    joined."""
    machine = fed(connection(), waits, wire.heartbeat(2), wire.metadata(3))
    (pending,) = machine.to_coordinator
    machine.to_coordinator.clear()
    assert machine.to_broker == []
    would_notice_the_clients_end = machine.reads_client
    machine.from_client(bytes(4_000_000)[: 4 * 65_536])
    keeps_all_that_it_says = machine.reads_client
    assert (would_notice_the_clients_end, keeps_all_that_it_says) == (True, False)
    machine.answer(pending.number, response)
    (heartbeat,) = machine.to_coordinator
    assert heartbeat.api == "Heartbeat"
    assert carried(machine.to_broker) == wire.metadata(3)


def test_an_answer_is_given_once() -> None:
    machine = fed(connection(), wire.heartbeat(1), wire.heartbeat(2))
    first, second = machine.to_coordinator
    machine.answer(first.number, ALL_IS_WELL)
    machine.answer(first.number, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    machine.answer(second.number, ALL_IS_WELL)
    assert [wire.heartbeat_error(frame) for frame in wire.frames(carried(machine.to_client))] == [0, 0]


# ------------------------------------------------------------------------------------------------------ what is offered


def test_versions_are_those_of_both() -> None:
    machine = fed(connection(), wire.api_versions(1))
    assert carried(machine.to_broker) == wire.api_versions(1)
    machine.from_broker(wire.api_versions_answer(1))
    read = ApiVersionsResponse.decode(carried(machine.to_client)[4:], version=3, header=True)
    assert {api.api_key: api.max_version for api in read.api_keys}.items() >= {0: 9, 11: 9, 9: 9}.items()


def test_the_broker_hears_which_broker_of_which_cluster_a_client_means() -> None:
    head = RequestHead(OtherApi.API_VERSIONS, 5, 1, None, 0)
    said = {
        "client_software_name": "c", "client_software_version": "1", "cluster_id": "another", "node_id": 3,
    }  # fmt: skip
    asked = frame(request_payload("ApiVersionsRequest", head, said))
    machine = fed(connection(), asked)
    assert carried(machine.to_broker) == asked
    refused = wire.raw_answer(1, bytes.fromhex("0081 01 00000000 00"))
    machine.from_broker(refused)
    assert carried(machine.to_client) == refused, "REBOOTSTRAP_REQUIRED, as the broker says it"


def test_an_unknown_version_of_api_versions_is_told_which_are_known() -> None:
    newer = bytearray(wire.api_versions(5, version=4))
    newer[6:8] = b"\x00\x63"
    machine = fed(connection(), bytes(newer))
    (frame,) = wire.frames(carried(machine.to_client))
    assert frame[4:10] == b"\x00\x00\x00\x05\x00\x23"
    assert carried(machine.to_broker) == b"", "the broker does not hear of it"
    fed(machine, wire.api_versions(6))
    assert carried(machine.to_broker) == wire.api_versions(6), "the client asks again, in a version that is known"
    machine.from_broker(wire.api_versions_answer(6))
    assert wire.correlations(carried(machine.to_client)) == [6]
    assert machine.closing is None


def test_what_is_not_offered_ends_the_connection() -> None:
    commit = OffsetCommitRequest(version=1, group_id="g", topics=[])
    for refused in (
        wire.request(commit, 1),
        wire.produce(1, acks=1, version=10),
        b"\x00\x00\x00\x0a\x00\x47\x00\x00\x00\x00\x00\x01\xff\xff",
    ):
        assert (fed(connection(), refused).closing or "").split(":")[0] == "not offered", (
            "one kind for the metrics, whatever is asked"
        )


# --------------------------------------------------------------------------------------------------------------- bounds


def test_requests_wait_when_too_many_have_no_answer() -> None:
    machine = connection(Bounds(pending_requests_max=3))
    machine.from_client(b"".join(wire.heartbeat(n) for n in range(10)))
    assert len(machine.to_coordinator) == 3
    assert not machine.reads_client
    first = machine.to_coordinator[0].number
    for number in range(first, first + 10):
        machine.answer(number, ALL_IS_WELL)
    assert wire.correlations(carried(machine.to_client)) == list(range(10))
    assert machine.reads_client


def test_the_broker_is_not_read_while_its_answers_cannot_leave() -> None:
    machine = fed(connection(Bounds(held_bytes_max=1_000)), wire.heartbeat(1), wire.produce(2, acks=1))
    machine.from_broker(wire.raw_answer(2, bytes(5_000))[:2_000])
    read_before = machine.reads_broker
    (held,) = machine.to_coordinator
    machine.answer(held.number, ALL_IS_WELL)
    assert (read_before, machine.reads_broker) == (False, True)
    machine.from_broker(wire.raw_answer(2, bytes(5_000))[2_000:])
    assert wire.correlations(carried(machine.to_client)) == [1, 2]


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x04\x00\x0c\x00\x04",
        wire.heartbeat(1)[:-3] + b"\xff\xff\xff",
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_kafka_ends_this_connection(data: bytes) -> None:
    machine = fed(connection(), data + bytes(100))
    assert machine.closing is not None
    assert machine.closing.startswith("not understood")


def test_a_group_request_has_a_bound_of_its_own() -> None:
    machine = fed(connection(Bounds(group_request_bytes_max=1_000)), wire.heartbeat(1, group_id="g" * 2_000)[:100])
    assert "at most 1000" in (machine.closing or ""), "before it is all here"


def test_a_request_over_many_groups_counts_for_as_many() -> None:
    of_three = wire.request(
        DescribeGroupsRequest(version=5, groups=["a", "b", "c"], include_authorized_operations=False), 1
    )
    machine = fed(connection(Bounds(pending_requests_max=4)), of_three, of_three, wire.heartbeat(3))
    assert len(machine.to_coordinator) == 2
    machine.answer(machine.to_coordinator[0].number, DescribeGroupsResponse(groups=()))
    machine.answer(machine.to_coordinator[1].number, DescribeGroupsResponse(groups=()))
    assert len(machine.to_coordinator) == 3
    too_many = wire.request(
        DescribeGroupsRequest(version=5, groups=["g"] * 10_001, include_authorized_operations=False), 1
    )
    assert "at most 10000 are taken" in (fed(connection(), too_many).closing or "")


# ----------------------------------------------------------------------------------------------------------------- ends


def test_an_idle_broker_that_closes_does_not_close_the_client() -> None:
    machine = fed(connection(), wire.metadata(1))
    machine.from_broker(wire.metadata_answer(1))
    machine.broker_closed()
    assert machine.closing is None
    machine.to_broker.clear()
    machine.from_client(wire.heartbeat(2) + wire.metadata(3))
    assert len(machine.to_coordinator) == 1
    assert carried(machine.to_broker) == wire.metadata(3), "for a new connection"


@pytest.mark.parametrize("waits", [wire.metadata(1), wire.produce(1, acks=0)[:50]])
def test_a_broker_that_closes_over_a_request_does(waits: bytes) -> None:
    machine = fed(connection(), waits)
    machine.broker_closed()
    assert machine.closing == "the broker closed the connection"


def test_a_broker_that_closes_upon_a_produce_without_acks_says_that_it_failed() -> None:
    machine = fed(connection(), wire.produce(1, acks=0))
    machine.broker_closed()
    assert machine.closing == "the broker closed the connection"
    answered_since = fed(connection(), wire.produce(1, acks=0), wire.metadata(2))
    answered_since.from_broker(wire.metadata_answer(2))
    answered_since.broker_closed()
    assert answered_since.closing is None


def test_an_answer_to_nothing_ends_the_connection() -> None:
    machine = connection()
    machine.from_broker(wire.raw_answer(1))
    assert machine.closing == "the broker answers what was not asked"
    other = fed(connection(), wire.metadata(1))
    other.from_broker(wire.metadata_answer(2))
    assert other.closing == "not understood: the broker's answer is not the one to the oldest request"


def test_an_answer_to_a_connection_that_has_ended_is_dropped() -> None:
    machine = fed(connection(), wire.heartbeat(1), b"\xff\xff\xff\xff")
    machine.answer(machine.to_coordinator[0].number, ALL_IS_WELL)
    assert machine.to_client == []


def test_random_bytes_never_raise() -> None:
    random = Random(3)
    for _ in range(3_000):
        good = random.choice(
            (wire.heartbeat(1), wire.join(2), wire.metadata(3), wire.produce(4, 1), wire.api_versions(5))
        )
        damaged = bytearray(good)
        for _ in range(random.randrange(1, 6)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        machine = fed(connection(), bytes(damaged))
        machine.from_broker(random.randbytes(60))
