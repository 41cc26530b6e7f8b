"""What members of the consumer protocol know of topics, and bring along when they join."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from msgspec import UNSET

from group_coordinator.coordinating.members.published_topics import PublishedTopics
from group_coordinator.local_group import topic_id
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.events import encode_json
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.java_hash import group_partition
from schemas.known_topics import KnownTopic
from schemas.messages import HeartbeatRequest
from schemas.query_progress import SeenTopic, TopicsSeen, decode_progress

SHARDS = 4
ORDERS, BILLS = topic_id("orders"), topic_id("bills")


def heartbeat(*names: str) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=names or None
    )


def published(*names: str, shard: int = group_partition("g", SHARDS)) -> PublishedTopics:
    topics = PublishedTopics({}, "coordinator.topics", SHARDS)
    for offset, name in enumerate(names):
        known = KnownTopic(name=name, topic_id=topic_id(name), partitions=(("r1",), ("r2",)))
        topics.take(shard, known.topic_id.encode(), encode_json(known), offset)
    return topics


def test_a_heartbeat_brings_along_what_the_topics_are_that_it_names(caplog: pytest.LogCaptureFixture) -> None:
    topics = published("orders", "bills")
    described = DescribedTopic(name="orders", topic_id=ORDERS, partitions=(("r1",), ("r2",)))
    expected = TopicMetadata(version=1, topics=(described,), absent=("nowhere",))
    for _ in range(2):
        assert topics.metadata_for(heartbeat("orders", "nowhere")) == expected
    assert [record.message for record in caplog.records] == [
        "there is no topic nowhere (yet): members that want it get no partitions of it"
    ]


def test_other_requests_bring_nothing_along() -> None:
    topics = published("orders")
    assert topics.metadata_for(heartbeat()) is UNSET
    assert topics.metadata_for(HeartbeatRequest(group_id="g", generation_id=1, member_id="m")) is UNSET


def test_before_anybody_has_watched_topics_it_is_not_said_that_there_are_none() -> None:
    assert published().metadata_for(heartbeat("orders")) is UNSET
    other_shard = (group_partition("g", SHARDS) + 1) % SHARDS
    assert published("orders", shard=other_shard).metadata_for(heartbeat("orders")) is UNSET


def test_ids_have_names_where_they_are_known() -> None:
    assert published("orders").names("g", (ORDERS, BILLS)) == {ORDERS: "orders"}


class Brokers:
    """They have some topics, and a watcher publishes those of which it is told."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.asked: list[list[str]] = []
        self.told: list[TopicsSeen] = []
        self.watches = True
        self.published = PublishedTopics({}, "coordinator.topics", SHARDS, self.say)

    def partition_counts(self, topics: Iterable[str], on_found: Callable[[dict[str, int]], None]) -> None:
        self.asked.append(list(topics))
        on_found({name: 2 if name in self.names else 0 for name in self.asked[-1]})

    def say(self, shard: int, key: bytes, value: bytes) -> None:
        seen = decode_progress(value)
        assert isinstance(seen, TopicsSeen)
        self.told.append(seen)
        if self.watches:
            for number, topic in enumerate(seen.topics):
                known = KnownTopic(name=topic.name, topic_id=topic_id(topic.name), partitions=(("r1",), ("r2",)))
                self.published.take(shard, known.topic_id.encode(), encode_json(known), number)


def test_before_a_member_joins_the_watcher_is_told_of_topics_that_are_new() -> None:
    brokers = Brokers("orders", "bills")
    brokers.published.expect("g", ["orders", "nowhere"], brokers)
    assert brokers.told == [TopicsSeen(cluster_id=None, topics=(SeenTopic("orders"),))]
    metadata = brokers.published.metadata_for(heartbeat("orders"))
    assert isinstance(metadata, TopicMetadata)
    assert [topic.name for topic in metadata.topics] == ["orders"]
    brokers.published.expect("g", ["orders"], brokers)
    assert brokers.asked == [["orders", "nowhere"]], "what is known is not asked for"
    brokers.watches = False
    brokers.published.expect("g", ["bills"], brokers)
    assert brokers.published.metadata_for(heartbeat("bills")) == TopicMetadata(version=0, topics=(), absent=("bills",))
