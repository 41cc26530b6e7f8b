"""Clients and the coordinator's topics, on one connection without sockets:
nothing that names one reaches the broker."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID, uuid4

import pytest
from kafka.protocol.admin import topics as admin
from kafka.protocol.consumer.fetch import FetchRequest, FetchResponse
from kafka.protocol.metadata import MetadataRequest, MetadataResponse
from kafka.protocol.producer.produce import ProduceRequest, ProduceResponse

from group_coordinator.coordinating.gateway.group_configs import ConfigsResponse
from group_coordinator.coordinating.gateway.versions import TOPIC_APIS
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.filtered_connections import (
    HONEST,
    SECRET,
    access,
    connection,
    fetch_request,
    sent,
    told,
)
from tests.coordinating.gateway.machines import carried, fed
from tests.coordinating.gateway.random_messages import TOPIC_MESSAGES, random_message, wire_class
from tests.each_version import in_each_version

MARK = b"coordinator."
REFUSED, NO_SUCH_ID = 29, 100
REQUESTS = [(message, version) for message, version in TOPIC_MESSAGES if message.endswith("Request")]
BY_NAME = [each for each in REQUESTS if each[0] not in ("ProduceRequest", "FetchRequest")]


# ---------------------------------------------------------------------------------------------------------- any message


@in_each_version(REQUESTS)
def test_no_name_of_the_coordinators_topics_reaches_the_broker(message: str, version: int) -> None:
    """Whatever the API, the version and the place in the message, in whatever pieces it comes."""
    random = Random(f"{message}{version}")
    for round_ in range(10):
        kafka_python_message, _ = random_message(
            message, version, random, (HONEST, SECRET, "coordinator.topic-ids", "coordinator-x", "xcoordinator.events")
        )
        frame = wire.request(kafka_python_message, round_)
        if message == "FetchRequest" and version < 13:
            kafka_python_message.forgotten_topics_data = []  # to forget one is no access
            frame = wire.request(kafka_python_message, round_)
        elif message == "DescribeTopicPartitionsRequest":
            kafka_python_message.cursor = None
            frame = wire.request(kafka_python_message, round_)
        machine = connection()
        for start in range(0, len(frame), step := random.choice((7, 100, 10_000))):
            machine.from_client(frame[start : start + step])
        machine.go_on()
        assert machine.closing is None
        passed = carried(machine.to_broker)
        assert not any(bytes([size]) + MARK in passed for size in (18, 19, 21, 22)), (
            "no name begins so, be it compact or not"
        )
        if not machine.to_client and not machine.reads_client:
            continue  # it waits for the names of ids
        assert passed.count(b"xcoordinator.events") == frame.count(b"xcoordinator.events") or machine.to_client


@in_each_version(BY_NAME)
def test_who_may_is_let_through_untouched(message: str, version: int) -> None:
    random = Random(f"allowed{message}{version}")
    kafka_python_message, _ = random_message(message, version, random, (HONEST, SECRET))
    frame = wire.request(kafka_python_message, 1)
    machine = connection("User:ANONYMOUS topic coordinator.* allow")
    machine.from_client(frame)
    machine.go_on()
    for _ in machine.to_coordinator:  # it is asked first which groups have settings
        machine.answer(0, ConfigsResponse(()))
    assert (passed := carried(machine.to_broker)) == frame or len(wire.frames(passed)) == 1, "which topics are these?"


@in_each_version(REQUESTS)
def test_damage_ends_the_connection_and_nothing_else(message: str, version: int) -> None:
    random = Random(f"damaged{message}{version}")
    kafka_python_message, _ = random_message(message, version, random, (HONEST, SECRET))
    frame = wire.request(kafka_python_message, 1)
    for _ in range(30):
        damaged = bytearray(frame)
        for _ in range(random.randrange(1, 4)):
            damaged[random.randrange(14, len(damaged))] = random.choice((0, 0xFF, 0x80, 1, random.randrange(256)))
        machine = connection()
        machine.from_client(bytes(damaged))
        machine.go_on()
        for passed in [] if machine.closing else wire.frames(carried(machine.to_broker)):
            try:
                read = wire_class(message).decode(passed[4:], version=version, header=True)
            except Exception:
                continue  # no broker will understand it
            assert all(
                getattr(topic, name, None) != SECRET
                for topic in _topics(read)
                for name in ("name", "topic", "resource_name")
            )


def _topics(request: Any) -> Iterator[Any]:
    for name in (
        "topics",
        "topic_names",
        "topic_data",
        "resources",
        "dirs",
        "topic_partitions",
        "transactions",
        "v3_and_below_topics",
    ):
        yield from getattr(request, name, None) or ()


# --------------------------------------------------------------------------------------------- names, in whole messages


def test_the_refused_part_is_told_and_the_other_goes_on() -> None:
    topics = [
        admin.CreateTopicsRequest.CreatableTopic(
            version=7, name=name, num_partitions=1, replication_factor=1, assignments=[], configs=[]
        )
        for name in (HONEST, SECRET)
    ]
    creation = admin.CreateTopicsRequest(version=7, topics=topics, timeout_ms=1, validate_only=False)
    machine = fed(connection(), wire.request(creation, 5))
    forwarded = sent(machine, admin.CreateTopicsRequest, 7)
    assert [topic.name for topic in forwarded.topics] == [HONEST, "/oordinator.events"]
    cls = wire_class("CreateTopicsResponse")
    answered = [
        cls.CreatableTopicResult(
            version=7, name=topic.name, topic_id=UUID(int=1 + number), error_code=(0, 17)[number],
            error_message=(None, "/oordinator ...")[number], num_partitions=1, replication_factor=1, configs=[],
        )
        for number, topic in enumerate(forwarded.topics)
    ]  # fmt: skip
    machine.from_broker(wire.response(cls(version=7, throttle_time_ms=0, topics=answered), 5))
    answered_topics = told(machine, cls, 7).topics
    assert [(topic.name, topic.error_code, topic.error_message) for topic in answered_topics] == [
        (HONEST, 0, None),
        (SECRET, REFUSED, "Authorization failed."),
    ]


@pytest.mark.parametrize("version", range(1, 6))
def test_names_that_are_items_by_themselves(version: int) -> None:
    message = admin.DeleteTopicsRequest(version=version, topic_names=[SECRET, HONEST], timeout_ms=1)
    machine = fed(connection(), wire.request(message, 5))
    assert sent(machine, admin.DeleteTopicsRequest, version).topic_names == ["/oordinator.events", HONEST]
    results = [
        admin.DeleteTopicsResponse.DeletableTopicResult(version=version, name=name, error_code=code)
        for name, code in (("/oordinator.events", 3), (HONEST, 0))
    ]
    machine.from_broker(wire.response(admin.DeleteTopicsResponse(version=version, responses=results), 5))
    responses = told(machine, admin.DeleteTopicsResponse, version).responses
    assert [(topic.name, topic.error_code) for topic in responses] == [(SECRET, REFUSED), (HONEST, 0)]


def metadata_topic(name: str | None, topic_id: UUID, error_code: int = 0, version: int = 12) -> Any:
    cls = MetadataResponse.MetadataResponseTopic
    partition = cls.MetadataResponsePartition(
        version=version, error_code=0, partition_index=0, leader_id=1, leader_epoch=0, replica_nodes=[1], isr_nodes=[1],
        offline_replicas=[],
    )  # fmt: skip
    partitions = [] if error_code else [partition] * 3
    return cls(
        version=version, error_code=error_code, name=name, topic_id=topic_id, is_internal=False, partitions=partitions
    )


def metadata_answer(*topics: Any, version: int = 12) -> bytes:
    broker = MetadataResponse.MetadataResponseBroker(version=version, node_id=1, host="broker", port=9092, rack=None)
    return wire.response(
        MetadataResponse(version=version, brokers=[broker], topics=list(topics), cluster_id="c", controller_id=1), 5
    )


@pytest.mark.parametrize("version", [1, 4, 8, 9, 12])
def test_the_list_of_all_topics_is_without_the_coordinators(version: int) -> None:
    machine = fed(connection(), wire.request(MetadataRequest(version=version, topics=None), 5))
    names = ("a", SECRET, "coordinator-mine", "coordinator.history", "z")
    machine.from_broker(
        metadata_answer(*(metadata_topic(name, uuid4(), version=version) for name in names), version=version)
    )
    answer = told(machine, MetadataResponse, version)
    assert [topic.name for topic in answer.topics] == ["a", "coordinator-mine", "z"]
    assert answer.brokers[0].host == "gateway"


def test_who_may_see_them_sees_them() -> None:
    machine = fed(
        connection("* topic coordinator.history allow"), wire.request(MetadataRequest(version=12, topics=None), 5)
    )
    machine.from_broker(metadata_answer(*(metadata_topic(name, uuid4()) for name in (SECRET, "coordinator.history"))))
    assert [topic.name for topic in told(machine, MetadataResponse, 12).topics] == ["coordinator.history"]


def test_a_page_of_descriptions_is_without_them_too() -> None:
    cls = admin.DescribeTopicPartitionsResponse
    request = wire_class("DescribeTopicPartitionsRequest")(
        version=0, topics=[], response_partition_limit=10, cursor=None
    )
    machine = fed(connection(), wire.request(request, 5))
    topics = [
        cls.DescribeTopicPartitionsResponseTopic(
            version=0, error_code=0, name=name, topic_id=uuid4(), is_internal=False, partitions=[]
        )
        for name in (SECRET, HONEST)
    ]
    machine.from_broker(wire.response(cls(version=0, throttle_time_ms=0, topics=topics, next_cursor=None), 5))
    assert [topic.name for topic in told(machine, cls, 0).topics] == [HONEST]


# ------------------------------------------------------------------------------------------------------------- by id


def test_an_id_is_looked_up_before_the_request_goes_on() -> None:
    """By a question of the gateway's own, which the client does not hear of; what was learned is kept."""
    secret, honest, absent = uuid4(), uuid4(), uuid4()
    topic_access = access()
    state = admin.DeleteTopicsRequest.DeleteTopicState
    states = [state(version=6, name=None, topic_id=topic) for topic in (secret, honest, absent)]
    request = wire.request(admin.DeleteTopicsRequest(version=6, topics=states, timeout_ms=1), 7)
    machine = fed(connection(topic_access=topic_access), request, wire.heartbeat(8))
    (frame,) = wire.frames(carried(machine.to_broker))
    forwarded = MetadataRequest.decode(frame[4:], version=12, header=True)
    assert [topic.topic_id for topic in forwarded.topics] == [secret, honest, absent]
    assert not forwarded.allow_auto_topic_creation
    assert not machine.to_coordinator, "what the client says next waits"
    answer = [metadata_topic(SECRET, secret), metadata_topic(HONEST, honest), metadata_topic(None, absent, NO_SUCH_ID)]
    machine.from_broker(metadata_answer(*answer).replace(struct.pack(">i", 5), struct.pack(">i", 7), 1))
    assert carried(machine.to_client) == b""
    assert len(machine.to_coordinator) == 1
    states = sent(machine, admin.DeleteTopicsRequest, 6).topics
    assert states[0].topic_id not in (secret, honest, absent)
    assert states[1].topic_id == honest
    results = [
        admin.DeleteTopicsResponse.DeletableTopicResult(
            version=6, name=name, topic_id=topic.topic_id, error_code=code, error_message=None
        )
        for topic, name, code in zip(states, (None, HONEST, None), (NO_SUCH_ID, 0, NO_SUCH_ID), strict=True)
    ]
    machine.from_broker(wire.response(admin.DeleteTopicsResponse(version=6, responses=results), 7))
    responses = told(machine, admin.DeleteTopicsResponse, 6).responses
    assert [(topic.topic_id, topic.name, topic.error_code) for topic in responses] == [
        (secret, None, REFUSED), (honest, HONEST, 0), (absent, None, NO_SUCH_ID),
    ]  # fmt: skip
    deletion = wire.request(admin.DeleteTopicsRequest(version=6, topics=states[1:2], timeout_ms=1), 9)
    again = fed(connection(topic_access=topic_access), deletion)
    assert len(sent(again, admin.DeleteTopicsRequest, 6).topics) == 1, "known now"


# ------------------------------------------------------------------------------------------------------------- Fetch


def fetch_answer(version: int, *topics: str | UUID, error_code: int = 0) -> bytes:
    cls = FetchResponse.FetchableTopicResponse
    data = cls.PartitionData(
        version=version, partition_index=3, error_code=0, high_watermark=9, last_stable_offset=9, log_start_offset=0,
        aborted_transactions=None, preferred_read_replica=-1, records=b"r" * 500,
    )  # fmt: skip
    names = [{"topic_id": topic} if isinstance(topic, UUID) else {"topic": topic} for topic in topics]
    responses = [cls(version=version, partitions=[data], **name) for name in names]
    return wire.response(
        FetchResponse(version=version, throttle_time_ms=0, error_code=error_code, session_id=0, responses=responses), 5
    )


@pytest.mark.parametrize("version", range(4, 13))
def test_what_may_be_read_is_read_beside_what_may_not(version: int) -> None:
    machine = fed(
        connection(), wire.request(fetch_request(version, SECRET, HONEST, "coordinator.history", session=(77, 0)), 5)
    )
    forwarded = sent(machine, FetchRequest, version)
    assert [topic.topic for topic in forwarded.topics] == [HONEST]
    if version >= 7:
        assert (forwarded.session_id, forwarded.session_epoch) == (0, -1), (
            "of no session, so that the refusal is told each time"
        )
    answer = fetch_answer(version, HONEST)
    for start in range(0, len(answer), 11):
        machine.from_broker(answer[start : start + 11])
    responses = told(machine, FetchResponse, version).responses
    partitions = [(topic.topic, topic.partitions[0]) for topic in responses]
    assert sorted((name, partition.partition_index, partition.error_code) for name, partition in partitions) == [
        (SECRET, 3, REFUSED), ("coordinator.history", 3, REFUSED), (HONEST, 3, 0),
    ]  # fmt: skip
    assert [topic.partitions[0].records for topic in responses if topic.topic == HONEST] == [b"r" * 500]


@pytest.mark.parametrize("version", range(13, 19))
def test_the_same_by_id(version: int) -> None:
    secret, honest, absent = uuid4(), uuid4(), uuid4()
    machine = fed(connection(), wire.request(fetch_request(version, secret, honest, absent), 5))
    assert [topic.topic_id for topic in sent(machine, MetadataRequest, 12).topics] == [secret, honest, absent]
    machine.from_broker(metadata_answer(metadata_topic(SECRET, secret), metadata_topic(HONEST, honest)))
    assert [topic.topic_id for topic in sent(machine, FetchRequest, version).topics] == [honest]
    machine.from_broker(fetch_answer(version, honest))
    responses = told(machine, FetchResponse, version).responses
    assert {topic.topic_id: topic.partitions[0].error_code for topic in responses} == {
        secret: REFUSED,
        absent: NO_SUCH_ID,
        honest: 0,
    }


def test_a_session_cannot_be_widened() -> None:
    """The client is told that its session is gone, and asks anew, naming all."""
    machine = fed(connection(), wire.request(fetch_request(12, SECRET, session=(77, 3)), 5))
    assert carried(machine.to_broker) == b""
    assert told(machine, FetchResponse, 12).error_code == 70


def test_an_answer_that_refuses_all_stays_as_it_is() -> None:
    machine = fed(connection(), wire.request(fetch_request(12, SECRET, HONEST), 5))
    answer = fetch_answer(12, error_code=71)
    machine.from_broker(answer)
    assert carried(machine.to_client) == answer


# ----------------------------------------------------------------------------------------------------------- Produce


def produce_request(
    version: int, *topics: str, acks: int = -1, sizes: tuple[int | None, ...] = (100, None, 0)
) -> bytes:
    cls = ProduceRequest.TopicProduceData
    topic_data = [
        cls(version=version, name=name, partition_data=[
            cls.PartitionProduceData(version=version, index=index, records=None if size is None else (MARK * size)[:size])
            for index, size in enumerate(sizes)
        ])
        for name in topics
    ]  # fmt: skip
    return wire.request(
        ProduceRequest(version=version, transactional_id="t", acks=acks, timeout_ms=1, topic_data=topic_data), 5
    )


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("step", [1, 7, 64, 1_000_000])
def test_what_may_be_written_is_written_beside_what_may_not(version: int, step: int) -> None:
    """The records of both go on, as they come; the broker knows no topic of the other name."""
    frame = produce_request(version, HONEST, SECRET, "xcoordinator.events", "coordinator.dead-letters")
    machine = connection()
    for start in range(0, len(frame), step):
        machine.from_client(frame[start : start + step])
    passed = carried(machine.to_broker)
    assert len(passed) == len(frame)
    masked = ["/oordinator.events", "/oordinator.dead-letters"]
    read = ProduceRequest.decode(passed[4:], version=version, header=True)
    assert [topic.name for topic in read.topic_data] == [HONEST, masked[0], "xcoordinator.events", masked[1]]
    assert [partition.records for partition in read.topic_data[1].partition_data] == [(MARK * 9)[:100], None, b""]
    cls = ProduceResponse.TopicProduceResponse
    answers = [
        cls(version=version, name=name, partition_responses=[
            cls.PartitionProduceResponse(version=version, index=0, error_code=code, base_offset=4,
                                         record_errors=[], error_message=None)
        ])
        for name, code in ((HONEST, 0), (masked[0], 3), (masked[1], 3))
    ]  # fmt: skip
    machine.from_broker(wire.response(ProduceResponse(version=version, responses=answers), 5))
    responses = told(machine, ProduceResponse, version).responses
    assert [(topic.name, topic.partition_responses[0].error_code) for topic in responses] == [
        (HONEST, 0), (SECRET, REFUSED), ("coordinator.dead-letters", REFUSED),
    ]  # fmt: skip


def test_without_acknowledgement_nothing_is_answered() -> None:
    machine = fed(connection(), produce_request(9, SECRET, HONEST, acks=0), wire.heartbeat(6))
    passed = carried(machine.to_broker)
    topics = ProduceRequest.decode(passed[4:], version=9, header=True).topic_data
    assert [topic.name for topic in topics] == ["/oordinator.events", HONEST]
    assert len(machine.to_coordinator) == 1


@pytest.mark.parametrize("version", [8, 9])
def test_a_produce_that_ends_in_its_midst_is_not_passed_on_whole(version: int) -> None:
    frame = produce_request(version, HONEST, SECRET)
    for end in range(60, len(frame) - 1, 17):
        machine = connection()
        machine.from_client(struct.pack(">i", end - 4) + frame[4:end])
        assert machine.closing is not None
        assert len(carried(machine.to_broker)) <= end
        assert MARK not in carried(machine.to_broker)


def test_the_table_of_names_is_that_of_the_definitions() -> None:
    for name in TOPIC_APIS.values():
        assert wire_class(name + "Request").json["apiKey"] == wire_class(name + "Response").json["apiKey"]
