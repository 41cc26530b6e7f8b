"""The signs of life of a gateway, which responders read."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.gateway import progress_channel
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.server import Gateway
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.query_progress import GatewayAlive, decode_progress, key_of
from streaming.topics import TopicSettings
from tests.coordinating.gateway.pump import Pump
from tests.waiting import wait_until


def signs_in(kafka: EmbeddedKafka, topic: str) -> dict[int, int]:
    """The number of signs in each partition."""
    signs: dict[int, int] = {}
    for message in read_topic({"bootstrap.servers": kafka.bootstrap_servers}, topic):
        assert message.key() == key_of(GatewayAlive)
        assert decode_progress(message.value() or b"") == GatewayAlive()
        signs[message.partition() or 0] = signs.get(message.partition() or 0, 0) + 1
    return signs


def test_they_come_and_end_with_the_gateway(
    gateway_config: GatewaySettings,
    pump: Pump,
    kafka: EmbeddedKafka,
    topic_settings: TopicSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress_channel, "SIGN_INTERVAL_S", 0.1)
    topic = topic_settings.topics.progress
    with Gateway(gateway_config):
        wait_until(lambda: signs_in(kafka, topic).get(0, 0) > 3)
    ended = signs_in(kafka, topic)
    with Gateway(gateway_config, ends_with_coordinator=True) as gateway:
        assert gateway.is_ready
        assert signs_in(kafka, topic) == ended
