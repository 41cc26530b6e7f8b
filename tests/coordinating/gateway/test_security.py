"""SASL through the gateway, TLS that ends there, and the rules of who may use which group."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from group_coordinator.coordinating.gateway.config import GatewayError, GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from streaming.topics import TopicSettings
from tests.coordinating.gateway.clients.consumers import Library, consumers_of, share, with_kafka_python
from tests.coordinating.gateway.pump import Pump
from tests.making_topics import make_topic
from tests.waiting import wait_until

pytestmark = [pytest.mark.end_to_end, pytest.mark.kafka]

_FIXTURES = Path(__file__).parent / "fixtures"
CERTIFICATE = _FIXTURES / "certificate.pem"
"""Of localhost and 127.0.0.1, made for these tests, as is its key."""
RULES = """
User:alice   alice-*   allow
User:bob     bob-*     allow
"""
SESSION_MS = 5_000
"""After which a client that came by PLAIN must authenticate again."""
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def guarded_kafka(kafka_jars: Path) -> Iterator[tuple[EmbeddedKafka, str]]:
    """A broker with a listener that wants SASL; and where that is."""
    port = free_port()
    properties = {
        "listeners": f"SASL://127.0.0.1:{port}",
        "advertised.listeners": f"SASL://127.0.0.1:{port}",
        "listener.security.protocol.map": "SASL:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "listener.name.sasl.plain.sasl.jaas.config": f'{_PLAIN} required user_gateway="gateway" user_alice="secret";',
        "listener.name.sasl.plain.connections.max.reauth.ms": str(SESSION_MS),
        "listener.name.sasl.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
    }
    with EmbeddedKafka(properties=properties) as kafka:
        admin = new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4_096)
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("bob", info, b"hidden")])["bob"].result()
        make_topic(admin, "data", 2)
        yield kafka, f"127.0.0.1:{port}"


@pytest.fixture
def guarded(
    guarded_kafka: tuple[EmbeddedKafka, str], topic_settings: TopicSettings, tmp_path: Path
) -> Iterator[Gateway]:
    """TLS towards clients, SASL towards the broker, rules for groups."""
    kafka, bootstrap_servers = guarded_kafka
    rules = tmp_path / "rules"
    rules.write_text(RULES)
    config = GatewaySettings(
        listen="127.0.0.1:0",
        bootstrap_servers=bootstrap_servers,
        kafka={
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": 'PlainLoginModule required username="gateway" password="gateway";',
        },
        coordinator_bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_settings.topic_prefix,
        tls_certificate=str(CERTIFICATE),
        tls_key=str(_FIXTURES / "key.pem"),
        authorization_rules=str(rules),
    )
    with Pump(kafka.bootstrap_servers, topic_settings), Gateway(config) as gateway:
        yield gateway


def sasl(mechanism: str, user: str, password: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(CERTIFICATE),
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
        "log_level": "0",
    }


def first_problem(gateway: Gateway, settings: dict[str, str], group: str, timeout_s: float = 15.0) -> str | None:
    """What a consumer is told first; None: it got partitions."""
    problems: list[str] = []
    consumer = Consumer(
        {
            **settings,
            "bootstrap.servers": gateway.bootstrap_servers,
            "group.id": group,
            "error_cb": lambda error: problems.append(error.name()),
        }
    )
    assigned: list[object] = []
    consumer.subscribe(["data"], on_assign=lambda _, partitions: assigned.extend(partitions))
    deadline = time.monotonic() + timeout_s
    try:
        while time.monotonic() < deadline:
            message = consumer.poll(0.1)
            error = None if message is None else message.error()
            if error is not None:
                problems.append(error.name())
            if assigned:
                return None
            serious = [name for name in problems if name not in ("_ALL_BROKERS_DOWN", "_TRANSPORT")]
            if serious:
                return serious[0]
        return f"nothing within {timeout_s} s"
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("mechanism", "user", "password"), [("PLAIN", "alice", "secret"), ("SCRAM-SHA-256", "bob", "hidden")]
)
def test_who_is_let_in(guarded: Gateway, mechanism: str, user: str, password: str) -> None:
    settings = sasl(mechanism, user, password)
    producer = Producer({**settings, "bootstrap.servers": guarded.bootstrap_servers})
    producer.produce("data", b"x")
    assert producer.flush(15) == 0, "all else passes through, authenticated"
    assert first_problem(guarded, settings, f"{user}-group") is None
    assert first_problem(guarded, settings, "others") == "GROUP_AUTHORIZATION_FAILED"
    admin = AdminClient({**settings, "bootstrap.servers": guarded.bootstrap_servers})
    wait_until(lambda: [group.group_id for group in admin.list_consumer_groups().result().valid] == [f"{user}-group"])
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups(["others"])["others"].result()
    assert refused.value.args[0].code() == KafkaError.GROUP_AUTHORIZATION_FAILED


@pytest.mark.parametrize(("mechanism", "user"), [("PLAIN", "alice"), ("SCRAM-SHA-256", "bob")])
def test_who_is_not(guarded: Gateway, mechanism: str, user: str) -> None:
    assert first_problem(guarded, sasl(mechanism, user, "wrong"), f"{user}-group") == "_AUTHENTICATION"
    assert guarded.metrics.requests == {}


def test_a_client_that_does_not_authenticate_is_not_served(guarded: Gateway) -> None:
    settings = {"security.protocol": "SSL", "ssl.ca.location": str(CERTIFICATE), "log_level": "0"}
    assert "nothing within" in (first_problem(guarded, settings, "alice-group", timeout_s=4) or "")
    assert guarded.metrics.requests == {}
    assert guarded.metrics.connections_broken["the client has not authenticated"] > 0


@pytest.mark.parametrize("library", ["java", pytest.param("kafka-python", marks=with_kafka_python)])
def test_other_libraries(guarded: Gateway, library: Library, java_classes: Path) -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(CERTIFICATE),
        "sasl.jaas.config": f'{_SCRAM} required username="bob" password="hidden";',
    }
    with consumers_of(guarded.bootstrap_servers, "data", java_classes) as consumers:
        share([consumers.start_with(library, "bob-group", settings)], 2)


def test_sessions_are_prolonged_while_groups_are_at_work(guarded: Gateway, java_classes: Path) -> None:
    """The connection to the coordinator, on which the broker sees nothing but that, included."""
    tls = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}
    java = tls | {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(CERTIFICATE),
        "sasl.jaas.config": f'{_PLAIN} required username="alice" password="secret";',
    }
    librdkafka = tls | {"ssl.ca.location": str(CERTIFICATE), "sasl.username": "alice", "sasl.password": "secret"}
    settings = {"session.timeout.ms": "45000", "enable.auto.commit": "false"}
    with consumers_of(guarded.bootstrap_servers, "data", java_classes) as consumers:
        members = [
            consumers.start_with("java", "alice-group", java | settings),
            consumers.start_with("librdkafka", "alice-group", librdkafka | settings),
        ]
        share(members, 2)
        before = [member.rebalances for member in members]
        time.sleep(2.5 * SESSION_MS / 1_000)  # the broker ends a connection by its own clock
        assert [member.rebalances for member in members] == before
        assert members[0].commit() == ["committed"]
        assert guarded.metrics.connections_broken == {}


def test_a_certificate_that_cannot_be_used(topic_settings: TopicSettings) -> None:
    config = GatewaySettings(
        listen="127.0.0.1:0",
        bootstrap_servers="127.0.0.1:1",
        topic_prefix=topic_settings.topic_prefix,
        tls_certificate="/no/such/file",
    )
    with pytest.raises(GatewayError, match="/no/such/file cannot be used"):
        Gateway(config).start()
