"""The signs of life of a gateway: while the coordinator is away they say that clients can be heard.

They lie on the progress topic, where responders read them. Without that topic nobody needs any.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException, Message

from group_coordinator.ground.kafka_topics.clients import new_admin_client, new_producer
from group_coordinator.ground.kafka_topics.described import partitions_now
from schemas.query_progress import GatewayAlive, encode_progress, key_of

INTERVAL_S = 1.0
LOOK_INTERVAL_S = 30.0
"""How often is looked whether the topic is there by now."""
_SIGN_TIMEOUT_MS = 2_000
"""A sign that Kafka has not taken by then would be an old one."""
_log = logging.getLogger(__name__)


class SignsOfLife:
    """Writes a sign a second to each partition of the progress topic, as long as `write` runs in the event loop that
    serves clients."""

    def __init__(self, client_properties: Mapping[str, str], topic_prefix: str) -> None:
        self._properties = client_properties
        self._topic = f"{topic_prefix}.progress"
        self._failure: KafkaError | None = None

    async def write(self) -> None:
        """Write until it is cancelled."""
        partitions = await self._partitions()
        producer = new_producer(self._properties, {"linger.ms": 0, "message.timeout.ms": _SIGN_TIMEOUT_MS})
        key, sign = key_of(GatewayAlive), encode_progress(GatewayAlive())
        while True:
            for partition in range(partitions):
                try:
                    producer.produce(self._topic, sign, key, partition=partition, on_delivery=self._delivered)
                except (BufferError, KafkaException) as problem:
                    _log.debug("no sign of life: %s", problem)
            producer.poll(0)
            await asyncio.sleep(INTERVAL_S)

    async def _partitions(self) -> int:
        """Wait until the topic is there, and return how many partitions it has."""
        admin = new_admin_client(self._properties)
        while not (count := await asyncio.to_thread(partitions_now, admin, self._topic)):
            await asyncio.sleep(LOOK_INTERVAL_S)
        return count

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        is_refused = error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
        if error is not None and is_refused and self._failure is None:
            self._failure = error
            _log.warning(
                "This gateway may not write to %s: no timer fires while the coordinator is away (docs/operations.md).",
                self._topic,
            )  # fmt: skip
