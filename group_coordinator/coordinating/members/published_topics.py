"""The cluster's topics as the coordinator has published them, for members of the consumer protocol.

Their assignments name topics by ids, whose names are here. And their group knows of topics what its log tells: so a
heartbeat that names topics brings along what they are, as it does behind a gateway, and a group's first member need
not wait for the coordinator's watcher. Before a member joins, the watcher is told of topics that the brokers have and
that are not here yet, and is waited for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Protocol

from confluent_kafka import KafkaException, Message
from msgspec import UNSET, UnsetType

from group_coordinator.ground.kafka_topics.cluster_topics import ShardedTopics
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.ground.kafka_topics.reader import offset_of, partition_of
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.group_metadata_events import TopicMetadata
from schemas.messages import Request
from schemas.query_progress import SeenTopic, TopicsSeen, encode_progress, key_of

BROKERS_WITHIN_S = 3.0
PUBLISHED_WITHIN_S = 1.0
"""So long brokers and the watcher are waited for before a member joins."""
_log = logging.getLogger(__name__)


class Counts(Protocol):
    """Brokers, asked for the numbers of partitions (`group_coordinator.coordinating.members.cluster`)."""

    def partition_counts(self, topics: Iterable[str], on_found: Callable[[dict[str, int]], None]) -> None: ...


class PublishedTopics:
    """Follows the topics topic between the first `start` and `stop`. Its methods may be called in any thread."""

    def __init__(
        self,
        client_properties: Mapping[str, str],
        topic: str,
        shards: int,
        say: Callable[[int, bytes, bytes], None] = lambda shard, key, value: None,
    ) -> None:
        """`say`: write a record with this key and value to a shard's partition of the progress topic."""
        self._client_properties = client_properties
        self._topic = topic
        self._say = say
        self._lock = threading.Condition()
        self._shards = shards
        self._topics = ShardedTopics(shards)
        self._missing: set[str] = set()
        """Topics that members name and that do not exist, which is told once."""
        self._is_read = threading.Event()
        self._starting = threading.Lock()
        self._follower: TopicFollower | None = None

    def start(self, timeout_s: float) -> None:
        """Begin, if nobody has, and read what is there, for so long at the most. Raises TopicReadError."""
        with self._starting:
            if self._follower is None:
                follower = TopicFollower(self._client_properties, "member", self._take, on_caught_up=self._is_read.set)
                follower.start(from_beginning=[(self._topic, shard) for shard in range(self._shards)])
                self._follower = follower
        self._is_read.wait(timeout_s)

    def stop(self) -> None:
        if self._follower is not None:
            self._follower.stop()

    def take(self, shard: int, key: bytes, value: bytes | None, offset: int) -> None:
        """Take in a record of the topics topic, those of each partition in their order."""
        with self._lock:
            self._topics.take(shard, key, value, offset)
            self._lock.notify_all()

    def expect(self, group_id: str, names: Collection[str], cluster: Counts) -> None:
        """Wait a moment, before a member joins, for the topics that brokers have and that are not here yet."""
        names = [name for name in names if not self._is_here(group_id, name)]
        if not names:
            return
        counts: dict[str, int] = {}
        are_found = threading.Event()

        def take(found: dict[str, int]) -> None:
            counts.update(found)
            are_found.set()

        cluster.partition_counts(names, take)
        are_found.wait(BROKERS_WITHIN_S)
        there = [name for name, count in list(counts.items()) if count]
        if there:
            seen = TopicsSeen(cluster_id=None, topics=tuple(map(SeenTopic, there)))
            with suppress(BufferError, KafkaException):  # the watcher sees them some seconds later
                self._say(self._topics.shard_of(group_id), key_of(TopicsSeen), encode_progress(seen))
            with self._lock:
                self._lock.wait_for(lambda: all(self._is_here(group_id, name) for name in there), PUBLISHED_WITHIN_S)

    def _is_here(self, group_id: str, name: str) -> bool:
        with self._lock:
            return self._topics.of(group_id).described(name) is not None

    def names(self, group_id: str, topic_ids: Iterable[str]) -> dict[str, str]:
        """Return the names of topics by their ids, of those that are known."""
        with self._lock:
            known = self._topics.of(group_id).known
            return {topic_id: known[topic_id].name for topic_id in topic_ids if topic_id in known}

    def metadata_for(self, request: Request) -> TopicMetadata | UnsetType:
        """Return what a request brings along: what is known of the topics that it names; UNSET if it names none."""
        if not isinstance(request, ConsumerGroupHeartbeatRequest) or not request.subscribed_topic_names:
            return UNSET
        with self._lock:
            metadata = self._topics.attached(request.group_id, request.subscribed_topic_names)
            if metadata is not UNSET:
                self._warn_of(metadata)
            return metadata

    def _warn_of(self, metadata: TopicMetadata) -> None:
        for topic in metadata.absent:
            if topic not in self._missing:
                _log.warning("there is no topic %s (yet): members that want it get no partitions of it", topic)
        self._missing.difference_update(topic.name for topic in metadata.topics)
        self._missing.update(metadata.absent)

    def _take(self, messages: list[Message]) -> None:
        for message in messages:
            _, shard = partition_of(message)
            self.take(shard, message.key() or b"", message.value(), offset_of(message))
