"""The gateway as a server: several of them, brokers that name it themselves, idle brokers, bounds, bad starts."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.gateway.config import GatewayError, GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.system.processor_time import SLICE_NS, slice_ns
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from schemas.history import MemberExpired, RebalanceStarted
from streaming.topics import TopicSettings, ensure_topics
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.clients.consumers import LIBRARIES, consumers_of, share, with_kafka_python
from tests.coordinating.gateway.clients.reading import reads, values
from tests.coordinating.gateway.conftest import PARTITIONS, Produce
from tests.coordinating.gateway.pump import Pump
from tests.ground.system.short_slices import slices_are_known
from tests.making_topics import make_topic
from tests.waiting import wait_until

pytestmark = [pytest.mark.end_to_end, pytest.mark.kafka]


@pytest.fixture(scope="module")
def odd_kafka(kafka_jars: Path) -> Iterator[tuple[EmbeddedKafka, tuple[str, str]]]:
    """A broker that closes idle connections soon, and has a listener of its own for a gateway,
    whose address it advertises."""
    for_gateway, of_gateway = free_port(), free_port()
    properties = {
        "connections.max.idle.ms": "2000",
        "listeners": f"GATEWAY://127.0.0.1:{for_gateway}",
        "advertised.listeners": f"GATEWAY://127.0.0.1:{of_gateway}",
        "listener.security.protocol.map": "GATEWAY:PLAINTEXT",
    }
    with EmbeddedKafka(properties=properties) as kafka:
        admin = new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})
        make_topic(admin, "data", PARTITIONS)
        yield kafka, (f"127.0.0.1:{of_gateway}", f"127.0.0.1:{for_gateway}")


@with_kafka_python
def test_a_broker_that_names_the_gateway_itself(
    odd_kafka: tuple[EmbeddedKafka, tuple[str, str]], topic_settings: TopicSettings, java_classes: Path
) -> None:
    kafka, route = odd_kafka
    config = GatewaySettings(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_settings.topic_prefix, routes=dict((route,))
    )
    with (
        Pump(kafka.bootstrap_servers, topic_settings),
        Gateway(config) as gateway,
        consumers_of(gateway.bootstrap_servers, "data", java_classes) as consumers,
    ):
        members = [consumers.start(library, "routed") for library in LIBRARIES]
        share(members, PARTITIONS)
        assert gateway.metrics.connections_broken == {}


@with_kafka_python
def test_a_broker_that_closes_idle_connections_disturbs_nobody(
    odd_kafka: tuple[EmbeddedKafka, tuple[str, str]], topic_settings: TopicSettings, java_classes: Path
) -> None:
    """The connection to the coordinator carries group requests only: to the broker it is idle."""
    kafka, _ = odd_kafka
    config = GatewaySettings(
        listen="127.0.0.1:0",
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_settings.topic_prefix,
    )
    with (
        Pump(kafka.bootstrap_servers, topic_settings) as pump,
        Gateway(config) as gateway,
        consumers_of(gateway.bootstrap_servers, "data", java_classes) as consumers,
    ):
        members = [consumers.start(library, "idle") for library in LIBRARIES]
        share(members, PARTITIONS)
        rebalances, accepted = len(pump.told(RebalanceStarted, "idle")), gateway.metrics.connections_accepted
        time.sleep(7)  # the broker ends a connection by its own clock
        assert len(pump.told(RebalanceStarted, "idle")) == rebalances
        assert gateway.metrics.connections_accepted <= accepted + 1, (
            "nobody had to connect anew (a bootstrap connection apart)"
        )


def test_members_of_one_group_may_come_through_different_gateways(
    kafka: EmbeddedKafka,
    gateway_config: GatewaySettings,
    gateway: Gateway,
    pump: Pump,
    topic: str,
    produce: Produce,
    java_classes: Path,
) -> None:
    other_config = replace(gateway_config, listen="127.0.0.1:0")
    with (
        Gateway(other_config) as other_gateway,
        consumers_of(gateway.bootstrap_servers, topic, java_classes) as own_consumers,
        consumers_of(other_gateway.bootstrap_servers, topic, java_classes) as other_consumers,
    ):
        members = [own_consumers.start("librdkafka", "both"), other_consumers.start("java", "both")]
        share(members, PARTITIONS)
        produce(0, 60)
        reads(60, *members)
        assert values(*members) == list(range(60))
        assert gateway.metrics.requests["JoinGroup"]
        assert other_gateway.metrics.requests["JoinGroup"]
        assert pump.told(MemberExpired, "both") == []


def test_bulk_data(gateway: Gateway, topic: str) -> None:
    """Large records in large batches, in both directions, to the byte."""
    payloads = [bytes([number]) * 700_000 for number in range(60)]
    # Idempotent: their order is looked at, and a retry must not change it.
    producer = Producer({"bootstrap.servers": gateway.bootstrap_servers, "log_level": "2", "enable.idempotence": True})
    for payload in payloads:
        producer.produce(topic, payload, partition=0)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": gateway.bootstrap_servers, "group.id": "unused", "log_level": "2"})
    consumer.assign([TopicPartition(topic, 0, 0)])
    received: list[bytes] = []
    while len(received) < 60 and (messages := consumer.consume(10, 60)):
        received += [message.value() or b"" for message in messages]
    assert [payload[0] for payload in received] == list(range(60))
    assert received == payloads
    consumer.close()
    assert gateway.metrics.bytes_to_clients > 60 * 700_000


def test_a_client_that_does_not_read_does_not_fill_the_memory(gateway: Gateway, topic: str) -> None:
    host, port = gateway.bootstrap_servers.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as client:
        client.settimeout(2)
        requests = b"".join(wire.metadata(number) for number in range(1_000))
        sent = 0
        with suppress(TimeoutError):
            while sent < 50_000_000:
                sent += client.send(requests)
        assert sent < 50_000_000
        (session,) = gateway.sessions
        assert session.answers_waiting <= 256


def test_its_threads_wait_less_for_a_processor(gateway: Gateway) -> None:
    if not slices_are_known():
        pytest.skip("this system knows no slices")
    soon = {thread.name for thread in threading.enumerate() if slice_ns(thread.native_id or 0) == SLICE_NS}
    assert {"gateway", "read-gateway"} <= soon
    assert threading.current_thread().name not in soon


def test_what_is_no_kafka_is_shown_the_door(gateway: Gateway) -> None:
    host, port = gateway.bootstrap_servers.rsplit(":", 1)
    with socket.create_connection((host, int(port))) as stranger:
        stranger.settimeout(10)
        stranger.sendall(b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n")
        assert stranger.recv(100) == b""
    assert gateway.metrics.connections_broken == {"not understood": 1}


def test_no_more_connections_than_allowed(gateway_config: GatewaySettings, pump: Pump) -> None:
    with Gateway(replace(gateway_config, connections_max=3)) as gateway:
        host, port = gateway.bootstrap_servers.rsplit(":", 1)
        connections = [socket.create_connection((host, int(port))) for _ in range(3)]
        wait_until(lambda: gateway.metrics.connections_open == 3)
        with socket.create_connection((host, int(port))) as refused:
            refused.settimeout(10)
            assert refused.recv(10) == b""
        connections.pop().close()
        wait_until(lambda: gateway.metrics.connections_open == 2)
        with socket.create_connection((host, int(port))) as accepted:
            accepted.sendall(wire.api_versions(1))
            accepted.settimeout(10)
            assert accepted.recv(10)
        for connection in connections:
            connection.close()


def test_a_group_request_is_answered_while_brokers_are_not_there(
    kafka_jars: Path, kafka: EmbeddedKafka, topic_settings: TopicSettings, pump: Pump
) -> None:
    """Where the coordinator's topics are in another cluster."""
    with EmbeddedKafka() as data_cluster:
        config = GatewaySettings(
            listen="127.0.0.1:0",
            bootstrap_servers=data_cluster.bootstrap_servers,
            coordinator_bootstrap_servers=kafka.bootstrap_servers,
            topic_prefix=topic_settings.topic_prefix,
        )
        with Gateway(config) as gateway:
            host, port = gateway.bootstrap_servers.rsplit(":", 1)
            with socket.create_connection((host, int(port))) as client:
                client.settimeout(20)
                client.sendall(wire.heartbeat(1))
                assert wire.heartbeat_error(client.recv(100)) == 25
                data_cluster.kill()
                client.sendall(wire.heartbeat(2))
                assert wire.heartbeat_error(client.recv(100)) == 25


# ----------------------------------------------------------------------------------------------------------- bad starts


def refused(config: GatewaySettings) -> str:
    with pytest.raises(GatewayError) as problem:
        Gateway(config).start()
    return str(problem.value)


def test_a_coordinator_that_was_never_started(gateway_config: GatewaySettings, kafka: EmbeddedKafka) -> None:
    assert "There is no topic absent.events and no topic absent.responses" in refused(
        replace(gateway_config, topic_prefix="absent")
    )


def test_a_port_that_is_taken(
    gateway_config: GatewaySettings, admin: AdminClient, topic_settings: TopicSettings
) -> None:
    ensure_topics(admin, topic_settings)
    with socket.create_server(("127.0.0.1", gateway_config.address.port)):
        assert (
            refused(gateway_config) == f"The gateway cannot listen on {gateway_config.listen}: Address already in use."
        )
