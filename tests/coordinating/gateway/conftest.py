"""A gateway in front of the embedded broker, the pump behind it, and consumers of three libraries."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.coordinating.transactions.relays import Relays
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port
from streaming.topics import TopicSettings
from tests.coordinating.gateway.clients.consumers import Consumers, compile_java, consumers_of
from tests.coordinating.gateway.pump import Pump
from tests.coordinating.gateway.relaying import log_of, relays_of
from tests.making_topics import make_topic

PARTITIONS = 6
Produce = Callable[[int, int], None]


@pytest.fixture
def pump(kafka: EmbeddedKafka, topic_settings: TopicSettings) -> Iterator[Pump]:
    with Pump(kafka.bootstrap_servers, topic_settings) as pump:
        yield pump


@pytest.fixture
def gateway_config(kafka: EmbeddedKafka, topic_settings: TopicSettings) -> GatewaySettings:
    """With fixed ports, so that a gateway can be started again at the same place."""
    return GatewaySettings(
        listen=f"127.0.0.1:{_two_free_ports()}",
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_settings.topic_prefix,
    )


@pytest.fixture
def relays(gateway_config: GatewaySettings, pump: Pump) -> Iterator[Relays]:
    """The relays of a gateway with a log of transactions."""
    running = relays_of(gateway_config)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def gateway(gateway_config: GatewaySettings, pump: Pump, request: pytest.FixtureRequest) -> Iterator[Gateway]:
    """A gateway; where a test has relays, with a log of transactions."""
    log = None
    if "relays" in request.fixturenames:
        request.getfixturevalue("relays")  # they make the topic
        log = log_of(gateway_config)
    with Gateway(gateway_config, transaction_log=log) as gateway:
        yield gateway


@pytest.fixture
def topic(admin: AdminClient, topic_prefix: str) -> str:
    name = f"{topic_prefix}-data"
    make_topic(admin, name, PARTITIONS)
    return name


@pytest.fixture
def produce(gateway: Gateway, topic: str) -> Produce:
    return produce_to(gateway.bootstrap_servers, topic)


def produce_to(bootstrap_servers: str, topic: str) -> Produce:
    """Writes the numbers from the first up to the second, each to the partition that it is in modulo their count."""
    producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": "5", "log_level": "2"})

    def write(start: int, end: int) -> None:
        for number in range(start, end):
            producer.produce(topic, str(number), partition=number % PARTITIONS)
        assert producer.flush(20) == 0

    return write


@pytest.fixture(scope="session")
def java_classes(tmp_path_factory: pytest.TempPathFactory, kafka_jars: Path) -> Path:
    return compile_java(tmp_path_factory.mktemp("classes"))


@pytest.fixture
def consumers(gateway: Gateway, topic: str, java_classes: Path) -> Iterator[Consumers]:
    with consumers_of(gateway.bootstrap_servers, topic, java_classes) as consumers:
        yield consumers


def _two_free_ports() -> int:
    """A port that is free, and so is the one of the embedded broker, whose node id is 1."""
    while True:
        port = free_port()
        with suppress(OSError), socket.create_server(("127.0.0.1", port + 2)):
            return port
