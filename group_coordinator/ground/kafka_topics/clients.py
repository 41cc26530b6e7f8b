"""Every client of librdkafka that is no user's: what all have in common, and what each is given besides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

_OF_ALL = {"log_level": 0, "reconnect.backoff.max.ms": 1_000}
"""What fails is raised or told once, by whoever uses the client; librdkafka tells it at each attempt to connect."""


class NamedAdminClient(AdminClient):
    """One that can say whom it asks."""

    bootstrap_servers: str


def new_admin_client(client_properties: Mapping[str, Any], own: Mapping[str, Any] | None = None) -> NamedAdminClient:
    """Return an admin client. `client_properties` are librdkafka's, and those of its `own` come before them. Whoever
    waits for an answer must hold it."""
    client = NamedAdminClient({**_OF_ALL, **client_properties, **(own or {})})
    client.bootstrap_servers = client_properties["bootstrap.servers"]
    return client


def new_producer(client_properties: Mapping[str, Any], own: Mapping[str, Any]) -> Producer:
    """Return a producer. `client_properties` are librdkafka's, and those of its `own` come before them."""
    return Producer({**_OF_ALL, **client_properties, **own})


def new_consumer(client_properties: Mapping[str, Any], own: Mapping[str, Any]) -> Consumer:
    """Return a consumer. `client_properties` are librdkafka's, and those of its `own` come before them."""
    return Consumer({**_OF_ALL, **client_properties, **own})
