"""Watches whether the topics of the coordinator stay what they are: were partitions added to the events topic, or a
topic deleted, the app must stop, and say why."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from confluent_kafka import KafkaException

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import partitions_now, topic_ids_of
from schemas.shards import partitions_were_added
from streaming.log_identity import log_is_gone
from streaming.topics import TopicError, TopicReport

_INTERVAL_S = 3.0
_DENIALS = 2
"""So often in a row a topic is denied or has another id before it counts as deleted: a broker that has just started may
not know all topics yet."""
_log = logging.getLogger(__name__)


class TopicsKept:
    """A thread that looks now and then at the topics, between `start` and `stop`. A look that fails is repeated with
    the next one."""

    def __init__(self, client_properties: Mapping[str, str], report: TopicReport) -> None:
        self._admin = new_admin_client(client_properties)
        self._events = report.topics.events
        self._topics: Sequence[str] = report.topics.outputs
        self._count = self._found = report.partitions[self._events]
        self._ids: dict[str, str | None] = {}
        self._denied: dict[str, int] = {}
        self._looking = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="topics-kept", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when the thread has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def deleted(self) -> str | None:
        """The topic that is gone, the log first; None while all are there."""
        gone = [topic for topic, times in self._denied.items() if times >= _DENIALS]
        return self._events if self._events in gone else next(iter(gone), None)

    def insist(self) -> None:
        """Raise TopicError where partitions were added, or a topic is gone."""
        if self._found != self._count:
            raise TopicError([partitions_were_added(self._events, self._count, self._found)])
        if self.deleted is not None:
            raise TopicError([log_is_gone(self.deleted, self._events)])

    def insist_after_failure(self) -> None:
        """Look at once, since something has failed, and raise TopicError if it is because of the topics."""
        for _ in range(_DENIALS):
            if not self._look():
                break
        self.insist()

    def _run(self) -> None:
        while not self._stopping.wait(_INTERVAL_S):
            self._look()

    def _look(self) -> bool:
        """Return whether Kafka answers."""
        with self._looking:
            try:
                ids = topic_ids_of(self._admin, (self._events, *self._topics))
            except (KafkaException, TimeoutError) as problem:
                _log.debug("the topics cannot be described: %s", problem)
                return False
            for topic in (self._events, *self._topics):
                if topic in ids and ids[topic] == self._ids.setdefault(topic, ids[topic]):
                    self._denied.pop(topic, None)
                else:
                    self._denied[topic] = self._denied.get(topic, 0) + 1
            self._found = partitions_now(self._admin, self._events) or self._found
            return True
