"""A broker with a coordinator's topics and none of its other parts, for tests of what watches topics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from msgspec import UNSET, UnsetType

from group_coordinator.ground.kafka_topics.described import topic_id_of
from schemas.events import DeletedTopic, TopicsDeleted, decode_group_event, encode_json
from schemas.group_metadata_events import GroupConfiguration
from schemas.history import GroupSnapshot, SnapshotSubscription
from schemas.java_hash import group_partition
from schemas.known_topics import KnownTopic, decode_known_topic
from schemas.query_progress import SeenTopic, TopicsSeen, encode_progress, key_of
from schemas.records import OffsetCommitKey, OffsetCommitValue
from streaming.published_subscriptions import PublishedSubscriptions
from streaming.topic_watcher import TopicWatcher
from streaming.topics import TopicSettings, ensure_topics
from tests.encoded_records import encode_key, encode_offset_commit_value
from tests.waiting import wait_until

OFFSETS_PARTITIONS = 4
TIMEOUT_S = 60.0
EVERYTHING = 2**62
GARBAGE = b"garbage"


class Cluster:
    """A broker with a coordinator's topics and none of its other parts."""

    def __init__(self, bootstrap_servers: str, prefix: str, shards: int = 1) -> None:
        self.properties = {"bootstrap.servers": bootstrap_servers, "log_level": "0"}
        self.admin = AdminClient({**self.properties})
        settings = TopicSettings(
            topic_prefix=prefix, shards=shards, responses_partitions=1, offsets_partitions=OFFSETS_PARTITIONS
        )
        self.topics = ensure_topics(self.admin, settings).topics
        self.shards = shards
        self._producer = Producer(self.properties)

    @contextmanager
    def watched(self, shard: int = 0, handled: int = EVERYTHING, **settings: Any) -> Iterator[TopicWatcher]:
        subscriptions = PublishedSubscriptions(
            self.topics.assignments, 1, self.shards, [shard], self.properties, self.topics.progress
        )
        watcher = TopicWatcher(
            self.topics, shard, self.shards, OFFSETS_PARTITIONS, self.properties, subscriptions,
            **{"interval_ms": 100, "settle_s": 0.3, **settings},
        )  # fmt: skip
        watcher.handled(handled)
        watcher.start()
        try:
            yield watcher
        finally:
            watcher.stop()
            watcher.require_alive()

    def make(self, name: str, partitions: int = 1) -> str:
        """A topic, and its id."""
        self.admin.create_topics([NewTopic(name, partitions)])[name].result()

        def topic_id() -> str | None:
            try:
                topic = self.admin.describe_topics(TopicCollection([name]))[name].result()
            except Exception:
                return None
            return topic_id_of(topic)

        return str(wait_until(topic_id, TIMEOUT_S, f"{name} is there"))

    def grow(self, name: str, partitions: int) -> None:
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result()

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result()
        wait_until(lambda: name not in self.admin.list_topics().topics, TIMEOUT_S, f"{name} is gone")

    def commit(self, group_id: str, topic: str, topic_id: str | None, partition: int = 0) -> None:
        """As the coordinator's sink writes it."""
        value = OffsetCommitValue(offset=50, commit_timestamp_ms=1, topic_id=topic_id)
        key = encode_key(OffsetCommitKey(group_id, topic, partition))
        self.put(group_id, key, encode_offset_commit_value(value, 4))

    def publish(
        self, group_id: str, subscription: SnapshotSubscription, own: GroupConfiguration | UnsetType = UNSET
    ) -> None:
        """A consumer group, as the coordinator's sink writes it."""
        snapshot = GroupSnapshot(
            group_id=group_id, epoch=0, seq=1, time_ms=0, state="Stable", state_since_ms=0, generation_id=1,
            protocol_type="consumer", protocol_name=None, leader_id=None, members=(), subscription=subscription,
            configuration=own,
        )  # fmt: skip
        self._producer.produce(self.topics.assignments, key=group_id, value=encode_json(snapshot), partition=0)
        self._producer.flush()

    def publish_pending(self, group_id: str, *topics: str) -> None:
        """A group with offsets in open transactions, as the coordinator's sink writes it."""
        snapshot = GroupSnapshot(
            group_id=group_id, epoch=0, seq=1, time_ms=0, state="Stable", state_since_ms=0, generation_id=1,
            protocol_type="consumer", protocol_name=None, leader_id=None, members=(), pending_topics=topics,
        )  # fmt: skip
        self._producer.produce(self.topics.assignments, key=group_id, value=encode_json(snapshot), partition=0)
        self._producer.flush()

    def say_seen(self, *topics: SeenTopic, cluster_id: str | None = None, shard: int = 0) -> None:
        """As a gateway writes it, whose brokers are those of the cluster, or of another one."""
        record = TopicsSeen(cluster_id=cluster_id or str(self.admin.list_topics().cluster_id), topics=topics)
        self._producer.produce(
            self.topics.progress, key=key_of(TopicsSeen), value=encode_progress(record), partition=shard
        )
        self._producer.flush()

    def put(self, group_id: str, key: bytes, value: bytes | None) -> None:
        place = group_partition(group_id, OFFSETS_PARTITIONS)
        self._producer.produce(self.topics.offsets, key=key, value=value, partition=place)
        self._producer.flush()

    def told(self, shard: int = 0) -> list[tuple[str, tuple[DeletedTopic, ...]]]:
        """The events, in order: group and topics."""
        events = []
        for key, value in self.read(self.topics.events, shard):
            event = decode_group_event((key or b"").decode(), value)
            assert isinstance(event, TopicsDeleted)
            events.append(((key or b"").decode(), event.topics))
        return events

    def kept(self, shard: int = 0) -> dict[str, KnownTopic]:
        """What the topics topic says."""
        topics: dict[str, KnownTopic] = {}
        for key, value in self.read(self.topics.topics, shard):
            topics.pop((key or b"").decode(), None)
            if value not in (None, GARBAGE):
                topics[(key or b"").decode()] = decode_known_topic(value or b"")
        return topics

    def read(self, topic: str, partition: int) -> list[tuple[bytes | None, bytes | None]]:
        reader = Consumer({**self.properties, "group.id": "test"})
        try:
            _, high = reader.get_watermark_offsets(TopicPartition(topic, partition), timeout=TIMEOUT_S)
            reader.assign([TopicPartition(topic, partition, 0)])
            messages = [reader.poll(TIMEOUT_S) for _ in range(high)]
        finally:
            reader.close()
        return [(message.key(), message.value()) for message in messages if message is not None]
