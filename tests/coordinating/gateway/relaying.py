"""Offsets in transactions beside the embedded broker: the gateway's log of transactions, and the relays."""

from __future__ import annotations

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.transactions.appender import Appender
from group_coordinator.coordinating.transactions.log_topic import topic_name
from group_coordinator.coordinating.transactions.relay import RelaySettings
from group_coordinator.coordinating.transactions.relays import Relays


def relays_of(config: GatewaySettings) -> Relays:
    settings = RelaySettings(
        log_properties=config.broker_client_properties, log_topic=topic_name(config.topic_prefix),
        events_properties=config.coordinator_client_properties, events_topic=f"{config.topic_prefix}.events",
        shards=1, open_bytes_max=1 << 20,
    )  # fmt: skip
    return Relays(settings, (0,))


def log_of(config: GatewaySettings) -> Appender:
    return Appender(config.broker_client_properties, topic_name(config.topic_prefix))
