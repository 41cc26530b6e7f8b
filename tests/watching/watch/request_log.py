"""What a broker's request log says of one of its listeners: every client of that listener is the watcher."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka, free_port

DOOR = "WATCHED"
"""The name of the watcher's listener. Clients stay on the listener by which they came in."""
REQUEST_LOGGER = "-Dorg.slf4j.simpleLogger.log.kafka.request.logger=debug"


class Asked(Struct, frozen=True, kw_only=True):
    """A request that the broker answered."""

    api: str
    client_id: str
    body: dict[str, Any]


@contextmanager
def logging_broker(**properties: str) -> Iterator[tuple[EmbeddedKafka, str]]:
    """Start a broker that logs all requests and makes topics that are asked for. Yield it and the watcher's address."""
    address = f"127.0.0.1:{free_port()}"
    listener = {
        "listeners": f"{DOOR}://{address}",
        "advertised.listeners": f"{DOOR}://{address}",
        "listener.security.protocol.map": f"{DOOR}:PLAINTEXT",
        "auto.create.topics.enable": "true",
    }
    with EmbeddedKafka(properties=listener | properties, java_options=(REQUEST_LOGGER,)) as kafka:
        yield kafka, address


def asked_by_watchers(log: Path) -> list[Asked]:
    """Return all requests that came to the watcher's listener."""
    requests = []
    for line in log.read_text().splitlines():
        _, is_request, text = line.partition("kafka.request.logger - Completed request:")
        if not is_request:
            continue
        logged = json.loads(text)
        if logged["listener"] == DOOR:
            header = logged["requestHeader"]
            requests.append(
                Asked(api=header["requestApiKeyName"], client_id=header["clientId"] or "", body=logged["request"])
            )
    return requests
