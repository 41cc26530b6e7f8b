"""Topics that do not exist, and topics that are deleted and made again, as clients of the gateway meet them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.history import OffsetsDeleted, decode_history
from streaming.config import StreamingConfig
from tests.coordinating.gateway.commands import Command
from tests.coordinating.gateway.conftest import PARTITIONS
from tests.coordinating.gateway.tools import rows, tool
from tests.making_topics import delete_topics, make_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

TIMEOUT_S = 120.0
GROUP = "readers"


class Reader:
    """A consumer of one partition of one topic that commits when it is told to."""

    def __init__(self, gateway: Gateway, topic: str) -> None:
        self._settings = {
            "bootstrap.servers": gateway.bootstrap_servers, "group.id": GROUP, "enable.auto.commit": False,
            "auto.offset.reset": "earliest", "log_level": 0, "topic.metadata.refresh.interval.ms": 500,
        }  # fmt: skip
        self._topic = topic

    def read(self, count: int) -> list[bytes]:
        """As a new process: so many records from where the group stands, which are then committed."""
        consumer = Consumer(self._settings)
        consumer.subscribe([self._topic])
        values: list[bytes] = []

        def has_read_all() -> bool:
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                values.append(bytes(message.value() or b""))
            return len(values) >= count

        wait_until(has_read_all, TIMEOUT_S, lambda: f"{len(values)} of {count} records", interval_s=0)
        (done,) = consumer.commit(asynchronous=False)
        assert done.error is None
        consumer.close()
        return values

    def committed(self) -> int | None:
        """None: the coordinator did not answer in time."""
        consumer = Consumer(self._settings)
        try:
            (partition,) = consumer.committed([TopicPartition(self._topic, 0)], timeout=30.0)
            return int(partition.offset)
        except KafkaException as problem:
            if problem.args[0].code() not in (KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError._TIMED_OUT):
                raise
            return None
        finally:
            consumer.close()


def alter(gateway: Gateway, *places: tuple[str, int]) -> list[int | None]:
    """Commits without being a member; the error code of each partition, or None."""
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": 0})
    group_partitions = ConsumerGroupTopicPartitions(
        "strangers", [TopicPartition(topic, partition, 7) for topic, partition in places]
    )
    done = admin.alter_consumer_group_offsets([group_partitions])["strangers"].result().topic_partitions
    codes = {(result.topic, result.partition): None if result.error is None else result.error.code() for result in done}
    return [codes[place] for place in places]


def test_what_does_not_exist_is_refused_and_what_does_is_committed(gateway: Gateway, topic: str) -> None:
    unknown = KafkaError.UNKNOWN_TOPIC_OR_PART
    places = (topic, 0), (topic, PARTITIONS), ("no-such-topic", 0), (topic, 1)
    assert alter(gateway, *places) == [None, unknown, unknown, None]
    assert alter(gateway, ("no-such-topic", 0), ("no-such-topic", 3)) == [unknown, unknown]


def test_a_consumer_is_told(gateway: Gateway, topic: str) -> None:
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap_servers, "group.id": "strangers", "log_level": 0})
    with pytest.raises(KafkaException) as refused:
        consumer.commit(offsets=[TopicPartition("no-such-topic", 0, 7)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
    (done,) = consumer.commit(offsets=[TopicPartition(topic, 2, 7)], asynchronous=False)
    assert done.error is None
    consumer.close()


def test_a_topic_that_was_just_made_is_known_soon(gateway: Gateway, admin: AdminClient, topic_prefix: str) -> None:
    name = f"{topic_prefix}-late"
    assert alter(gateway, (name, 0)) == [KafkaError.UNKNOWN_TOPIC_OR_PART]
    make_topic(admin, name)
    wait_until(lambda: alter(gateway, (name, 0)) == [None], timeout_s=10)


@pytest.mark.spark
def test_a_topic_made_again_is_read_from_its_beginning(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path
) -> None:
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix, checkpoint=str(tmp_path / "checkpoint")
    )
    app = coordinator_of(config, tmp_path)
    gateway_config = GatewaySettings(
        listen="127.0.0.1:0", bootstrap_servers=config.bootstrap_servers, topic_prefix=config.topic_prefix
    )
    orders, stays = f"{topic_prefix}-orders", f"{topic_prefix}-stays"
    make = partial(make_filled, admin, Producer({"bootstrap.servers": kafka.bootstrap_servers}))
    try:
        old, _ = make(orders, 50, "old"), make(stays, 5, "stays")
        app.start()
        with Gateway(gateway_config) as gateway:
            reader, other_reader = Reader(gateway, orders), Reader(gateway, stays)
            assert reader.read(50) == old
            other_reader.read(5)
            assert reader.committed() == 50

            delete_topics(admin, lambda name: name == orders)
            wait_until(lambda: reader.committed() == OFFSET_INVALID, timeout_s=TIMEOUT_S)
            described = rows(tool(gateway, "--describe", "--group", GROUP))
            assert [row[1:4] for row in described] == [[stays, "0", "5"]], "one topic that is gone spoils nothing"

            new = make(orders, 80, "new")
            assert reader.read(80) == new, "none of it is skipped"
            assert reader.committed() == 80

            app.kill()
            delete_topics(admin, lambda name: name == orders)
            newest = make(orders, 30, "newest")
            app.start()
            app.wait_for(" members, ")  # its first batch has ended
            wait_until(lambda: reader.committed() == OFFSET_INVALID, timeout_s=TIMEOUT_S)
            assert reader.read(30) == newest, "it went while nobody watched"
            assert (reader.committed(), other_reader.committed()) == (30, 5), "at a start nothing is dropped that stays"
    finally:
        app.kill()
    dropped = [(record.cause.kind, record.offsets[0]) for record in deletions(config)]
    assert [(kind, offset.topic, offset.previous_offset) for kind, offset in dropped] == [
        ("topics_deleted", orders, 50), ("topics_deleted", orders, 80),
    ]  # fmt: skip


def make_filled(admin: AdminClient, producer: Producer, name: str, count: int, word: str) -> list[bytes]:
    """A topic with values, which are returned."""
    make_topic(admin, name)
    values = [f"{word}{number}".encode() for number in range(count)]
    for value in values:
        producer.produce(name, value, partition=0)
    assert producer.flush(30) == 0
    return values


def coordinator_of(config: StreamingConfig, directory: Path) -> Command:
    return Command(
        directory / "run.log", "The coordinator runs", "run", "--bootstrap-servers", config.bootstrap_servers,
        "--topic-prefix", config.topic_prefix, "--checkpoint", config.checkpoint, "--spark", "spark.driver.memory=512m",
        "--group-initial-rebalance-delay-ms", "0",
    )  # fmt: skip


def deletions(config: StreamingConfig) -> Iterable[OffsetsDeleted]:
    """What the history says of deleted offsets, each once."""
    topic = read_topic(config.client_properties, config.topics.history)
    records = [decode_history(record.value() or b"") for record in topic]
    return {(record.epoch, record.seq): record for record in records if isinstance(record, OffsetsDeleted)}.values()
