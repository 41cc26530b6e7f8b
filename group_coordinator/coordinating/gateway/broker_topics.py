"""Asks the brokers which topics they have, for `group_coordinator.coordinating.gateway.topic_cache`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial

from confluent_kafka import KafkaException, TopicCollection
from confluent_kafka.admin import DescribeClusterResult, TopicDescription

from group_coordinator.coordinating.gateway.topic_cache import ABSENT, Answers, Topic, Verdict
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.described import described, topic_id_of

_TIMEOUT_S = 3.0
"""A commit waits no longer than this for brokers that do not answer."""
_log = logging.getLogger(__name__)


class BrokerTopics:
    """One question at a time; the answer comes in the event loop's thread."""

    def __init__(self, properties: dict[str, str], loop: asyncio.AbstractEventLoop) -> None:
        self._admin = new_admin_client(properties, {"log_level": 3})
        self._loop = loop
        self.cluster_id: str | None = None
        """That of the brokers; None: not known yet."""

    def ask(self, names: list[str], on_answers: Callable[[Answers], None]) -> None:
        """Ask for topics.

        None is made by asking. `on_answers` is called once, later; without a name for which there is no answer.
        """
        try:
            futures = self._admin.describe_topics(TopicCollection(names), request_timeout=_TIMEOUT_S)
        except (KafkaException, ValueError) as problem:
            _log.warning("the brokers cannot be asked for topics: %s", problem)
            self._loop.call_soon(on_answers, {})
            return
        if self.cluster_id is None:
            self._admin.describe_cluster(request_timeout=_TIMEOUT_S).add_done_callback(self._take_cluster)
        unanswered = len(futures)
        answers: dict[str, Verdict] = {}

        def take(name: str, future: Future[TopicDescription]) -> None:
            """Runs in the admin client's thread, one call after the other."""
            nonlocal unanswered
            verdict = _verdict(future)
            if verdict is not None:
                answers[name] = verdict
            unanswered -= 1
            if not unanswered and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(on_answers, answers)

        for name, future in futures.items():
            future.add_done_callback(partial(take, name))

    def _take_cluster(self, future: Future[DescribeClusterResult]) -> None:
        try:
            self.cluster_id = future.result().cluster_id
        except KafkaException as problem:
            _log.debug("the cluster's id is not known: %s", problem)


def _verdict(future: Future[TopicDescription]) -> Verdict | None:
    try:
        topic = described(future)
    except KafkaException:
        return None
    return ABSENT if topic is None else Topic(topic_id_of(topic), len(topic.partitions))
