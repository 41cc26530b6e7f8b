"""A real broker that is watched: what its groups do is seen, and nothing on it changes."""

from __future__ import annotations

import gzip
import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.evidence import ALL
from group_coordinator.watching.watch.polling import PollSource
from group_coordinator.watching.watch.source import WatchSource
from tests.command_line.calls import call
from tests.waiting import wait_until
from tests.watching.watch.live import committed, consumer, owned, with_topic


@contextmanager
def watched(kafka: EmbeddedKafka, state: Path | None = None) -> Iterator[tuple[WatchSource, Index]]:
    index = Index()
    source = WatchSource({"bootstrap.servers": kafka.bootstrap_servers}, bounds=ALL, state=state)
    source.start(index)
    try:
        yield source, index
    finally:
        source.stop()


def test_members_commits_and_transactions(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> None:
    topic = group_id = topic_prefix
    with_topic(kafka, admin, topic)
    with watched_group(kafka, group_id, topic) as (first, index, source):
        wait_until(lambda: source.progress()["caught_up"])
        wait_until(lambda: owned(index, group_id) == 2)
        wait_until(lambda: index.watched and index.watched[0].detail.startswith("1 broker, cluster id "))
        offsets, log, *_ = index.watched[0].sources
        assert offsets.to_ms is not None
        assert offsets.last_ms is not None
        assert (log.name, log.problem) == ("log of broker 1", "not read")
        first.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)
        wait_until(lambda: committed(index, group_id, topic, 0) == 3)
        producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "linger.ms": 0}
        )
        producer.init_transactions()
        for offset, ends in ((4, producer.abort_transaction), (5, producer.commit_transaction)):
            producer.begin_transaction()
            metadata = first.consumer_group_metadata()
            producer.send_offsets_to_transaction([TopicPartition(topic, 0, offset)], metadata)
            ends()
        wait_until(lambda: committed(index, group_id, topic, 0) == 5)
        types = [type(entry.record).__name__ for entry in index.feed() if entry.record.group_id == group_id]
        assert types.count("TransactionalOffsetsAborted") == 1
        assert types.count("TransactionalOffsetsPending") == 2


@contextmanager
def watched_group(kafka: EmbeddedKafka, group_id: str, topic: str) -> Iterator[tuple[Consumer, Index, WatchSource]]:
    member = consumer(kafka, group_id)
    member.subscribe([topic])
    try:
        wait_until(lambda: member.poll(0.2) is not None)
        with watched(kafka) as (source, index):
            yield member, index, source
    finally:
        member.close()


def test_nothing_on_the_cluster_changes(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> None:
    with_topic(kafka, admin, topic_prefix)
    member = consumer(kafka, topic_prefix)
    member.subscribe([topic_prefix])
    wait_until(lambda: member.poll(0.2) is not None)
    member.commit(asynchronous=False)
    before = state_of(admin)
    with watched(kafka) as (source, index):
        wait_until(lambda: source.progress()["caught_up"])
        wait_until(lambda: topic_prefix in index.group_ids())
        time.sleep(1)
    assert state_of(admin) == before
    member.close()


def test_polls_where_the_topic_is_not_read(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> None:
    with_topic(kafka, admin, topic_prefix)
    member = consumer(kafka, topic_prefix)
    member.subscribe([topic_prefix])
    wait_until(lambda: member.poll(0.2) is not None)
    member.commit(offsets=[TopicPartition(topic_prefix, 1, 4)], asynchronous=False)
    index = Index()
    source = PollSource({"bootstrap.servers": kafka.bootstrap_servers}, "it is refused", interval_s=0.2)
    source.start(index)
    try:
        wait_until(lambda: owned(index, topic_prefix) == 2)
        wait_until(lambda: committed(index, topic_prefix, topic_prefix, 1) == 4)
        assert "it is refused" in index.doubts[0]
        wait_until(lambda: index.watched)
        polled, refused, _ = index.watched[0].sources
        assert polled.name == "polls of groups"
        assert polled.to_ms is not None
        assert (refused.kind, refused.problem) == ("offsets_log", "not read")
        assert source.process_id is not None
        os.kill(source.process_id, signal.SIGABRT)  # as librdkafka does where coordinators are away
        member.close()
        wait_until(lambda: (facts := index.facts(topic_prefix)) is not None and facts.state == "Empty")
    finally:
        source.stop()


def test_a_restart_goes_on(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path) -> None:
    with_topic(kafka, admin, topic_prefix)
    member = consumer(kafka, topic_prefix)
    member.subscribe([topic_prefix])
    wait_until(lambda: member.poll(0.2) is not None)
    member.commit(offsets=[TopicPartition(topic_prefix, 1, 4)], asynchronous=False)
    with watched(kafka, tmp_path) as (_, index):
        wait_until(lambda: committed(index, topic_prefix, topic_prefix, 1) == 4)
    member.commit(offsets=[TopicPartition(topic_prefix, 1, 5)], asynchronous=False)
    with watched(kafka, tmp_path) as (source, index):
        wait_until(lambda: committed(index, topic_prefix, topic_prefix, 1) == 5)
        wait_until(lambda: source.progress()["caught_up"])
        resumed = [entry.record for entry in index.feed() if entry.record.group_id == topic_prefix]
    with watched(kafka) as (source, index):
        wait_until(lambda: source.progress()["caught_up"])
        wait_until(lambda: committed(index, topic_prefix, topic_prefix, 1) == 5)
        anew = [entry.record for entry in index.feed() if entry.record.group_id == topic_prefix]
    member.close()
    assert resumed == anew


def state_of(admin: AdminClient) -> tuple[object, ...]:
    """Return topics, groups and committed offsets."""
    groups = sorted(group.group_id for group in admin.list_consumer_groups().result().valid)
    offsets = {}
    for group_id in groups:
        (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)]).values()
        partitions = future.result().topic_partitions or []
        offsets[group_id] = sorted((partition.topic, partition.partition, partition.offset) for partition in partitions)
    return sorted(admin.list_topics(timeout=10).topics), groups, offsets


def test_an_export_is_what_a_replay_reads(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, tmp_path: Path
) -> None:
    with_topic(kafka, admin, topic_prefix)
    member = consumer(kafka, topic_prefix)
    member.subscribe([topic_prefix])
    wait_until(lambda: member.poll(0.2) is not None)
    member.commit(offsets=[TopicPartition(topic_prefix, 1, 4)], asynchronous=False)
    member.close()
    dump = tmp_path / "cluster.offsets.jsonl.gz"
    assert call("export", "offsets-topic", "--bootstrap-servers", kafka.bootstrap_servers, "--out", dump).exit_code == 0
    with gzip.open(dump) as file:
        places = [(line["partition"], line["offset"]) for line in map(json.loads, file)]
    assert places == sorted(places)
    assert [path.name for path in tmp_path.iterdir()] == [dump.name]
    assert call("replay", dump, "--out", tmp_path / "out").exit_code == 0
    assert topic_prefix in (tmp_path / "out" / "history.jsonl").read_text()
