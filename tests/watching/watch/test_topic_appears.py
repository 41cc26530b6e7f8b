"""A cluster in which no group has ever been is polled, and then read: its first group makes the offsets topic."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.watch.clusters import ClusterSource
from group_coordinator.watching.watch.polling import PollSource
from group_coordinator.watching.watch.source import WatchSource
from tests.waiting import wait_until
from tests.watching.watch.live import committed, consumer, owned, with_topic

GROUP = TOPIC = "orders"


def offsets_topic_problem(index: Index) -> str:
    (watched,) = index.watched
    (problem,) = [source.problem for source in watched.sources if source.kind == "offsets_log"]
    return problem


@pytest.mark.kafka
def test_the_topic_is_read_once_it_is_there() -> None:
    with EmbeddedKafka() as kafka:
        properties = {"bootstrap.servers": kafka.bootstrap_servers}
        with_topic(kafka, AdminClient({**properties}), TOPIC)
        index = Index()
        source = ClusterSource(
            lambda: WatchSource(properties), lambda why: PollSource(properties, why, interval_s=0.2), look_s=0.2
        )
        source.start(index)
        try:
            wait_until(lambda: source.is_whole)
            assert "shows no topic" in index.doubts[0]
            changes = source.changes
            member = consumer(kafka, GROUP)
            member.subscribe([TOPIC])
            wait_until(lambda: member.poll(0.2) is not None)
            member.commit(offsets=[TopicPartition(TOPIC, 1, 4)], asynchronous=False)
            wait_until(lambda: offsets_topic_problem(index) == "")
            wait_until(lambda: committed(index, GROUP, TOPIC, 1) == 4)
            wait_until(lambda: owned(index, GROUP) == 2)
            wait_until(lambda: source.is_whole)
            wait_until(lambda: index.doubts == ())
            assert source.changes > changes
            assert [history.records[0].group_id for history in source.histories()] == [GROUP]
            member.close()
            wait_until(lambda: (facts := index.facts(GROUP)) is not None and facts.state == "Empty")
        finally:
            source.stop()
