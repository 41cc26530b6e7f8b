"""Asks the brokers which topics there are, for `streaming.topic_watcher`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import cast

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from group_coordinator.ground.kafka_topics.cluster_topics import Racks, racks_of
from group_coordinator.ground.kafka_topics.described import look_at, topic_id_of
from streaming.topic_knowledge import TopicListing

LOOK_TIMEOUT_S = 5.0
NAMES_PER_REQUEST = 100
"""Between two requests of a look its caller may do what cannot wait."""
_NO_ANSWER = (
    KafkaError._TIMED_OUT, KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError.REQUEST_TIMED_OUT,
    KafkaError._RESOLVE,
    KafkaError._AUTHENTICATION,
)  # fmt: skip
_log = logging.getLogger(__name__)


class TopicListings:
    """One thread asks."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin
        self._invisible: frozenset[str] = frozenset()
        self.partitions = 0
        """How many the last look at all topics has shown."""

    def names(self) -> tuple[str, frozenset[str]]:
        """Return the cluster and the topics in it that may be seen. Raises KafkaException."""
        metadata = self._admin.list_topics(timeout=LOOK_TIMEOUT_S)
        cluster_id = cast(str | None, metadata.cluster_id)
        if cluster_id is None:  # without it nobody could tell whether what is known is of this cluster
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
        return cluster_id, frozenset(metadata.topics)

    def look(
        self, names: frozenset[str], *, at_all: bool = True, between: Callable[[], None] = lambda: None
    ) -> TopicListing:
        """Ask for topics by their names; `at_all`: these are all there are. `between` is called between two requests.
        Raises KafkaException where there is no answer at all."""
        topics: dict[str, str] = {}
        racks: dict[str, Racks] = {}
        absent: set[str] = set()
        hidden: set[str] = set()
        looked_at = 0
        in_order = sorted(names)
        for start in range(0, len(in_order), NAMES_PER_REQUEST):
            if start:
                between()
            look = look_at(self._admin, in_order[start : start + NAMES_PER_REQUEST], LOOK_TIMEOUT_S)
            for name, problem in look.problems.items():
                code = problem.args[0].code() if isinstance(problem, KafkaException) else KafkaError._TIMED_OUT
                if code in _NO_ANSWER:
                    raise KafkaException(KafkaError(code)) from problem
                hidden |= {name} if code == KafkaError.TOPIC_AUTHORIZATION_FAILED else set()
            absent.update(look.absent)
            for name, description in look.topics.items():
                looked_at += len(description.partitions)
                if (topic_id := topic_id_of(description)) is not None:
                    topics[name], racks[name] = topic_id, racks_of(description)
        if hidden - self._invisible:
            _log.warning(
                "Topic %s may not be described any more (%d such topics): whether they are deleted cannot be seen. "
                "Allow Describe on them.", min(hidden - self._invisible), len(hidden),
            )  # fmt: skip
        if at_all:
            self._invisible, self.partitions = frozenset(hidden), looked_at
        return TopicListing(topics=topics, racks=racks, absent=frozenset(absent))
