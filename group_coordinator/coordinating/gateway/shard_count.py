"""The events topic must have as many partitions as the coordinator has shards; otherwise groups would get lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from group_coordinator.coordinating.gateway.config import GatewayError
from group_coordinator.ground.kafka_topics.clients import login_problem, new_admin_client
from group_coordinator.ground.kafka_topics.described import partitions_now
from schemas.shards import partitions_were_added, problem_of_ends

_METADATA_TIMEOUT_S = 15.0
_INTERVAL_S = 3.0
_TIMEOUT_S = 10.0
START_TIMEOUT_S = 20.0
"""How long a coordinator that is just starting may take until each shard has its first tick."""
_RETRY_S = 0.5


class ShardCount:
    """Compares the number of shards with that at the start. Its methods block unless they are coroutines."""

    def __init__(self, properties: Mapping[str, str], events_topic: str, count: int) -> None:
        self._admin = new_admin_client(properties, {"log_level": 3})
        self._topic, self._count = events_topic, count

    def insist_on_ends(self) -> None:
        """Check the ends of all partitions, for some time. Raises GatewayError if a partition is no shard."""
        give_up_s = time.monotonic() + START_TIMEOUT_S
        while (problem := self._problem()) is not None:
            if time.monotonic() >= give_up_s:
                raise GatewayError(problem)
            time.sleep(_RETRY_S)

    async def watch(self, on_failure: Callable[[GatewayError], None]) -> None:
        """Look again and again, without blocking; `on_failure` is told when partitions were added."""
        while True:
            await asyncio.sleep(_INTERVAL_S)
            count = await asyncio.to_thread(self.look)
            if count != self._count:
                on_failure(GatewayError(partitions_were_added(self._topic, self._count, count)))
                return

    def look(self) -> int:
        """Return the present number of partitions, or the last known one if the brokers do not answer."""
        return partitions_now(self._admin, self._topic) or self._count

    def _problem(self) -> str | None:
        end = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        specs = {TopicPartition(self._topic, number): end for number in range(self._count)}
        futures = self._admin.list_offsets(specs, request_timeout=_TIMEOUT_S)
        try:
            ends = {
                partition.partition: future.result(_TIMEOUT_S + 1.0).offset for partition, future in futures.items()
            }
        except (KafkaException, TimeoutError) as problem:
            return f"Where the partitions of {self._topic} end cannot be asked: {problem}."
        return problem_of_ends(self._topic, [ends[number] for number in range(self._count)])


def partition_counts(properties: dict[str, str], topics: list[str]) -> dict[str, int]:
    """Return the number of partitions of each topic. Raises GatewayError if a topic, or Kafka, is missing."""
    try:
        metadata = new_admin_client(properties, {"log_level": 3}).list_topics(timeout=_METADATA_TIMEOUT_S)
    except KafkaException as problem:
        raise GatewayError(
            login_problem(properties)
            or f"Kafka at {properties['bootstrap.servers']} does not answer: {problem.args[0].str()}."
        ) from problem
    missing = [topic for topic in topics if topic not in metadata.topics]
    if missing:
        raise GatewayError(
            f"There is no topic {' and no topic '.join(missing)}: start the coordinator first, it creates its topics."
        )
    return {topic: len(metadata.topics[topic].partitions) for topic in topics}
