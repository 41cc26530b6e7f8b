"""Admin tools against consumer groups (KIP-848) behind a gateway: Kafka's own command line, which is Java's admin
client, and librdkafka's admin client."""

from __future__ import annotations

import dataclasses

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.coordinating.gateway.clients.consumers import Consumers, share
from tests.coordinating.gateway.clients.reading import reads
from tests.coordinating.gateway.conftest import PARTITIONS, Produce
from tests.coordinating.gateway.tools import configs, rows, tool
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

GROUP = "orders"


@pytest.fixture
def working_group(consumers: Consumers, produce: Produce) -> str:
    """A group of two members, which has read and committed 60 records, beside a classic one."""
    members = [
        consumers.start(library, GROUP, f"{library}-member", group_protocol="consumer", enable_auto_commit=False)
        for library in ("java", "librdkafka")
    ]
    share(members, PARTITIONS)
    produce(0, 60)
    reads(60, *members)
    for member in members:
        assert member.commit() == ["committed"]
    share([consumers.start("librdkafka", "old", "old-member")], PARTITIONS)
    return GROUP


def test_kafka_consumer_groups(gateway: Gateway, working_group: str, consumers: Consumers, topic: str) -> None:
    assert sorted(rows(tool(gateway, "--list"))) == [["old"], [GROUP]]
    assert rows(tool(gateway, "--list", "--type", "consumer")) == [[GROUP, "Consumer"]]
    assert rows(tool(gateway, "--list", "--type", "classic")) == [["old", "Classic"]]
    assert rows(tool(gateway, "--list", "--state", "Reconciling")) == []

    offsets = rows(tool(gateway, "--describe", "--group", GROUP, "--offsets"))
    assert sorted((row[1], int(row[2])) for row in offsets) == [(topic, partition) for partition in range(PARTITIONS)]
    verbose = rows(tool(gateway, "--describe", "--group", GROUP, "--members", "--verbose"))
    assert sorted(row[3] for row in verbose) == ["java-member", "librdkafka-member"]
    (epochs,) = {tuple(row[5:8:2]) for row in verbose}
    assert len(set(epochs)) == 1, f"the current epoch is the target's: {verbose}"
    state = tool(gateway, "--describe", "--group", GROUP, "--state", "--verbose")
    assert all(word in state for word in ("Stable", "uniform")), state

    assert "is not empty" in tool(gateway, "--delete", "--group", GROUP).lower()
    consumers.close_all()
    assert rows(tool(gateway, "--list", "--type", "consumer", "--state", "Empty"))[0][0] == GROUP
    to_five = ("--reset-offsets", "--group", GROUP, "--topic", topic, "--to-offset", "5", "--execute")
    assert {row[3] for row in rows(tool(gateway, *to_five)) if row[0] == GROUP} == {"5"}
    assert "Request succeed" in tool(gateway, "--delete-offsets", "--group", GROUP, "--topic", f"{topic}:0")
    assert "was successful" in tool(gateway, "--delete", "--group", GROUP)
    assert rows(tool(gateway, "--list", "--type", "consumer")) == []
    assert f"Group {GROUP} not found." in tool(gateway, "--describe", "--group", GROUP)


def test_kafka_configs(gateway: Gateway, gateway_config: GatewaySettings, kafka: EmbeddedKafka, topic: str) -> None:
    """What the tool says of a group is word for word what it says at the broker itself, which keeps its own."""
    of_group = ("--entity-type", "groups", "--entity-name", GROUP)

    def both(*arguments: str) -> str:
        at_broker = configs(kafka.bootstrap_servers, *arguments)
        assert configs(gateway.bootstrap_servers, *arguments) == at_broker
        return at_broker

    for wrong in ("consumer.heartbeat.interval.ms=4999", "consumer.session.timeout.ms=1s", "retention.ms=1"):
        for servers in (kafka.bootstrap_servers, gateway.bootstrap_servers):
            refused = configs(servers, *of_group, "--alter", "--add-config", wrong)
            assert "InvalidConfigurationException" in refused
    changes = "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000"
    assert "Completed updating config" in both(*of_group, "--alter", "--add-config", changes)
    assert "50000" in both(*of_group, "--describe")
    both(*of_group, "--alter", "--delete-config", "consumer.heartbeat.interval.ms")
    assert "6000" not in both(*of_group, "--describe")
    all_groups = configs(gateway.bootstrap_servers, "--entity-type", "groups", "--describe")
    assert f"Dynamic configs for group {GROUP} are:" in all_groups  # the broker has groups of other tests, too
    with Gateway(dataclasses.replace(gateway_config, listen="127.0.0.1:0")) as another:
        assert configs(another.bootstrap_servers, *of_group, "--describe") == both(*of_group, "--describe")
    retention = ("--entity-type", "topics", "--entity-name", topic)
    assert "Completed" in configs(gateway.bootstrap_servers, *retention, "--alter", "--add-config", "retention.ms=9")
    assert "retention.ms=9" in configs(kafka.bootstrap_servers, *retention, "--describe")


def test_librdkafkas_admin_client(gateway: Gateway, working_group: str) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": "2"})

    def listed(kind: ConsumerGroupType) -> list[tuple[str, str]]:
        found = admin.list_consumer_groups(types={kind}).result()
        assert found.errors == []
        return [(group.group_id, group.state.name) for group in found.valid]

    wait_until(lambda: listed(ConsumerGroupType.CONSUMER) == [(GROUP, "STABLE")])
    assert listed(ConsumerGroupType.CLASSIC) == [("old", "STABLE")]
