"""Admin tools against the groups behind a gateway: Kafka's own command line, and the admin clients of two libraries."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonTopicPartition

from group_coordinator.coordinating.gateway.server import Gateway
from tests.coordinating.gateway.clients.consumers import Consumers, share
from tests.coordinating.gateway.clients.reading import reads
from tests.coordinating.gateway.conftest import PARTITIONS, Produce
from tests.coordinating.gateway.tools import rows, tool
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end


@pytest.fixture
def working_group(consumers: Consumers, produce: Produce) -> str:
    """A group of two members that has read and committed 60 records."""
    members = [consumers.start("java", "orders", "java-member", enable_auto_commit=False)]
    members.append(consumers.start("librdkafka", "orders", "librdkafka-member", enable_auto_commit=False))
    share(members, PARTITIONS)
    produce(0, 60)
    reads(60, *members)
    for member in members:
        assert member.commit() == ["committed"]
    return "orders"


def test_kafka_consumer_groups(gateway: Gateway, working_group: str, consumers: Consumers, topic: str) -> None:
    assert rows(tool(gateway, "--list")) == [["orders"]]
    assert [row[:3] for row in rows(tool(gateway, "--list", "--state"))] == [["orders", "Stable"]]
    assert rows(tool(gateway, "--list", "--state", "Empty")) == []

    described = rows(tool(gateway, "--describe", "--group", "orders"))
    assert sorted((row[1], int(row[2]), row[3], row[4], row[5]) for row in described) == [
        (topic, partition, "10", "10", "0") for partition in range(PARTITIONS)
    ]
    assert {row[8] for row in described} == {"java-member", "librdkafka-member"}
    members = rows(tool(gateway, "--describe", "--group", "orders", "--members", "--verbose"))
    assert sorted((row[0], row[3], row[4]) for row in members) == [
        ("orders", "java-member", "3"), ("orders", "librdkafka-member", "3"),
    ]  # fmt: skip
    (state,) = rows(tool(gateway, "--describe", "--group", "orders", "--state"))
    assert state[0] == "orders"
    assert state[-2:] == ["Stable", "2"]
    assert "range" in state

    assert "is not empty" in tool(gateway, "--delete", "--group", "orders").lower()
    consumers.close_all()
    to_five = ("--reset-offsets", "--group", "orders", "--topic", topic, "--to-offset", "5", "--execute")
    assert sorted((row[1], row[2], row[3]) for row in rows(tool(gateway, *to_five))) == [
        (topic, str(partition), "5") for partition in range(PARTITIONS)
    ]
    assert {row[3] for row in rows(tool(gateway, "--describe", "--group", "orders")) if row[0] == "orders"} == {"5"}
    deleted = tool(gateway, "--delete-offsets", "--group", "orders", "--topic", f"{topic}:0")
    assert "Request succeed" in deleted
    assert (
        len([row for row in rows(tool(gateway, "--describe", "--group", "orders")) if row[0] == "orders"])
        == PARTITIONS - 1
    )
    assert "was successful" in tool(gateway, "--delete", "--group", "orders")
    assert rows(tool(gateway, "--list")) == []
    assert "Group orders not found" in tool(gateway, "--describe", "--group", "orders")


def test_librdkafkas_admin_client(gateway: Gateway, working_group: str, consumers: Consumers, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": "2"})
    listed = admin.list_consumer_groups().result()
    assert listed.errors == []
    wait_until(lambda: [group.group_id for group in admin.list_consumer_groups().result().valid] == ["orders"])
    described = admin.describe_consumer_groups(["orders", "no-such-group"])
    group = described["orders"].result()
    assert (group.state.name, group.partition_assignor, len(group.members)) == ("STABLE", "range", 2)
    assert {member.host for member in group.members} == {"/127.0.0.1"}
    group_partitions = [ConsumerGroupTopicPartitions("orders")]
    offsets = admin.list_consumer_group_offsets(group_partitions)["orders"].result().topic_partitions
    assert sorted((partition.topic, partition.partition, partition.offset) for partition in offsets) == [
        (topic, n, 10) for n in range(PARTITIONS)
    ]
    consumers.close_all()
    altered = [ConsumerGroupTopicPartitions("orders", [TopicPartition(topic, 0, 3)])]
    admin.alter_consumer_group_offsets(altered)["orders"].result()
    offsets = admin.list_consumer_group_offsets(group_partitions)["orders"].result().topic_partitions
    assert sorted((partition.partition, partition.offset) for partition in offsets)[0] == (0, 3)
    admin.delete_consumer_groups(["orders"])["orders"].result()
    wait_until(lambda: admin.list_consumer_groups().result().valid == [])


def test_kafka_pythons_admin_client(gateway: Gateway, working_group: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=gateway.bootstrap_servers)
    try:
        wait_until(lambda: [group["group_id"] for group in admin.list_groups()] == ["orders"])
        assert admin.describe_groups(["orders"])["orders"]["group_state"] == "Stable"
        offsets = admin.list_group_offsets("orders")["orders"]
        assert {at: offset.offset for at, offset in offsets.items()} == {
            PythonTopicPartition(topic, n): 10 for n in range(PARTITIONS)
        }
    finally:
        admin.close()


def test_a_commit_without_a_group(gateway: Gateway, topic: str) -> None:
    """Spark, Flink and admin tools commit offsets of groups that have no members."""
    producer = Producer({"bootstrap.servers": gateway.bootstrap_servers, "log_level": "2"})
    producer.produce(topic, "x", partition=0)
    assert producer.flush(10) == 0
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": "2"})
    altered = [ConsumerGroupTopicPartitions("simple", [TopicPartition(topic, 0, 1)])]
    admin.alter_consumer_group_offsets(altered)["simple"].result()
    wait_until(
        lambda: (
            [(group.group_id, group.is_simple_consumer_group) for group in admin.list_consumer_groups().result().valid]
            == [("simple", True)]
        )
    )
