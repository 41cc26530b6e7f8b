"""The lines of docs/operations.md, pasted:
each of our clients can do its work, and nobody else can touch the coordinator's topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.members.kafka_member import Member
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.ground.settings.topic_names import Topics
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.config import StreamingConfig
from tests.coordinating.operations.acl_lines import PLAIN_LOGIN, acl_lines, listener_with_rights, paste
from tests.streaming.running_app import RunningApp
from tests.waiting import wait_until

DOCUMENT = Path(__file__).parents[3] / "docs" / "operations.md"
USERS = ("coordinator", "gateway", "member", "reader", "app", "stranger")
TOPICS = Topics.of_prefix("coordinator")
ALL_TOPICS = (TOPICS.events, *TOPICS.outputs, TOPICS.progress, TOPICS.topics)
WRITES = {
    "coordinator": set(ALL_TOPICS),
    "gateway": {TOPICS.events, TOPICS.progress, TOPICS.responses},
    "member": {TOPICS.events, TOPICS.progress},
}
READS = {
    "coordinator": set(ALL_TOPICS),
    "gateway": {TOPICS.responses, TOPICS.assignments, TOPICS.topics, TOPICS.progress},
    "member": {TOPICS.responses, TOPICS.topics},
    "reader": set(ALL_TOPICS),
}
DATA = "orders"

pytestmark = pytest.mark.kafka


class Cluster:
    """A broker with an authorizer: whoever comes in by the plain listener may do all,
    by the other what the lines say."""

    def __init__(self, inside: str, outside: str) -> None:
        self.inside = inside
        self.outside = outside

    def config(self, user: str, checkpoint: str = "unused") -> StreamingConfig:
        kafka = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f'{PLAIN_LOGIN} username="{user}" password="{user}";',
        }
        return StreamingConfig(
            bootstrap_servers=self.outside, kafka=kafka, checkpoint=checkpoint, responses_partitions=1, responders=True,
            offsets_partitions=1, group_initial_rebalance_delay_ms=0,
        )  # fmt: skip

    def properties(self, user: str) -> dict[str, Any]:
        return {**self.config(user).client_properties, "log_level": "0"}


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path) -> Iterator[Cluster]:
    address, properties = listener_with_rights(USERS)
    with EmbeddedKafka(properties=properties) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        admin.create_topics([NewTopic(DATA, 1, 1)])[DATA].result(20)
        lines = acl_lines(DOCUMENT)
        assert len(lines) >= 10
        broad = "kafka-acls.sh --bootstrap-server localhost:9092 --add --allow-principal User:app --operation All --topic '*'"
        for line in (*lines, broad):
            paste(line, kafka.bootstrap_servers)
        yield Cluster(kafka.bootstrap_servers, address)


@pytest.fixture(scope="module")
def working(cluster: Cluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """With a coordinator, which has made its topics."""
    checkpoint = tmp_path_factory.mktemp("checkpoint")
    with RunningApp(cluster.config("coordinator", str(checkpoint)), spark) as app:
        assert app.failure is None
        yield cluster
    assert app.failure is None


def test_a_member_of_the_library(working: Cluster) -> None:
    paste(
        f"kafka-acls.sh --bootstrap-server localhost:9092 --add --allow-principal User:member --operation Read --topic {DATA}",
        working.inside,
    )
    properties = working.properties("member")
    with Member(working.outside, "g", [DATA], client_properties=properties) as member:
        wait_until(lambda: (member.poll(0.1), member.assignment)[1])


def test_a_gateway_and_a_reader(working: Cluster) -> None:
    config = GatewaySettings(
        listen="127.0.0.1:0",
        bootstrap_servers=working.outside,
        kafka=working.config("gateway").kafka,
    )
    with Gateway(config) as gateway:
        through = AdminClient(working.properties("app") | {"bootstrap.servers": gateway.bootstrap_servers})
        assert DATA in through.list_topics(timeout=20).topics
        assert not [name for name in through.list_topics(timeout=20).topics if name.startswith("coordinator.")]
    assert list(read_topic(working.properties("reader"), TOPICS.events))
    assert list(read_topic(working.properties("reader"), TOPICS.assignments)) is not None


@pytest.mark.parametrize("user", USERS)
def test_nobody_does_more_than_that(working: Cluster, user: str) -> None:
    assert {topic for topic in ALL_TOPICS if _reads(working, user, topic)} == READS.get(user, set())
    if user != "coordinator":  # its own writing is its work; here it would be foreign
        assert {topic for topic in ALL_TOPICS if _writes(working, user, topic)} == WRITES.get(user, set())
        admin = AdminClient(working.properties(user))
        deleted = admin.delete_topics([TOPICS.history], operation_timeout=10)[TOPICS.history]
        with pytest.raises(KafkaException) as refused:
            deleted.result(20)
        assert refused.value.args[0].code() in _REFUSED


_REFUSED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.UNKNOWN_TOPIC_OR_PART)


def _reads(cluster: Cluster, user: str, topic: str) -> bool:
    consumer = Consumer(
        {**cluster.properties(user), "group.id": f"group-coordinator-{user}", "enable.partition.eof": "true"}
    )
    try:
        error = consumer.list_topics(topic, timeout=20).topics[topic].error
        if error is not None:
            assert error.code() in _REFUSED, error
            return False
        consumer.assign([TopicPartition(topic, 0, 0)])
        (message,) = wait_until(lambda: consumer.consume(1, 1), interval_s=0)
        error = message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            return True
        assert error.code() in _REFUSED, error
        return False
    finally:
        consumer.close()


def _writes(cluster: Cluster, user: str, topic: str) -> bool:
    """An event that changes nothing: a dead letter."""
    codes: list[int | None] = []
    producer = Producer({**cluster.properties(user), "message.timeout.ms": "20000"})
    producer.produce(
        topic, b"{}", b"nobody", on_delivery=lambda error, _: codes.append(None if error is None else error.code())
    )
    producer.flush(30)
    assert codes[0] in (None, *_REFUSED)
    return codes == [None]
