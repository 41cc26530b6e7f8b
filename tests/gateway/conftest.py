"""A gateway in front of the embedded broker, with the pump behind it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from gateway.config import GatewayConfig
from gateway.rewriting import Address
from gateway.server import Gateway
from streaming.embedded_kafka import EmbeddedKafka
from streaming.topics import TopicSettings
from tests.gateway.pump import Pump


@pytest.fixture
def pump(kafka: EmbeddedKafka, topic_settings: TopicSettings) -> Iterator[Pump]:
    with Pump(kafka.bootstrap_servers, topic_settings) as pump:
        yield pump


@pytest.fixture
def gateway(kafka: EmbeddedKafka, topic_settings: TopicSettings, pump: Pump) -> Iterator[Gateway]:
    config = GatewayConfig(
        listen=Address("127.0.0.1", 0), bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_settings.prefix
    )
    with Gateway(config) as gateway:
        yield gateway


@pytest.fixture
def topic(admin: AdminClient, topic_prefix: str) -> str:
    """A topic with four partitions."""
    name = f"{topic_prefix}-data"
    admin.create_topics([NewTopic(name, 4, 1)])[name].result(10)
    return name
