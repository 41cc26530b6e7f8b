"""A real broker: lag beside the admin client's, and planted faults that are found with the right names."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.ground.monitoring.metrics import GROUP_FOUND
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.end_poller import EndPoller
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.settings import DashboardSettings, HealthSettings
from group_coordinator.watching.watch.lag_metrics import LagSeries, lag_values
from group_coordinator.watching.watch.source import WatchSource
from tests.making_topics import make_topic
from tests.waiting import wait_until
from tests.watching.watch.live import consumer

pytestmark = pytest.mark.kafka

FLOOR_MS = 4_000


@contextmanager
def watched(kafka: EmbeddedKafka) -> Iterator[Index]:
    """An index of the broker whose logs' ends are polled often."""
    properties = {"bootstrap.servers": kafka.bootstrap_servers}
    index = Index(DashboardSettings(health=HealthSettings(stalled_after_ms=FLOOR_MS, settling_ms=FLOOR_MS)))
    source = WatchSource(properties)
    source.start(index)
    poller = EndPoller(properties, index, source.progress, 0.5)
    poller.start()
    try:
        wait_until(lambda: source.progress()["caught_up"])
        yield index
    finally:
        poller.stop()
        source.stop()


def row(index: Index, group_id: str) -> Group:
    found = index.row(group_id, time.time_ns() // 1_000_000)
    assert found is not None
    return found


def shown(index: Index, group_id: str) -> dict[Partition, tuple[int | None, int, int | None]]:
    """Return lag, lost messages, and what an uncommitted partition may have, as the page shows them."""
    page = Documents(index, lambda: time.time_ns() // 1_000_000).group(group_id)
    return {(each.topic, each.partition): (each.lag, each.lost, each.uncommitted_messages) for each in page["offsets"]}


def true_lag(admin: AdminClient, group_id: str) -> dict[Partition, int]:
    """Return what kafka-consumer-groups prints: the end of the log minus the committed offset."""
    (future,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group_id)]).values()
    committed = {(each.topic, each.partition): each.offset for each in future.result().topic_partitions or ()}
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = admin.list_offsets(
        {TopicPartition(*place): latest for place in committed}, isolation_level=IsolationLevel.READ_UNCOMMITTED
    )
    return {
        (place.topic, place.partition): future.result().offset - committed[place.topic, place.partition]
        for place, future in ends.items()
    }


def produce(kafka: EmbeddedKafka, topic: str, messages: int, partition: int, **properties: str) -> Producer:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, **properties})
    if properties:
        producer.init_transactions()
        producer.begin_transaction()
    for number in range(messages):
        producer.produce(topic, b"x" * 100, key=str(number % 7), partition=partition)
    producer.flush()
    return producer


def make_filled(kafka: EmbeddedKafka, admin: AdminClient, topic: str) -> None:
    make_topic(admin, topic, 4)
    for partition in range(4):
        produce(kafka, topic, 50, partition)


def has_polled(member: Consumer) -> bool:
    return member.poll(0.1) is not None


def they_poll(members: dict[str, Consumer], topics: dict[str, str]) -> None:
    for name, member in members.items():
        member.subscribe([topics[name]])
    for member in members.values():
        wait_until(partial(has_polled, member))


def delete_up_to(admin: AdminClient, topic: str, partition: int, offset: int) -> None:
    for future in admin.delete_records([TopicPartition(topic, partition, offset)]).values():
        future.result()


def test_lag_is_the_admin_clients_with_deleted_records_transactions_and_compaction(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    topic, group_id = topic_prefix, f"{topic_prefix}-group"
    config = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
    admin.create_topics([NewTopic(f"{topic}-compacted", 1, 1, config=config)])[f"{topic}-compacted"].result()
    make_topic(admin, topic, 4)
    for number in range(4):
        produce(kafka, topic, 100, number)
    produce(kafka, f"{topic}-compacted", 400, 0)
    produce(kafka, topic, 5, 2, **{"transactional.id": f"{topic}-1"}).commit_transaction()
    produce(kafka, topic, 5, 2, **{"transactional.id": f"{topic}-2"}).abort_transaction()
    open_transaction = produce(kafka, topic, 5, 3, **{"transactional.id": f"{topic}-3"})
    member = consumer(kafka, group_id)
    member.subscribe([topic, f"{topic}-compacted"])
    wait_until(lambda: member.poll(0.2) is not None)
    with watched(kafka) as index:
        offsets = [(topic, 0, 100), (topic, 1, 30), (topic, 2, 104), (f"{topic}-compacted", 0, 10)]
        member.commit(offsets=[TopicPartition(*each) for each in offsets], asynchronous=False)
        delete_up_to(admin, topic, 1, 70)
        wait_until(lambda: index.has_group(group_id) and shown(index, group_id).get((topic, 1)) == (30, 40, None))
        wait_until(lambda: shown(index, group_id).get((topic, 3)) == (None, 0, 105))
        lags = {place: each for place, each in shown(index, group_id).items() if each[0] is not None}
        assert {place: (lag or 0) + lost for place, (lag, lost, _) in lags.items()} == true_lag(admin, group_id)
        of_group = row(index, group_id)
        assert (of_group.lag, of_group.lost) == (sum(true_lag(admin, group_id).values()) - 40, 40)
        assert (of_group.uncommitted_partitions, of_group.uncommitted_messages) == (1, 105)
        assert of_group.verdict == "losing"
        assert of_group.member is not None
        assert f"has lost 40 messages of {topic}-1" in of_group.reason
    open_transaction.abort_transaction()
    member.close()


def they_are_named(index: Index, topics: dict[str, str]) -> None:
    stuck, never = row(index, topics["stuck"]), row(index, topics["never"])
    (finding,) = stuck.findings
    assert (finding.topic, finding.partition, finding.committed_offset) == (topics["stuck"], 0, 50)
    assert stuck.member is not None
    assert stuck.member.startswith("app-stuck")
    assert finding.rebalance_ms is not None
    assert "it began with the rebalance at " in stuck.reason
    assert "has committed nothing for" in never.reason


def they_have_series(index: Index, topics: dict[str, str]) -> None:
    now_ms = time.time_ns() // 1_000_000
    values = {
        (value.metric.name.removeprefix("group_coordinator_"), *value.labels[1:]): value.value
        for value in lag_values(index, index.rows(now_ms), now_ms, LagSeries(groups_max=100))
    }
    assert values["group_stalled_partitions", topics["stuck"]] == 1
    assert values["group_verdict", topics["never"], "stalled"] == 1
    assert values["group_lost_messages", topics["behind"]] == 30
    assert values["group_lag_messages", topics["behind"], topics["behind"]] == 10
    assert values["group_lag_messages", topics["idle"], topics["idle"]] == 0


def test_planted_faults_are_found_by_name_and_quiet_groups_stay_green(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    names = ("stuck", "never", "well", "idle", "hanging", "behind")
    topics = {name: f"{topic_prefix}-{name}" for name in names}
    for topic in topics.values():
        make_topic(admin, topic)
        produce(kafka, topic, 50, 0)
    members = {name: consumer(kafka, topics[name], **{"client.id": f"app-{name}"}) for name in names}
    they_poll(members, topics)
    with watched(kafka) as index:
        for name in names:
            if name != "never":
                members[name].commit(
                    offsets=[TopicPartition(topics[name], 0, 10 if name == "behind" else 50)], asynchronous=False
                )
        open_transaction = produce(kafka, topics["hanging"], 9, 0, **{"transactional.id": topic_prefix})
        delete_up_to(admin, topics["behind"], 0, 40)
        ends = dict.fromkeys(names, 50)

        def live_on() -> bool:
            for name in ("stuck", "never", "well"):
                produce(kafka, topics[name], 5, 0)
                ends[name] += 5
            members["well"].commit(offsets=[TopicPartition(topics["well"], 0, ends["well"])], asynchronous=False)
            for member in members.values():
                member.poll(0.05)
            verdicts = {name: row(index, topics[name]).verdict for name in names}
            assert (verdicts["well"], verdicts["idle"], verdicts["hanging"]) == ("stable", "stable", "stable")
            waits = [finding.kind for finding in row(index, topics["hanging"]).findings] == ["transaction"]
            found = [verdicts[name] for name in ("stuck", "never", "behind")]
            return waits and found == ["stalled", "stalled", "losing"]

        wait_until(live_on, interval_s=0.3)
        they_are_named(index, topics)
        they_have_series(index, topics)
        members["stuck"].commit(offsets=[TopicPartition(topics["stuck"], 0, 55)], asynchronous=False)
        wait_until(lambda: row(index, topics["stuck"]).verdict == "stable")
        open_transaction.abort_transaction()
    for member in members.values():
        member.close()


def jumps_are_told(index: Index, topics: dict[str, str]) -> None:
    findings = {name: row(index, topics[name]).findings for name in topics}
    reasons = {name: " ".join(finding.text for finding in findings[name]).strip() for name in topics}
    says = "an admin tool or another client that is no member went back in"
    assert reasons["tool"].startswith(f"{says} {topics['tool']}-2 from offset 50 to 5 at ")
    assert reasons["tool"].endswith(": 45 messages are read again")
    assert reasons["back"].startswith("a member (app-back-")
    assert f" went back in {topics['back']}-3 from offset 50 to 7 at " in reasons["back"]
    assert reasons["ahead"].startswith("app-ahead-")
    assert f" in the log of {topics['ahead']}-1, which ends at 50: " in reasons["ahead"]
    (hot,) = row(index, topics["hot"]).findings
    assert (hot.kind, hot.partition) == ("hot_partition", 1)
    now_ms = time.time_ns() // 1_000_000
    values = lag_values(index, index.rows(now_ms), now_ms, LagSeries(groups_max=100))
    found = {value.labels[1:]: value.value for value in values if value.metric is GROUP_FOUND}
    assert found[topics["tool"], "rewound"] == found[topics["ahead"], "skipped"] == 1
    assert found[topics["hot"], "hot_partition"] == 1
    assert topics["well"] not in {group_id for group_id, _ in found}


def test_jumps_and_a_hot_partition_are_found_by_name_and_quiet_groups_stay_green(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    names = ("tool", "ahead", "back", "hot", "well")
    topics = {name: f"{topic_prefix}-{name}" for name in names}
    ends = {name: [50] * 4 for name in names}
    for topic in topics.values():
        make_filled(kafka, admin, topic)
    members = {name: consumer(kafka, topics[name], **{"client.id": f"app-{name}"}) for name in names}

    def commit(name: str, offsets: list[int]) -> None:
        places = [TopicPartition(topics[name], partition, offset) for partition, offset in enumerate(offsets)]
        members[name].commit(offsets=places, asynchronous=False)

    they_poll(members, topics)
    with watched(kafka) as index:
        for name in names:
            commit(name, ends[name])
        commit("back", [50, 50, 50, 7])
        wait_until(lambda: index.has_group(topics["ahead"]) and row(index, topics["ahead"]).lag == 0)
        commit("ahead", [50, 1_000, 50, 50])
        members.pop("tool").close()
        reset = [ConsumerGroupTopicPartitions(topics["tool"], [TopicPartition(topics["tool"], 2, 5)])]
        for future in admin.alter_consumer_group_offsets(reset).values():
            future.result()
        read = 50

        def live_on() -> bool:
            nonlocal read
            read += 3
            for name in ("hot", "well"):
                for partition in range(4):
                    messages = 40 if (name, partition) == ("hot", 1) else 3
                    produce(kafka, topics[name], messages, partition)
                    ends[name][partition] += messages
            commit("well", ends["well"])
            commit("hot", [read if partition == 1 else end for partition, end in enumerate(ends["hot"])])
            for member in members.values():
                member.poll(0.05)
            assert row(index, topics["well"]).verdict == "stable"
            found = {name: row(index, topics[name]).finding_counts for name in names}
            wanted = {"tool": "rewound", "ahead": "skipped", "back": "rewound", "hot": "hot_partition"}
            return all(kind in found[name] for name, kind in wanted.items())

        wait_until(live_on, interval_s=0.3)
        jumps_are_told(index, topics)
        true = true_lag(admin, topics["hot"])[topics["hot"], 1]
        wait_until(lambda: [finding.messages for finding in row(index, topics["hot"]).findings] == [true])
    for member in members.values():
        member.close()
