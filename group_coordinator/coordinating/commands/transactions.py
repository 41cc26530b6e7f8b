"""Offsets in transactions: what a gateway and relays are made of, from the gateway's settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.ground.settings.topic_names import Topics

if TYPE_CHECKING:
    from group_coordinator.coordinating.gateway.transactions import TransactionLog
    from group_coordinator.coordinating.transactions.relays import Relays


def transaction_log(config: GatewaySettings) -> TransactionLog | None:
    """Return the log in which a gateway puts commits in transactions; None where it offers none."""
    if not config.transactions:
        return None
    from group_coordinator.coordinating.transactions.appender import Appender  # it takes its time to import
    from group_coordinator.coordinating.transactions.log_topic import topic_name

    return Appender(config.broker_client_properties, topic_name(config.topic_prefix))


def relays(config: GatewaySettings, shards: int, here: tuple[int, ...]) -> Relays:
    """Return the relays of the shards `here`, of so many in all."""
    from group_coordinator.coordinating.transactions.log_topic import topic_name
    from group_coordinator.coordinating.transactions.relay import RelaySettings
    from group_coordinator.coordinating.transactions.relays import Relays

    settings = RelaySettings(
        log_properties=config.broker_client_properties,
        log_topic=topic_name(config.topic_prefix),
        events_properties=config.coordinator_client_properties,
        events_topic=Topics.of_prefix(config.topic_prefix).events,
        shards=shards,
        open_bytes_max=config.transactions_open_bytes_max,
    )
    return Relays(settings, here)
