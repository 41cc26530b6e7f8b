"""Members ask the cluster how many partitions topics have, and where the logs of partitions begin and end.

Nothing here waits: answers are given to a callback, in a thread of the Kafka client or in the caller's.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka import TopicPartition as KafkaTopicPartition
from confluent_kafka.admin import OffsetSpec

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import described
from schemas.consumer_protocol import TopicPartition

K = TypeVar("K", bound=Hashable)
_TIMEOUT_S = 10.0


class Cluster:
    """Questions about topics and partitions."""

    def __init__(self, client_properties: Mapping[str, Any]) -> None:
        self._admin = new_admin_client(client_properties)

    def partition_counts(self, topics: Iterable[str], on_found: Callable[[dict[str, int]], None]) -> None:
        """Return the number of partitions of each topic; 0 if it does not exist. A topic that could not be looked up is
        left out."""
        names = TopicCollection(list(topics))

        def sort_out(futures: Mapping[str, Future[Any]]) -> None:
            on_found(
                {topic: count for topic, future in futures.items() if (count := _partition_count(future)) is not None}
            )

        _when_all_done(self._admin.describe_topics(names, request_timeout=_TIMEOUT_S), sort_out)

    def log_bounds(
        self,
        partitions: Iterable[TopicPartition],
        on_found: Callable[[dict[TopicPartition, tuple[int, int]]], None],
    ) -> None:
        """Return the first offset and the end of each partition's log. A partition that could not be looked up is left
        out."""
        all_partitions = list(partitions)
        futures: dict[tuple[str, TopicPartition], Future[Any]] = {}
        bounds: tuple[tuple[str, Any], ...] = (
            ("begin", OffsetSpec.earliest()),  # type: ignore[no-untyped-call]
            ("end", OffsetSpec.latest()),  # type: ignore[no-untyped-call]
        )
        for name, spec in bounds:
            question = {KafkaTopicPartition(partition.topic, partition.partition): spec for partition in all_partitions}
            for key, future in self._admin.list_offsets(question, request_timeout=_TIMEOUT_S).items():
                futures[name, TopicPartition(key.topic, key.partition)] = future

        def sort_out(done: Mapping[tuple[str, TopicPartition], Future[Any]]) -> None:
            on_found(
                {
                    partition: (done["begin", partition].result().offset, done["end", partition].result().offset)
                    for partition in all_partitions
                    if done["begin", partition].exception() is None and done["end", partition].exception() is None
                }
            )

        _when_all_done(futures, sort_out)


def _partition_count(future: Future[Any]) -> int | None:
    try:
        topic = described(future)
    except KafkaException:
        return None
    return 0 if topic is None else len(topic.partitions)


def _when_all_done(futures: Mapping[K, Future[Any]], on_done: Callable[[Mapping[K, Future[Any]]], None]) -> None:
    """Call once when the last of these futures is done, whichever way."""
    lock = threading.Lock()
    unfinished = len(futures)

    def one_done(_: Future[Any]) -> None:
        nonlocal unfinished
        with lock:
            unfinished -= 1
            last = unfinished == 0
        if last:
            on_done(futures)

    for future in futures.values():
        future.add_done_callback(one_done)


_MISSING_TOPICS_INTERVAL_MS = 1_000
_log = logging.getLogger(__name__)


class TopicWatch:
    """Looks topics up when asked, at an interval, and soon again those that are not there: they may just be in the
    making.

    `interest`: the topics that matter now. `on_counts` gets the partition counts. `call_later`: after so many
    milliseconds. The lock is the one under which all three are used.
    """

    def __init__(
        self,
        cluster: Cluster,
        lock: threading.Condition,
        interest: Callable[[], set[str]],
        on_counts: Callable[[dict[str, int]], None],
        call_later: Callable[[int, Callable[[], None]], None],
    ) -> None:
        self._cluster = cluster
        self._lock = lock
        self._interest = interest
        self._on_counts = on_counts
        self._call_later = call_later
        self._interval_ms: int | None = None
        self._plan = 0
        self._missing: set[str] = set()
        self._asks_again = False

    def at_least_every(self, interval_ms: int) -> None:
        """Refresh the topics of interest at this interval, unless it is a shorter one already."""
        if self._interval_ms is None or interval_ms < self._interval_ms:
            self._interval_ms = interval_ms
            self._plan += 1
            self._plan_refresh(self._plan, interval_ms)

    def look_up(self, topics: Iterable[str]) -> None:
        names = sorted(topics)
        if names:
            self._cluster.partition_counts(names, lambda counts: self._take_counts(names, counts))

    def _plan_refresh(self, plan: int, interval_ms: int) -> None:
        def refresh() -> None:
            if plan == self._plan:
                self.look_up(self._interest())
                self._plan_refresh(plan, interval_ms)

        self._call_later(interval_ms, refresh)

    def _take_counts(self, names: list[str], counts: dict[str, int]) -> None:
        with self._lock:
            for topic in (name for name in names if counts.get(name) == 0 and name not in self._missing):
                _log.warning("there is no topic %s (yet): members that want it get no partitions of it", topic)
            self._missing.difference_update(names)
            self._missing.update(topic for topic in names if not counts.get(topic))
            if self._missing and not self._asks_again:
                self._asks_again = True
                self._call_later(_MISSING_TOPICS_INTERVAL_MS, self._look_up_missing)
            self._on_counts(counts)

    def _look_up_missing(self) -> None:
        self._asks_again = False
        self._missing &= self._interest()
        self.look_up(self._missing)
