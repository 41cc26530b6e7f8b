"""The lines of docs/watch.md, pasted: they are enough, and a client with fewer rights is told which it needs.

And TLS and SASL, by the usual settings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.watch.polling import PollSource
from group_coordinator.watching.watch.source import TopicRefusedError, WatchSource
from streaming.config import StreamingConfig
from tests.coordinating.operations.acl_lines import acl_lines, paste
from tests.coordinating.operations.secure_broker import KINDS, secure_broker
from tests.waiting import wait_until
from tests.watching.watch.live import committed, consumer, owned, with_topic

pytestmark = pytest.mark.kafka

DOCUMENT = Path(__file__).parents[3] / "docs" / "watch.md"
USERS = ("watcher", "poller", "only_reads", "only_lists", "stranger")
FURTHER = (
    "kafka-acls.sh --bootstrap-server localhost:9092 --add --allow-principal User:only_reads --operation Read "
    "--topic __consumer_offsets",
    "kafka-acls.sh --bootstrap-server localhost:9092 --add --allow-principal User:only_lists --operation Describe "
    "--cluster",
)
GROUP = TOPIC = "orders"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


class Cluster:
    """A broker with an authorizer, one group, and what each user gives to come in."""

    def __init__(self, address: str) -> None:
        self._address = address

    def properties(self, user: str) -> dict[str, str]:
        kafka = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{_LOGIN} username="{user}" password="{user}";',
        }
        return StreamingConfig(bootstrap_servers=self._address, kafka=kafka).client_properties


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path) -> Iterator[Cluster]:
    address = f"127.0.0.1:{free_port()}"
    users = " ".join(f'user_{user}="{user}"' for user in USERS)
    properties = {
        "listeners": f"SASL_PLAINTEXT://{address}",
        "advertised.listeners": f"SASL_PLAINTEXT://{address}",
        "listener.security.protocol.map": "SASL_PLAINTEXT:SASL_PLAINTEXT",
        "listener.name.sasl_plaintext.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{_LOGIN} {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with EmbeddedKafka(properties=properties) as kafka:
        for line in (*acl_lines(DOCUMENT), *FURTHER):
            paste(line, kafka.bootstrap_servers)
        with a_group(kafka):
            yield Cluster(address)


@contextmanager
def a_group(kafka: EmbeddedKafka) -> Iterator[Consumer]:
    """Start a member that has both partitions, and a commit."""
    with_topic(kafka, AdminClient({"bootstrap.servers": kafka.bootstrap_servers}), TOPIC)
    member = consumer(kafka, GROUP)
    member.subscribe([TOPIC])
    try:
        wait_until(lambda: member.poll(0.2) is not None)
        member.commit(offsets=[TopicPartition(TOPIC, 1, 4)], asynchronous=False)
        yield member
    finally:
        member.close()


@contextmanager
def shown(source: WatchSource | PollSource) -> Iterator[Index]:
    index = Index()
    source.start(index)
    try:
        yield index
    finally:
        source.stop()


def lag(index: Index) -> int | None:
    row = index.row(GROUP, 0)
    return None if row is None else row.lag


def test_the_documented_rights(cluster: Cluster) -> None:
    with shown(WatchSource(cluster.properties("watcher"))) as index:
        wait_until(lambda: owned(index, GROUP) == 2)
        wait_until(lambda: committed(index, GROUP, TOPIC, 1) == 4)
        wait_until(lambda: lag(index) == 1)
        assert index.doubts == ()


def test_without_the_second_line_lags_are_not_known(cluster: Cluster) -> None:
    with shown(WatchSource(cluster.properties("only_reads"))) as index:
        wait_until(lambda: owned(index, GROUP) == 2)
        wait_until(lambda: committed(index, GROUP, TOPIC, 1) == 4)
        assert lag(index) is None


@pytest.mark.parametrize("user", ["poller", "stranger"])
def test_who_may_not_read_the_topic_is_told(cluster: Cluster, user: str) -> None:
    with pytest.raises(TopicRefusedError, match=re.escape("--operation Read --topic __consumer_offsets")):
        WatchSource(cluster.properties(user)).start(Index())


def test_the_documented_rights_for_polls(cluster: Cluster) -> None:
    with shown(PollSource(cluster.properties("poller"), "it is refused", interval_s=0.2)) as index:
        wait_until(lambda: owned(index, GROUP) == 2)
        wait_until(lambda: committed(index, GROUP, TOPIC, 1) == 4)
        wait_until(lambda: lag(index) == 1)
        assert len(index.doubts) == 1


@pytest.mark.parametrize("user", ["only_lists", "stranger"])
def test_who_may_not_describe_groups_is_told(cluster: Cluster, user: str) -> None:
    source = PollSource(cluster.properties(user), "it is refused", interval_s=0.2)
    with shown(source) as index:
        wait_until(lambda: source.progress()["caught_up"])
        assert index.doubts[1].startswith("This client may not" if user == "only_lists" else "No group is shown")
        assert "--operation Describe --group '*'" in index.doubts[1]


def test_tls_and_sasl(kafka_jars: Path, tmp_path: Path) -> None:
    with secure_broker(tmp_path) as listeners:
        for kind in KINDS:
            config = StreamingConfig(bootstrap_servers=listeners[kind].bootstrap_servers, kafka=listeners[kind].kafka)
            with pytest.raises(TopicRefusedError, match="shows no topic"):  # no group has been there
                WatchSource(config.client_properties).start(Index())
