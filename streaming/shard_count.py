"""Watches whether the events topic keeps its number of partitions: were some added, the app must stop, and say why."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from group_coordinator.kafka_topics.described import partitions_now
from schemas.shards import partitions_were_added
from streaming.topics import TopicError, admin_client

_INTERVAL_S = 3.0


class ShardCount:
    """A thread that looks now and then for more partitions of the events topic, between `start` and `stop`. A look
    that fails is repeated with the next one."""

    def __init__(
        self, bootstrap_servers: str, client_properties: Mapping[str, str], events_topic: str, count: int
    ) -> None:
        self._admin = admin_client(bootstrap_servers, client_properties)
        self._topic, self._count = events_topic, count
        self._found = count
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="shard-count", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def insist(self) -> None:
        """Raise TopicError where partitions were added."""
        if self._found != self._count:
            raise TopicError([partitions_were_added(self._topic, self._count, self._found)])

    def _run(self) -> None:
        while self._found == self._count and not self._stopping.wait(_INTERVAL_S):
            self._found = partitions_now(self._admin, self._topic) or self._found
