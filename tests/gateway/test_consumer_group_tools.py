"""Admin tools against consumer groups (KIP-848) behind a gateway: Kafka's own command line, which is Java's admin
client, and librdkafka's admin client."""

from __future__ import annotations

import pytest
from confluent_kafka import ConsumerGroupType
from confluent_kafka.admin import AdminClient

from group_coordinator.gateway.server import Gateway
from tests.gateway.clients.consumers import Consumers, share
from tests.gateway.clients.reading import reads
from tests.gateway.conftest import PARTITIONS, Produce
from tests.gateway.tools import rows, tool
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


def test_librdkafkas_admin_client(gateway: Gateway, working_group: str) -> None:
    admin = AdminClient({"bootstrap.servers": gateway.bootstrap_servers, "log_level": "2"})

    def listed(kind: ConsumerGroupType) -> list[tuple[str, str]]:
        found = admin.list_consumer_groups(types={kind}).result()
        assert found.errors == []
        return [(group.group_id, group.state.name) for group in found.valid]

    wait_until(lambda: listed(ConsumerGroupType.CONSUMER) == [(GROUP, "STABLE")])
    assert listed(ConsumerGroupType.CLASSIC) == [("old", "STABLE")]
