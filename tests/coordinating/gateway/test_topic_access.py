"""Clients and the coordinator's topics, through a gateway to a real broker:
refused as by a broker without rights, and nothing happened."""

from __future__ import annotations

import dataclasses
import socket
import struct
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka.protocol.admin.topics import DeleteTopicsRequest, DeleteTopicsResponse
from kafka.protocol.consumer.fetch import FetchResponse
from kafka.protocol.producer.produce import ProduceRequest
from kafka.record.default_records import DefaultRecordBatchBuilder

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.topics import TopicSettings
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.filtered_connections import fetch_request
from tests.coordinating.gateway.pump import Pump
from tests.making_topics import make_topic

REFUSED = KafkaError.TOPIC_AUTHORIZATION_FAILED
NO_LEADER = KafkaError._NOENT
"""What librdkafka says where it must know a leader first and is refused."""
MESSAGE = b"a request of somebody's"


@pytest.fixture
def through(gateway: Gateway) -> AdminClient:
    return AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": "2"})


@pytest.fixture
def secret(topic_settings: TopicSettings) -> str:
    return topic_settings.topics.events


@pytest.fixture
def end_of(kafka: EmbeddedKafka) -> Iterator[Callable[[str], tuple[int, int]]]:
    """Where a topic's first partition begins and ends, asked past the gateway."""
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "unused"})
    yield lambda topic: consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=10)
    consumer.close()


def code_of(future: Future[Any]) -> int | None:
    """None: it was done."""
    try:
        future.result(20)
    except KafkaException as refused:
        return int(refused.args[0].code())
    return None


LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
ADMIN: dict[str, Callable[[AdminClient, str], Any]] = {
    "delete": lambda admin, topic: admin.delete_topics([topic]),
    "create partitions": lambda admin, topic: admin.create_partitions([NewPartitions(topic, 20)]),
    "create": lambda admin, topic: admin.create_topics([NewTopic(f"{topic}.more", 1, 1)]),
    "alter": lambda admin, topic: admin.alter_configs(
        [ConfigResource(ResourceType.TOPIC, topic, {"retention.ms": "1"})]
    ),
    "alter by increments": lambda admin, topic: admin.incremental_alter_configs(
        [
            ConfigResource(
                ResourceType.TOPIC,
                topic,
                incremental_configs=[ConfigEntry("retention.ms", "1", incremental_operation=AlterConfigOpType.SET)],
            )
        ]
    ),
    "describe the settings": lambda admin, topic: admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]),
    "describe": lambda admin, topic: admin.describe_topics(TopicCollection([topic])),
    "delete records": lambda admin, topic: admin.delete_records([TopicPartition(topic, 0, 1)]),
    "list offsets": lambda admin, topic: admin.list_offsets({TopicPartition(topic, 0): LATEST}),
}


@pytest.mark.parametrize("what", ADMIN)
def test_what_an_admin_client_may_not(
    what: str, through: AdminClient, admin: AdminClient, secret: str, topic: str
) -> None:
    """The same on a topic of the client's own is for the broker to say, which lets everybody do everything."""
    for code in [code_of(future) for future in ADMIN[what](through, secret).values()]:
        assert code in (REFUSED, NO_LEADER if what in ("delete records", "list offsets") else REFUSED)
    futures = admin.describe_configs([ConfigResource(ResourceType.TOPIC, secret)])
    (settings,) = [future.result(10) for future in futures.values()]
    assert settings["retention.ms"].value == "-1"
    assert len(admin.list_topics(timeout=10).topics[secret].partitions) == 1
    if what != "delete records":  # there are none
        assert [code_of(future) for future in ADMIN[what](through, topic).values()] == [None]


def test_the_list_of_topics_is_without_them(through: AdminClient, topic_settings: TopicSettings, topic: str) -> None:
    topics = through.list_topics(timeout=10).topics
    assert topic in topics
    assert not [name for name in topics if name.startswith(f"{topic_settings.topic_prefix}.")]


@pytest.mark.parametrize("acks", ["all", "1"])
@pytest.mark.parametrize("version", ["4.0.0", "2.0.0"])
def test_writing(
    acks: str, version: str, gateway: Gateway, secret: str, topic: str, end_of: Callable[[str], tuple[int, int]]
) -> None:
    """One producer, one broker, one request for both topics."""
    before = end_of(secret)
    deliveries: list[tuple[str | None, int | None]] = []

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        deliveries.append((message.topic(), None if error is None else error.code()))

    producer = Producer(
        {"bootstrap.servers": gateway.bootstrap_servers, "acks": acks, "linger.ms": "50", "log_level": "2"}
    )
    for _ in range(10):
        producer.produce(secret, MESSAGE, b"g", partition=0, on_delivery=on_delivery)
        producer.produce(topic, MESSAGE, b"g", partition=0, on_delivery=on_delivery)
    assert producer.flush(20) == 0
    assert sorted(set(deliveries)) == sorted({(secret, REFUSED), (topic, None)})
    assert len(deliveries) == 20
    assert end_of(secret) == before


def test_writing_past_the_metadata(
    gateway: Gateway, secret: str, topic: str, end_of: Callable[[str], tuple[int, int]]
) -> None:
    """A client of one's own, which does not ask where a topic is; with and without an acknowledgement."""
    before = end_of(secret)
    with connected(gateway) as client:
        client.sendall(produce_of(topic, 1))
        assert struct.pack(">h", REFUSED) not in frame_from(client)[:40], "the request itself is good"
    for acks in (1, 0):
        with connected(gateway) as client:
            client.sendall(produce_of(secret, acks))
            if acks:
                assert struct.pack(">h", REFUSED) in frame_from(client)
            client.sendall(wire.metadata(9))
            try:
                frame_from(client)
            except ConnectionError:
                assert not acks, "a broker closes the connection"
    assert end_of(secret) == before
    assert end_of(topic) == (0, 1)


def test_a_transaction(gateway: Gateway, secret: str, end_of: Callable[[str], tuple[int, int]]) -> None:
    before = end_of(secret)
    producer = Producer({"bootstrap.servers": gateway.bootstrap_servers, "transactional.id": "t", "log_level": "2"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(secret, MESSAGE, b"g", partition=0)
    with pytest.raises(KafkaException) as refused:
        producer.commit_transaction(30)
    assert (
        refused.value.args[0].code() in (REFUSED, KafkaError._PURGE_QUEUE, KafkaError._STATE)
        or refused.value.args[0].txn_requires_abort()
    )
    producer.abort_transaction(30)
    assert end_of(secret) == before


def test_reading(gateway: Gateway, pump: Pump, secret: str, topic: str, produce: Callable[[int, int], None]) -> None:
    """What may be read is read beside it."""
    produce(0, 12)
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap_servers,
            "group.id": "g",
            "log_level": "2",
            "enable.auto.commit": "false",
        }
    )
    consumer.assign([TopicPartition(secret, 0, 0), TopicPartition(topic, 0, 0), TopicPartition(topic, 1, 0)])
    values: list[bytes] = []
    while len(values) < 4:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is None:
            assert message.topic() == topic
            values.append(message.value() or b"")
    consumer.close()
    assert sorted(values) == [b"0", b"1", b"6", b"7"]


def test_a_pattern_does_not_stumble(
    gateway: Gateway, topic_settings: TopicSettings, topic: str, produce: Callable[[int, int], None]
) -> None:
    produce(0, 6)
    consumer = Consumer(
        {
            "bootstrap.servers": gateway.bootstrap_servers,
            "group.id": "pattern",
            "auto.offset.reset": "earliest",
            "log_level": "2",
        }
    )
    consumer.subscribe([f"^{topic_settings.topic_prefix}.*"])
    values: list[bytes | None] = []
    while len(values) < 6:
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None, message.error()
        values.append(message.value())
    assert {partition.topic for partition in consumer.assignment()} == {topic}
    consumer.close()


def test_by_id(
    gateway: Gateway, admin: AdminClient, secret: str, topic: str, produce: Callable[[int, int], None]
) -> None:
    """Of whoever has learned the ids elsewhere."""
    produce(0, 6)
    ids = {name: id_of(admin, name) for name in (secret, topic)}
    with connected(gateway) as client:
        request = fetch_request(13, ids[secret], ids[topic])
        for entry in request.topics:
            entry.partitions[0].partition, entry.partitions[0].fetch_offset = 0, 0
        client.sendall(wire.request(request, 5))
        answer = FetchResponse.decode(frame_from(client), version=13, header=True)
        assert {entry.topic_id: entry.partitions[0].error_code for entry in answer.responses} == {
            ids[secret]: REFUSED,
            ids[topic]: 0,
        }
        states = [DeleteTopicsRequest.DeleteTopicState(version=6, name=None, topic_id=ids[secret])]
        client.sendall(wire.request(DeleteTopicsRequest(version=6, topics=states, timeout_ms=1_000), 6))
        (deleted,) = DeleteTopicsResponse.decode(frame_from(client), version=6, header=True).responses
        assert (deleted.topic_id, deleted.error_code) == (ids[secret], REFUSED)
    assert id_of(admin, secret) == ids[secret]


def test_a_topic_that_is_made_while_the_gateway_runs(
    gateway: Gateway, admin: AdminClient, topic_prefix: str, through: AdminClient
) -> None:
    name = f"{topic_prefix}.topic-ids"
    make_topic(admin, name)
    with connected(gateway) as client:
        client.sendall(wire.request(fetch_request(13, id_of(admin, name)), 5))
        answer = FetchResponse.decode(frame_from(client), version=13, header=True)
        assert [entry.partitions[0].error_code for entry in answer.responses] == [REFUSED]
    assert name not in through.list_topics(timeout=10).topics


def test_the_rules_file_lets_in(
    gateway_config: GatewaySettings, pump: Pump, topic_settings: TopicSettings, tmp_path: Path
) -> None:
    topics = topic_settings.topics
    rules = tmp_path / "rules"
    rules.write_text(f"* * allow\nUser:ANONYMOUS topic {topics.history} allow\n")
    with Gateway(dataclasses.replace(gateway_config, authorization_rules=str(rules))) as gateway:
        through = AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": "2"})
        listed = through.list_topics(timeout=10).topics
        assert [name for name in listed if name.startswith(f"{topic_settings.topic_prefix}.")] == [topics.history]
        for topic, code in ((topics.history, None), (topics.events, REFUSED)):
            assert [code_of(future) for future in ADMIN["describe"](through, topic).values()] == [code]


def produce_of(topic: str, acks: int) -> bytes:
    """A request with one good record."""
    batch = DefaultRecordBatchBuilder(
        magic=2, compression_type=0, is_transactional=False, producer_id=-1, producer_epoch=-1, base_sequence=-1,
        batch_size=1_000,
    )  # fmt: skip
    batch.append(0, 0, b"g", MESSAGE, [])
    cls = ProduceRequest.TopicProduceData
    partition = cls.PartitionProduceData(version=9, index=0, records=bytes(batch.build()))
    data = [cls(version=9, name=topic, partition_data=[partition])]
    return wire.request(
        ProduceRequest(version=9, transactional_id=None, acks=acks, timeout_ms=5_000, topic_data=data), 5
    )


def id_of(admin: AdminClient, topic: str) -> UUID:
    (future,) = admin.describe_topics(TopicCollection([topic])).values()
    topic_id = future.result(10).topic_id
    return UUID(bytes=struct.pack(">qq", topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits()))


def connected(gateway: Gateway) -> socket.socket:
    host, _, port = gateway.bootstrap_servers.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20)


def frame_from(client: socket.socket) -> bytes:
    """The payload of the next answer."""

    def exactly(size: int) -> bytes:
        received = b""
        while len(received) < size:
            data = client.recv(size - len(received))
            if not data:
                raise ConnectionError
            received += data
        return received

    return exactly(struct.unpack(">i", exactly(4))[0])
