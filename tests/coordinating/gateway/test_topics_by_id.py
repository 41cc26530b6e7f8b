"""OffsetCommit and OffsetFetch 10 name topics by their ids: the client's broker is asked which they are, once."""

from __future__ import annotations

from uuid import UUID

from kafka.protocol.consumer.group import OffsetCommitRequest, OffsetFetchRequest
from kafka.protocol.metadata import MetadataRequest

from group_coordinator.coordinating.gateway.codec import response_payload
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.frames import frame
from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from schemas import messages
from schemas.error_codes import ErrorCode
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.filtered_connections import HONEST, access, connection, sent
from tests.coordinating.gateway.machines import carried

ID, GONE = UUID(int=77), UUID(int=78)


def commit(correlation_id: int, *topic_ids: UUID) -> bytes:
    topic = OffsetCommitRequest.OffsetCommitRequestTopic
    partition = topic.OffsetCommitRequestPartition(
        version=10, partition_index=0, committed_offset=7, committed_leader_epoch=-1, committed_metadata=None
    )
    topics = [topic(version=10, topic_id=topic_id, partitions=[partition]) for topic_id in topic_ids]
    request = OffsetCommitRequest(
        version=10, group_id="g", generation_id_or_member_epoch=1, member_id="m", group_instance_id=None, topics=topics
    )
    return wire.request(request, correlation_id)


def fetch(correlation_id: int, topic_id: UUID) -> bytes:
    group = OffsetFetchRequest.OffsetFetchRequestGroup
    topic = group.OffsetFetchRequestTopics(version=10, topic_id=topic_id, partition_indexes=[0, 1])
    groups = [group(version=10, group_id="g", member_id=None, member_epoch=-1, topics=[topic])]
    return wire.request(OffsetFetchRequest(version=10, groups=groups, require_stable=True), correlation_id)


def broker_says(machine: Connection, correlation_id: int, **names: UUID) -> None:
    topics = tuple(
        {
            "error_code": 0, "name": name, "topic_id": topic_id.bytes, "is_internal": False, "partitions": (),
            "topic_authorized_operations": -(2**31),
        }
        for name, topic_id in names.items()
    )  # fmt: skip
    values = {"throttle_time_ms": 0, "brokers": (), "cluster_id": None, "controller_id": 1, "topics": topics}
    machine.from_broker(frame(response_payload("MetadataResponse", 12, correlation_id, values)))


def asked(machine: Connection) -> list[PendingRequest]:
    pending = list(machine.to_coordinator)
    machine.to_coordinator.clear()
    return pending


def named(pending: PendingRequest) -> list[tuple[str, str | None]]:
    request = pending.request
    topics = (
        request.topics
        if isinstance(request, messages.OffsetCommitRequest)
        else request.groups[0].topics or ()  # type: ignore[union-attr]
    )
    return [(topic.name, topic.topic_id) for topic in topics]


def test_the_broker_says_which_topics_these_are() -> None:
    machine = connection()
    machine.from_client(commit(1, ID, GONE) + wire.heartbeat(2))
    question = sent(machine, MetadataRequest, 12)
    assert [topic.topic_id for topic in question.topics] == [ID, GONE]
    assert question.allow_auto_topic_creation is False
    assert asked(machine) == [], "what comes behind it waits"
    broker_says(machine, 1, **{HONEST: ID})
    assert carried(machine.to_client) == b"", "the answer is not the client's"
    first, second = asked(machine)
    assert named(first) == [(HONEST, str(ID)), ("", str(GONE))]
    assert (first.api_version, second.api) == (10, "Heartbeat")
    partitions = (messages.OffsetCommitResponsePartition(0, ErrorCode.NONE),)
    topic = messages.OffsetCommitResponseTopic(name=HONEST, topic_id=str(ID), partitions=partitions)
    machine.answer(first.number, messages.OffsetCommitResponse(topics=(topic,)))
    assert ID.bytes in carried(machine.to_client)


def test_what_a_broker_has_said_is_not_asked_again_on_any_connection() -> None:
    shared = access()
    first, second = connection(topic_access=shared), connection(topic_access=shared)
    first.from_client(commit(1, ID))
    carried(first.to_broker)
    broker_says(first, 1, **{HONEST: ID})
    second.from_client(fetch(1, ID) + commit(2, ID))
    assert carried(second.to_broker) == b""
    assert [named(pending) for pending in asked(second)] == [[(HONEST, str(ID))]] * 2


def test_a_topic_that_no_broker_knows_is_asked_for_each_time() -> None:
    machine = connection()
    for number in (1, 2):
        machine.from_client(fetch(number, GONE))
        assert carried(machine.to_broker)
        broker_says(machine, number)
        assert [named(pending) for pending in asked(machine)] == [[("", str(GONE))]]
    assert machine.closing is None
