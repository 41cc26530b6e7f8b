"""What the watcher publishes of topics on a real broker, for all who must know the same of them."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from group_coordinator.ground.kafka_topics.cluster_topics import ClusterTopics
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import decode_group_event
from schemas.group_metadata_events import DescribedTopic, TopicMetadata
from schemas.history import SnapshotSubscription
from streaming.events_tail import open_reader
from streaming.topic_knowledge import TopicListing
from streaming.topic_records import ShardWriter, TopicRecords
from tests.streaming.watched_cluster import TIMEOUT_S, Cluster
from tests.waiting import wait_until


@pytest.fixture
def cluster(kafka: EmbeddedKafka, topic_prefix: str) -> Cluster:
    return Cluster(kafka.bootstrap_servers, topic_prefix)


def table(cluster: Cluster, version: int | None = None) -> ClusterTopics:
    """What the records say; those up to a version, or all."""
    topics = ClusterTopics()
    records = cluster.read(cluster.topics.topics, 0)
    for offset, (key, value) in enumerate(records if version is None else records[: version + 1]):
        topics.take(key or b"", value, offset)
    return topics


def partitions(cluster: Cluster, name: str) -> int | None:
    topic = table(cluster).described(name)
    return None if topic is None else len(topic.partitions)


def test_a_topic_is_published_when_it_comes_grows_and_goes(cluster: Cluster, topic_prefix: str) -> None:
    name = f"{topic_prefix}-orders"
    with cluster.watched(handled=0):
        topic_id = cluster.make(name, 2)
        wait_until(lambda: partitions(cluster, name) == 2, TIMEOUT_S, "it is published")
        expected = DescribedTopic(name=name, topic_id=topic_id, partitions=(("",), ("",)))
        assert table(cluster).described(name) == expected, "a broker without a rack has an empty one"
        cluster.grow(name, 902)
        wait_until(lambda: partitions(cluster, name) == 902, TIMEOUT_S, "its new partitions are published")
        cluster.delete(name)
        wait_until(lambda: partitions(cluster, name) is None, TIMEOUT_S, "it is published that it is gone")
        assert topic_id in table(cluster).known, "whoever has offsets of it is yet to be told"


def test_what_is_known_is_not_published_again(cluster: Cluster, topic_prefix: str) -> None:
    name, marker = f"{topic_prefix}-orders", f"{topic_prefix}-marker"
    cluster.make(name)
    with cluster.watched():
        wait_until(lambda: partitions(cluster, name) == 1, TIMEOUT_S, "it is published")
    version = table(cluster).version
    with cluster.watched():
        cluster.make(marker)
        wait_until(lambda: partitions(cluster, marker) == 1, TIMEOUT_S, "the second watcher has looked")
    assert table(cluster).version == version + 1


def test_two_watchers_at_once_give_no_version_to_two_images(cluster: Cluster) -> None:
    """Whatever either believes to be version N is what the first N records say."""
    producer = Producer({**cluster.properties, "acks": "all"})
    writer = ShardWriter(producer, 0, lambda: True)
    watchers = [TopicRecords(cluster.topics.topics, 0) for _ in range(2)]
    ids = [f"00000000-0000-0000-0000-{number:012}" for number in range(6)]
    with open_reader(cluster.properties) as reader:
        reader.bounds_when_led(cluster.topics.topics, 0)
        for watcher in watchers:
            watcher.load(reader, "cluster")
        for step, watcher in enumerate([*watchers, watchers[0], *watchers[::-1], *watchers]):
            seen = {f"t{number}": topic_id for number, topic_id in enumerate(ids[: step + 1])}
            racks = dict.fromkeys(seen, (("r",),) * (step + 1))
            alive = {topic_id: name for name, topic_id in seen.items()}
            watcher.learn(TopicListing(topics=seen, racks=racks), {}, alive)
            watcher.save(writer, reader)
            for each in watchers:
                assert content(each.table) == content(table(cluster, each.table.version))
    assert len(list(watchers[1].table.names)) == 6


def test_versions_go_on_from_what_groups_were_told(cluster: Cluster, topic_prefix: str) -> None:
    """The topics topic was lost. Groups would believe nothing of what begins at version 0 again."""
    name = f"{topic_prefix}-orders"
    cluster.make(name, 3)
    subscription = SnapshotSubscription(
        topics=(name,), regexes={}, resolving_since_ms=None, metadata_hash=17, topics_version=90_000
    )
    cluster.publish("g", subscription)
    with cluster.watched():
        told = wait_until(lambda: list(cluster.read(cluster.topics.events, 0)), TIMEOUT_S, "the group is told")
        published = table(cluster)
    assert published.version > 90_000
    (key, value), *others = told
    assert (key, others) == (b"g", [])
    topic = published.described(name)
    assert topic is not None
    assert decode_group_event("g", value) == TopicMetadata(version=published.version, topics=(topic,))


def content(topics: ClusterTopics) -> dict[str, DescribedTopic | None]:
    return {name: topics.described(name) for name in topics.names}
