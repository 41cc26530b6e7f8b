"""Topics that come, grow and go under consumers with `group.protocol=consumer`: the watcher tells their groups."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.coordinating.gateway.clients.consumers import ConsumerProcess, Consumers, Library
from tests.coordinating.gateway.pump import Pump
from tests.making_topics import make_topic
from tests.waiting import wait_until

pytestmark = pytest.mark.end_to_end

LIBRARIES: tuple[Library, ...] = ("librdkafka", "java")
TIMEOUT_S = 40.0


def start(consumers: Consumers, library: Library, topic: str) -> ConsumerProcess:
    settings = {"group.protocol": "consumer", "topic": topic, "metadata.max.age.ms": "1000"}
    return consumers.start_with(library, f"group-{library}", settings)


def grow(admin: AdminClient, topic: str, partitions: int) -> None:
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result()


def owns(consumer: ConsumerProcess, **partitions: int) -> None:
    expected = {f"{topic}-{number}" for topic, count in partitions.items() for number in range(count)}
    consumer.wait_until(lambda: consumer.owned_names == expected, TIMEOUT_S)


def test_a_topic_comes_grows_and_goes(consumers: Consumers, admin: AdminClient, topic_prefix: str, pump: Pump) -> None:
    topic = f"{topic_prefix}-late"
    members = [start(consumers, library, topic) for library in LIBRARIES]
    for library in LIBRARIES:
        pump.wait_for_heartbeats(f"group-{library}", members=1, heartbeats_each=1)
    make_topic(admin, topic, 2)
    for member in members:
        owns(member, **{topic: 2})
    pump.change_watcher()
    grow(admin, topic, 5)
    for member in members:
        owns(member, **{topic: 5})
    pump.change_watcher(overlap=True)
    admin.delete_topics([topic])[topic].result()
    for member in members:
        owns(member)
    make_topic(admin, topic, 1)
    for member in members:
        owns(member, **{topic: 1})


def test_topics_that_match_an_expression(consumers: Consumers, admin: AdminClient, topic_prefix: str) -> None:
    first, second, other = (f"{topic_prefix}-{name}" for name in ("match-1", "match-2", "other"))
    make_topic(admin, first, 2)
    make_topic(admin, other, 2)
    members = [start(consumers, library, f"^{topic_prefix}-match.*") for library in LIBRARIES]
    for member in members:
        owns(member, **{first: 2})
    make_topic(admin, second, 3)
    for member in members:
        owns(member, **{first: 2, second: 3})
    admin.delete_topics([first])[first].result()
    owns(members[LIBRARIES.index("librdkafka")], **{second: 3})  # Java's stands still then, see docs/clients.md


def test_nine_hundred_partitions_more(consumers: Consumers, admin: AdminClient, topic_prefix: str) -> None:
    topic = f"{topic_prefix}-grows"
    make_topic(admin, topic, 2)
    member = start(consumers, "librdkafka", topic)
    owns(member, **{topic: 2})
    grow(admin, topic, 902)
    wait_until(lambda: len(member.owned_names) == 902, TIMEOUT_S)
