"""Topics that were made or deleted just now, and operations that are allowed: through the gateway as at the broker.

The watcher looks at all topics once an hour, so nothing here waits for its next look.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.history import OffsetsDeleted
from streaming.topics import TopicSettings
from tests.coordinating.gateway.pump import Pump
from tests.making_topics import delete_topics, make_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

TIMEOUT_S = 60.0
AN_HOUR_MS = 3_600_000
PROTOCOLS = ("classic", "consumer")
PARTITIONS = 3


@pytest.fixture
def pump(kafka: EmbeddedKafka, topic_settings: TopicSettings) -> Iterator[Pump]:
    with Pump(kafka.bootstrap_servers, topic_settings, AN_HOUR_MS) as pump:
        yield pump


@pytest.fixture
def gateway(kafka: EmbeddedKafka, topic_settings: TopicSettings, pump: Pump) -> Iterator[Gateway]:
    config = GatewaySettings(
        listen="127.0.0.1:0", bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_settings.topic_prefix,
    )  # fmt: skip
    with Gateway(config) as gateway:
        yield gateway


@pytest.fixture(params=["gateway", "broker"])
def servers(request: pytest.FixtureRequest, gateway: Gateway, kafka: EmbeddedKafka) -> str:
    """Where clients bootstrap: what is asserted here holds in both places."""
    return gateway.bootstrap_servers if request.param == "gateway" else kafka.bootstrap_servers


def consumer_of(servers: str, group_id: str, protocol: str = "classic", **settings: Any) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers, "group.id": group_id, "group.protocol": protocol, "log_level": 0,
            "enable.auto.commit": False, **settings,
        }
    )  # fmt: skip


def assignment(consumer: Consumer) -> set[tuple[str, int]]:
    consumer.poll(0.05)
    return {(partition.topic, partition.partition) for partition in consumer.assignment()}


def wait_for(consumer: Consumer, partitions: set[tuple[str, int]]) -> None:
    wait_until(lambda: assignment(consumer) == partitions, TIMEOUT_S, f"it has {partitions}", interval_s=0)


def commit(servers: str, group_id: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    offsets = ConsumerGroupTopicPartitions(group_id, [TopicPartition(topic, 0, offset)])
    (done,) = admin.alter_consumer_group_offsets([offsets])[group_id].result(TIMEOUT_S).topic_partitions
    assert done.error is None


def committed(servers: str, group_id: str, topic: str) -> int:
    consumer = consumer_of(servers, group_id)
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)[0].offset)
    finally:
        consumer.close()


def all_committed(servers: str, group_id: str) -> set[tuple[str, int]]:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    group = ConsumerGroupTopicPartitions(group_id)
    answered = admin.list_consumer_group_offsets([group])[group_id].result(TIMEOUT_S)
    return {(each.topic, each.offset) for each in answered.topic_partitions}


def every(topic: str, partitions: int = PARTITIONS) -> set[tuple[str, int]]:
    return {(topic, number) for number in range(partitions)}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_is_assigned_a_topic_that_was_made_just_now(
    servers: str, admin: AdminClient, topic_prefix: str, protocol: str
) -> None:
    for number in range(3):
        topic = f"{topic_prefix}-{protocol}-{number}-{uuid4().hex[:6]}"
        make_topic(admin, topic, PARTITIONS)
        consumer = consumer_of(servers, f"{topic}-group", protocol)
        consumer.subscribe([topic])
        wait_for(consumer, every(topic))
        consumer.close()


def test_one_that_is_made_again_or_grows_is_assigned_as_it_is(
    servers: str, admin: AdminClient, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}-again-{uuid4().hex[:6]}"
    make_topic(admin, topic, PARTITIONS)
    for number, partitions in enumerate((PARTITIONS, PARTITIONS + 1, 1)):
        if number == 1:
            admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()
        if number == 2:
            delete_topics(admin, lambda name: name == topic)
            make_topic(admin, topic, partitions)
        consumer = consumer_of(servers, f"{topic}-group-{number}", "consumer")
        consumer.subscribe([topic])
        wait_for(consumer, every(topic, partitions))
        consumer.close()


def test_offsets_of_a_deleted_topic_are_gone_and_do_not_come_back_with_its_name(
    servers: str, admin: AdminClient, topic_prefix: str
) -> None:
    topic, stays = (f"{topic_prefix}-{name}-{uuid4().hex[:6]}" for name in ("goes", "stays"))
    group_id = f"{topic}-group"
    for name in (topic, stays):
        make_topic(admin, name)
        commit(servers, group_id, name, 5)
    assert all_committed(servers, group_id) == {(topic, 5), (stays, 5)}
    delete_topics(admin, lambda name: name == topic)
    wait_until(lambda: committed(servers, group_id, topic) == OFFSET_INVALID, TIMEOUT_S)
    assert all_committed(servers, group_id) == {(stays, 5)}
    make_topic(admin, topic)
    time.sleep(0.3)
    assert committed(servers, group_id, topic) == OFFSET_INVALID
    commit(servers, group_id, topic, 7)
    assert (committed(servers, group_id, topic), committed(servers, group_id, stays)) == (7, 5)


def test_the_offsets_of_a_topic_that_nobody_has_watched_go_from_the_record_too(
    gateway: Gateway, pump: Pump, admin: AdminClient, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}-short"
    make_topic(admin, topic)
    commit(gateway.bootstrap_servers, "g", topic, 5)
    delete_topics(admin, lambda name: name == topic)
    wait_until(lambda: committed(gateway.bootstrap_servers, "g", topic) == OFFSET_INVALID, TIMEOUT_S)
    (record,) = wait_until(lambda: pump.told(OffsetsDeleted, "g"), TIMEOUT_S, "the watcher tells the group")
    assert [(each.topic, each.previous_offset) for each in record.offsets] == [(topic, 5)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_authorized_operations_are_those_of_the_broker(
    gateway: Gateway, kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, protocol: str
) -> None:
    topic = f"{topic_prefix}-described-{protocol}"
    make_topic(admin, topic, PARTITIONS)
    told = []
    for servers in (gateway.bootstrap_servers, kafka.bootstrap_servers):
        consumer = consumer_of(servers, f"{topic}-group", protocol)
        consumer.subscribe([topic])
        wait_for(consumer, every(topic))
        client = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        for asks in (True, False):
            described = client.describe_consumer_groups([f"{topic}-group"], include_authorized_operations=asks)
            group = described[f"{topic}-group"].result(TIMEOUT_S)
            operations = group.authorized_operations
            told.append(None if operations is None else sorted(each.name for each in operations))
        consumer.close()
    assert told[:2] == told[2:] == [["ALTER_CONFIGS", "DELETE", "DESCRIBE", "DESCRIBE_CONFIGS", "READ"], None]
