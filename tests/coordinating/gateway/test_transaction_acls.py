"""The lines of docs/clients.md on rights for offsets in transactions, pasted: with them a loop works, and without one
of them somebody hears why it does not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.transactions.relay import RelaySettings
from group_coordinator.coordinating.transactions.relays import Relays
from group_coordinator.ground.settings.topic_names import Topics
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.topics import TopicSettings
from tests.coordinating.gateway.conftest import PARTITIONS
from tests.coordinating.gateway.loops import values_of
from tests.coordinating.gateway.pump import Pump
from tests.coordinating.gateway.relaying import log_of
from tests.coordinating.operations.acl_lines import acl_lines, listener_with_rights, paste
from tests.making_topics import make_topic
from tests.waiting import wait_until

pytestmark = [pytest.mark.kafka, pytest.mark.end_to_end]

DOCUMENTS = Path(__file__).parents[3] / "docs"
TOPICS = Topics.of_prefix("coordinator")
LOG, RELAYS_GROUP = "coordinator.transactions", "coordinator.transactions-relay"
SOURCE, TARGET, GROUP = "orders", "invoices", "billing"
ALLOWED, RULED_OUT, UNKNOWN = "invoicing-1", "ruled-out", "unknown"
RULES = f"""
User:app  {GROUP}                    allow
User:app  transaction invoicing-*    allow
"""
APP = "kafka-acls.sh --bootstrap-server localhost:9092 --add --allow-principal User:app --operation "
OF_THE_APP = (
    f"{APP}Read --operation Write --topic {SOURCE} --topic {TARGET}",
    f"{APP}Write --transactional-id {ALLOWED} --transactional-id {RULED_OUT}",
)
"""What it needs at brokers in any case."""
_TIMEOUT_S = 60.0


class Cluster(NamedTuple):
    """Who comes in by the plain listener may do all, by the other what the lines say."""

    kafka: EmbeddedKafka
    outside: str

    @property
    def inside(self) -> str:
        return self.kafka.bootstrap_servers

    def properties(self, user: str, address: str = "") -> dict[str, Any]:
        return {
            "bootstrap.servers": address or self.outside, "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN", "sasl.username": user, "sasl.password": user,
        }  # fmt: skip

    def take_away(self, user: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Delete one right, which was there."""
        asked = AclBindingFilter(
            kind, name, ResourcePatternType.LITERAL, f"User:{user}", "*", operation, AclPermissionType.ALLOW
        )
        admin = AdminClient({"bootstrap.servers": self.inside})  # held: without it there is no answer
        gone = admin.delete_acls([asked])[asked].result(_TIMEOUT_S)
        assert len(gone) == 1, gone


@pytest.fixture(scope="module")
def cluster(kafka_jars: Path) -> Iterator[Cluster]:
    address, properties = listener_with_rights(("gateway", "relay", "app"))
    with EmbeddedKafka(properties=properties) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        for name in (SOURCE, TARGET):
            make_topic(admin, name, PARTITIONS)
        of_the_gateway = [line for line in acl_lines(DOCUMENTS / "operations.md") if "User:gateway" in line]
        of_transactions = acl_lines(DOCUMENTS / "clients.md")
        assert len(of_transactions) == 5
        for line in (*of_the_gateway, *of_transactions, *OF_THE_APP):
            paste(line, kafka.bootstrap_servers)
        yield Cluster(kafka, address)


@pytest.fixture(scope="module")
def relays(cluster: Cluster) -> Iterator[Relays]:
    with Pump(cluster.inside, TopicSettings()):
        properties = cluster.properties("relay")
        settings = RelaySettings(
            log_properties=properties, log_topic=LOG, events_properties=properties, events_topic=TOPICS.events,
            shards=1, open_bytes_max=1 << 20,
        )  # fmt: skip
        running = Relays(settings, (0,))
        running.start()
        yield running
        running.stop()


@pytest.fixture(scope="module")
def gateway(cluster: Cluster, relays: Relays, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    rules = tmp_path_factory.mktemp("rules") / "rules"
    rules.write_text(RULES)
    config = GatewaySettings(
        listen="127.0.0.1:0", bootstrap_servers=cluster.outside, authorization_rules=str(rules),
        kafka={
            "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'PlainLoginModule required username="gateway" password="gateway";',
        },
    )  # fmt: skip
    with Gateway(config, transaction_log=log_of(config)) as gateway:
        yield gateway


class App:
    """A consumer, and a producer with transactions, of the app's user."""

    def __init__(self, cluster: Cluster, gateway: Gateway, transactional_id: str = ALLOWED) -> None:
        own = cluster.properties("app", gateway.bootstrap_servers) | {"log_level": "0"}
        self.consumer = Consumer(
            {**own, "group.id": GROUP, "enable.auto.commit": False, "auto.offset.reset": "earliest",
             "isolation.level": "read_committed"}
        )  # fmt: skip
        self.producer = Producer({**own, "transactional.id": transactional_id})
        self.producer.init_transactions(_TIMEOUT_S)

    def send_offset(self, offset: int, timeout_s: float = _TIMEOUT_S) -> None:
        self.producer.begin_transaction()
        self.producer.send_offsets_to_transaction(
            [TopicPartition(SOURCE, 0, offset)], self.consumer.consumer_group_metadata(), timeout_s
        )

    def committed(self) -> int:
        (place,) = self.consumer.committed([TopicPartition(SOURCE, 0)], _TIMEOUT_S / 4)
        return place.offset


def error_of(refused: pytest.ExceptionInfo[KafkaException]) -> int:
    code: int = refused.value.args[0].code()
    return code


def test_with_the_lines_a_loop_works(cluster: Cluster, gateway: Gateway, relays: Relays) -> None:
    app = App(cluster, gateway)
    writer = Producer(cluster.properties("app", gateway.bootstrap_servers))
    writer.produce(SOURCE, b"order", partition=0)
    assert writer.flush(_TIMEOUT_S) == 0
    app.consumer.subscribe([SOURCE])
    message = wait_until(lambda: app.consumer.poll(1.0), _TIMEOUT_S, interval_s=0)
    assert message is not None
    app.send_offset(1)
    app.producer.produce(TARGET, message.value())
    app.producer.commit_transaction(_TIMEOUT_S)
    assert app.committed() == 1
    assert values_of(cluster.kafka, TARGET) == {b"order": 1}
    app.consumer.close()
    assert relays.not_ready() == []
    assert relays.shards[0].refusals == 0


def test_without_the_brokers_right_to_the_transaction(cluster: Cluster, gateway: Gateway) -> None:
    with pytest.raises(KafkaException) as refused:
        App(cluster, gateway, UNKNOWN)
    assert error_of(refused) == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_without_the_gateways_rule_for_the_transaction(cluster: Cluster, gateway: Gateway) -> None:
    app = App(cluster, gateway, RULED_OUT)
    with pytest.raises(KafkaException) as refused:
        app.send_offset(5)
    assert error_of(refused) == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def test_without_the_relays_right_to_write_events(cluster: Cluster, gateway: Gateway, relays: Relays) -> None:
    """It says so, goes no further, and goes on where it was once it has the right."""
    app = App(cluster, gateway)
    cluster.take_away("relay", AclOperation.WRITE, ResourceType.TOPIC, TOPICS.events)
    try:
        wait_until(lambda: _is_refused(cluster.properties("relay"), TOPICS.events), _TIMEOUT_S)
        with pytest.raises(KafkaException):
            app.send_offset(6, 5.0)
        (sentence,) = wait_until(relays.not_ready, _TIMEOUT_S)
        assert "authorization" in sentence.lower()
    finally:  # whoever tries again finds it as it was
        lines = acl_lines(DOCUMENTS / "clients.md")
        (line,) = [line for line in lines if "User:relay" in line and TOPICS.events in line]
        paste(line, cluster.inside)
    wait_until(lambda: relays.not_ready() == [] and relays.shards[0].lag == 0, 2 * _TIMEOUT_S)


def _is_refused(properties: dict[str, Any], topic: str) -> bool:
    codes: list[int | None] = []
    producer = Producer(properties | {"log_level": "0"})
    producer.produce(
        topic, b"{}", b"nobody", on_delivery=lambda error, _: codes.append(None if error is None else error.code())
    )
    producer.flush(_TIMEOUT_S)
    return codes == [KafkaError.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize(
    ("user", "operation", "kind", "name"),
    [
        ("relay", AclOperation.READ, ResourceType.TOPIC, LOG),
        ("relay", AclOperation.READ, ResourceType.GROUP, RELAYS_GROUP),
        ("gateway", AclOperation.WRITE, ResourceType.TOPIC, LOG),
        ("gateway", AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "*"),
    ],
)
def test_who_gets_a_right_back_goes_on(
    cluster: Cluster, gateway: Gateway, relays: Relays, user: str, operation: AclOperation, kind: ResourceType,
    name: str,
) -> None:  # fmt: skip
    def commit(offset: int, timeout_s: float) -> bool:
        app = App(cluster, gateway)  # it ends what an earlier one has left open
        try:
            app.send_offset(offset, timeout_s)
            app.producer.commit_transaction(timeout_s)
            return app.committed() == offset
        except KafkaException:
            return False

    def is_felt() -> bool:
        is_committed = commit(11, 5.0)
        return relays.not_ready() != [] if user == "relay" else not is_committed

    wait_until(lambda: commit(10, 10.0), _TIMEOUT_S)
    cluster.take_away(user, operation, kind, name)
    try:
        wait_until(is_felt, 2 * _TIMEOUT_S)
    finally:
        lines = acl_lines(DOCUMENTS / "clients.md")
        (line,) = [line for line in lines if f"User:{user} " in line and line.split()[-1].strip("'") == name]
        paste(line, cluster.inside)
    wait_until(lambda: commit(12, 10.0), 4 * _TIMEOUT_S)
    wait_until(lambda: relays.not_ready() == [] and relays.shards[0].lag == 0, _TIMEOUT_S)


def test_without_the_gateways_right_to_write_the_log(
    cluster: Cluster, gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    """No fault of the client's, which may ask again: the gateway's log says what is missing."""
    cluster.take_away("gateway", AclOperation.WRITE, ResourceType.TOPIC, LOG)
    wait_until(lambda: _is_refused(cluster.properties("gateway"), LOG), _TIMEOUT_S)
    app = App(cluster, gateway)
    with caplog.at_level(logging.WARNING):
        with pytest.raises(KafkaException) as refused:
            app.send_offset(7, 5.0)
        wait_until(lambda: f"{LOG} cannot be added to a transaction: the brokers answer 29" in caplog.text, _TIMEOUT_S)
    assert refused.value.args[0].retriable()


def test_without_the_gateways_right_to_transactions(cluster: Cluster, gateway: Gateway) -> None:
    cluster.take_away("gateway", AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "*")

    def is_refused() -> bool:
        try:
            App(cluster, gateway).send_offset(8, 5.0)
        except KafkaException as refused:
            code: int = refused.args[0].code()
            return code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        return False  # not every broker knows it yet

    wait_until(is_refused, _TIMEOUT_S)
