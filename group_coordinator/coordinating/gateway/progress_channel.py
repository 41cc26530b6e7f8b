"""By the progress topic gateways ask responders and watchers of topics, hear what responders answer, and say that
clients can be heard.

Where the topic is missing, or may not be read or written, nobody is asked, and the log says so once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.handover import Handover, TopicRecord, topic_records
from group_coordinator.ground.kafka_topics.clients import new_admin_client, new_producer
from group_coordinator.ground.kafka_topics.described import partitions_now
from group_coordinator.ground.kafka_topics.errors import TopicReadError
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from schemas.query_progress import (
    GatewayAlive,
    GroupsChanged,
    ProgressRecord,
    decode_progress,
    encode_progress,
    key_of,
)

_WRITE_TIMEOUT_MS = 2_000
"""A question that Kafka has not taken by then is asked no more."""
SIGN_INTERVAL_S = 1.0
"""From one sign of life to the next."""
_log = logging.getLogger(__name__)


class ProgressChannel:
    """One for a gateway. `write` is called in the event loop's thread, and so is what takes answers."""

    def __init__(self, config: GatewaySettings, asker: str) -> None:
        """`asker`: the name under which this gateway asks."""
        self.shards = 0
        """The shards that can be asked; 0: nobody can."""
        self._properties = config.coordinator_client_properties
        self._topic = f"{config.topic_prefix}.progress"
        self._mark = f'"{asker}"'.encode()
        """It is in every answer to this gateway."""
        self._asker = asker
        self._on_answer: Callable[[int, GroupsChanged], None] = lambda shard, answer: None
        self._producer: Producer | None = None
        self._follower: TopicFollower | None = None
        self._has_failed = False

    def start(self, loop: asyncio.AbstractEventLoop, on_answer: Callable[[int, GroupsChanged], None]) -> None:
        """Begin to listen. Blocks. `on_answer`: called with the shard and the answer, in the loop's thread."""
        self._on_answer = on_answer
        shards = partitions_now(new_admin_client(self._properties), self._topic)
        if not shards:
            self._fail(f"there is no topic {self._topic}, or it may not be described")
            return
        handover = Handover(loop, self._take)

        def take(messages: list[Message]) -> None:
            answers = [record for record in topic_records(messages) if self._is_for_us(record)]
            if answers:
                handover.give(answers, lambda: self._follower is None or self._follower.is_stopping)

        follower = TopicFollower(self._properties, "gateway", take, on_failure=lambda problem: self._fail(str(problem)))
        try:
            follower.start(from_end=[(self._topic, shard) for shard in range(shards)])
        except TopicReadError as problem:
            self._fail(str(problem))
            return
        self._follower = follower
        self._producer = new_producer(self._properties, {"linger.ms": 0, "message.timeout.ms": _WRITE_TIMEOUT_MS})
        self.shards = shards

    def stop(self) -> None:
        """Listen no more. Blocks for a moment."""
        if self._follower is not None:
            self._follower.stop()

    async def give_signs_of_life(self) -> None:
        """Say to each shard's responder, until it is cancelled, that clients can be heard: it may have to write the
        clock while the coordinator is away. Runs in the event loop that serves clients."""
        while True:
            for shard in range(self.shards):
                self.write(shard, GatewayAlive())
            await asyncio.sleep(SIGN_INTERVAL_S)

    def write(self, shard: int, record: ProgressRecord) -> None:
        """Write a record, if Kafka takes it."""
        if self._producer is None:
            return
        try:
            self._producer.produce(
                self._topic, encode_progress(record), key_of(type(record)), shard, on_delivery=self._delivered
            )
            self._producer.poll(0)
        except (BufferError, KafkaException) as problem:
            _log.debug("nothing is asked: %s", problem)

    def _is_for_us(self, record: TopicRecord) -> bool:
        return record.key == key_of(GroupsChanged) and record.value is not None and self._mark in record.value

    def _take(self, records: list[TopicRecord]) -> None:
        for record in records:
            answer = decode_progress(record.value or b"")
            if isinstance(answer, GroupsChanged) and answer.asker == self._asker:
                self._on_answer(record.partition, answer)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            self._fail(f"this gateway may not write to {self._topic}")

    def _fail(self, reason: str) -> None:
        self.shards = 0
        if not self._has_failed:
            self._has_failed = True
            _log.warning(
                "Responders and watchers of topics cannot be asked: %s. ListGroups shows what the coordinator has "
                "published, a new topic is known when the watcher has seen it, and no timer fires while the "
                "coordinator is away (docs/operations.md).", reason,
            )  # fmt: skip
