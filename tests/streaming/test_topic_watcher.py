"""The watcher of topics on a real broker: which groups it tells, and what it keeps over its own end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import DeletedTopic, encode_json
from schemas.java_hash import group_partition
from schemas.known_topics import KnownTopic
from schemas.query_progress import SeenTopic
from schemas.records import GroupMetadataKey, OffsetCommitKey
from streaming.committed_topics import CommittedTopics
from streaming.events_tail import open_reader
from streaming.topic_knowledge import TopicListing
from streaming.topic_listings import NAMES_PER_REQUEST, TopicListings
from tests.encoded_records import encode_key
from tests.streaming.watched_cluster import EVERYTHING, GARBAGE, OFFSETS_PARTITIONS, TIMEOUT_S, Cluster
from tests.waiting import wait_until


@pytest.fixture
def cluster(kafka: EmbeddedKafka, topic_prefix: str) -> Cluster:
    return Cluster(kafka.bootstrap_servers, topic_prefix)


def test_groups_with_offsets_of_a_deleted_topic_are_told_and_no_others(cluster: Cluster, topic_prefix: str) -> None:
    orders, clicks = f"{topic_prefix}-orders", f"{topic_prefix}-clicks"
    old, other_id = cluster.make(orders), cluster.make(clicks)
    cluster.commit("reader", orders, old)
    cluster.commit("reader", clicks, other_id)
    cluster.commit("without id", orders, None)
    cluster.commit("elsewhere", clicks, other_id)
    with cluster.watched():
        wait_until(lambda: {old, other_id} <= cluster.kept().keys(), TIMEOUT_S, "both are kept")
        assert cluster.told() == []
        cluster.delete(orders)
        wait_until(lambda: old not in cluster.kept(), TIMEOUT_S, "all are told")
    deleted_topics = (DeletedTopic(name=orders, topic_id=old),)
    assert set(cluster.told()) == {("reader", deleted_topics), ("without id", deleted_topics)}
    assert other_id in cluster.kept()


def test_groups_with_nothing_but_offsets_in_open_transactions_are_told(cluster: Cluster, topic_prefix: str) -> None:
    orders, clicks = f"{topic_prefix}-orders", f"{topic_prefix}-clicks"
    old = cluster.make(orders)
    cluster.make(clicks)
    cluster.publish_pending("open", orders, clicks)
    cluster.publish_pending("elsewhere", clicks)
    cluster.publish_pending("over", orders)
    cluster.publish_pending("over")
    with cluster.watched():
        wait_until(lambda: old in cluster.kept(), TIMEOUT_S, "it is kept")
        cluster.delete(orders)
        wait_until(lambda: old not in cluster.kept(), TIMEOUT_S, "all are told")
    assert {group_id for group_id, _ in cluster.told()} == {"open"}
    assert {topics for _, topics in cluster.told()} == {(DeletedTopic(name=orders, topic_id=old),)}


def test_a_topic_made_again_between_two_looks_is_another(cluster: Cluster, topic_prefix: str) -> None:
    name = f"{topic_prefix}-orders"
    old = cluster.make(name)
    cluster.commit("g", name, old)
    with cluster.watched(interval_ms=1_500, settle_s=15.0):
        wait_until(lambda: old in cluster.kept(), TIMEOUT_S, "it is kept")
        cluster.delete(name)
        between = cluster.make(name)
        cluster.commit("between", name, between)
        cluster.delete(name)
        new = cluster.make(name)
        cluster.commit("new", name, new)
        wait_until(lambda: old not in cluster.kept(), TIMEOUT_S, "all are told")
        assert cluster.kept()[new].name == name
    ids_by_group = {group_id: {topic.topic_id for topic in topics} for group_id, topics in cluster.told()}
    assert ids_by_group["g"] == {old}
    assert "new" not in ids_by_group
    assert ids_by_group.get("between", {between}) == {between}, "told where it was seen by two looks, or by none"


def test_one_that_is_made_again_and_goes_again_is_told_again(cluster: Cluster, topic_prefix: str) -> None:
    """What the group has of the second is not forgotten when it is told of the first."""
    name = f"{topic_prefix}-orders"
    first = cluster.make(name)
    cluster.commit("g", name, first)
    with cluster.watched(handled=0) as watcher:
        wait_until(lambda: first in cluster.kept(), TIMEOUT_S, "it is kept")
        cluster.delete(name)
        second = cluster.make(name)
        wait_until(lambda: len(cluster.told()) == 1, TIMEOUT_S, "it is told")
        cluster.commit("g", name, second, partition=1)
        watcher.handled(EVERYTHING)
        wait_until(lambda: first not in cluster.kept(), TIMEOUT_S, "it is over")
        cluster.delete(name)
        wait_until(lambda: second not in cluster.kept(), TIMEOUT_S, "so is the second")
    told_ids = [topic.topic_id for _, topics in cluster.told() for topic in topics]
    assert list(dict.fromkeys(told_ids)) == [first, second]


def test_topics_that_went_while_nobody_watched(cluster: Cluster, topic_prefix: str) -> None:
    gone, again, stays = (f"{topic_prefix}-{name}" for name in ("gone", "again", "stays"))
    ids = {name: cluster.make(name) for name in (gone, again, stays)}
    with cluster.watched():
        wait_until(lambda: set(ids.values()) <= cluster.kept().keys(), TIMEOUT_S, "they are kept")
    for name in ids:
        cluster.commit("g", name, None)
    cluster.delete(gone)
    cluster.delete(again)
    new = cluster.make(again)
    with cluster.watched():
        wait_until(lambda: not {ids[gone], ids[again]} & cluster.kept().keys(), TIMEOUT_S, "all are told")
    deleted_topics = {topic for _, topics in cluster.told() for topic in topics}
    assert deleted_topics == {
        DeletedTopic(name=gone, topic_id=ids[gone]),
        DeletedTopic(name=again, topic_id=ids[again]),
    }
    assert {ids[stays], new} <= cluster.kept().keys()


def test_a_commit_that_is_on_its_way_is_found_when_it_is_handled(cluster: Cluster, topic_prefix: str) -> None:
    name = f"{topic_prefix}-orders"
    old = cluster.make(name)
    producer = Producer(cluster.properties)
    with cluster.watched(handled=0) as watcher:
        wait_until(lambda: old in cluster.kept(), TIMEOUT_S, "it is kept")
        producer.produce(cluster.topics.events, key="late", value=b'{"type":"topics_deleted","topics":[]}', partition=0)
        producer.flush()
        cluster.commit("early", name, old)
        cluster.delete(name)
        wait_until(lambda: len(cluster.told()) == 2, TIMEOUT_S, "the first is told at once")
        cluster.commit("late", name, None)
        assert old in cluster.kept(), "it is not over while the log is not handled"
        watcher.handled(2)
        wait_until(lambda: len(cluster.told()) == 3, TIMEOUT_S, "the second when the log is handled")
        cluster.commit("very late", name, old)
        watcher.handled(EVERYTHING)
        wait_until(lambda: old not in cluster.kept(), TIMEOUT_S, "and the last when all has settled")
    assert [group_id for group_id, topics in cluster.told() if topics] == ["early", "late", "very late"]


def test_each_shard_tells_its_own_groups(kafka: EmbeddedKafka, topic_prefix: str) -> None:
    cluster = Cluster(kafka.bootstrap_servers, topic_prefix, shards=2)
    name = f"{topic_prefix}-orders"
    old = cluster.make(name)
    groups = [f"g{number}" for number in range(12)]
    for group_id in groups:
        cluster.commit(group_id, name, old)
    with cluster.watched(0):
        wait_until(lambda: old in cluster.kept(0), TIMEOUT_S, "the first keeps it")
        with cluster.watched(1):
            wait_until(lambda: old in cluster.kept(1), TIMEOUT_S, "so does the second")
        cluster.delete(name)
        wait_until(lambda: old not in cluster.kept(0), TIMEOUT_S, "the first has told its own")
        assert cluster.told(1) == []
    with cluster.watched(1):
        wait_until(lambda: old not in cluster.kept(1), TIMEOUT_S, "the second comes back and tells its own")
    for shard in (0, 1):
        assert {group_id for group_id, _ in cluster.told(shard)} == {
            group for group in groups if group_partition(group, 2) == shard
        }


def test_many_topics_are_told_in_events_of_bounded_size(cluster: Cluster, topic_prefix: str) -> None:
    names = [f"{topic_prefix}-{'x' * 100}-{number}" for number in range(30)]
    for future in cluster.admin.create_topics([NewTopic(name, 1) for name in names]).values():
        future.result()
    for name in names:
        cluster.commit("g", name, None)
    with cluster.watched(event_bytes_max=1_200):
        wait_until(lambda: set(names) <= {topic.name for topic in cluster.kept().values()}, TIMEOUT_S, "all are kept")
        for future in cluster.admin.delete_topics(names).values():
            future.result()
        wait_until(
            lambda: not set(names) & {topic.name for topic in cluster.kept().values()}, TIMEOUT_S, "all are told"
        )
    assert {topic.name for _, topics in cluster.told() for topic in topics} == set(names)
    assert max(len(value or b"") for _, value in cluster.read(cluster.topics.events, 0)) <= 1_200


def test_what_another_cluster_had_says_nothing(cluster: Cluster, topic_prefix: str) -> None:
    """As after a move: the topics are copies, with ids of their own."""
    name = f"{topic_prefix}-orders"
    new, foreign = cluster.make(name), "00000000-0000-0000-0000-0000000000aa"
    cluster.commit("g", name, foreign)
    producer = Producer(cluster.properties)
    topic = KnownTopic(name=name, topic_id=foreign, cluster_id="elsewhere")
    producer.produce(cluster.topics.topics, key=foreign, value=GARBAGE, partition=0)
    producer.produce(cluster.topics.topics, key=foreign, value=encode_json(topic), partition=0)
    producer.flush()
    with cluster.watched():
        wait_until(lambda: new in cluster.kept() and foreign not in cluster.kept(), TIMEOUT_S, "it begins anew")
        marker = cluster.make(f"{topic_prefix}-marker")
        cluster.commit("g", f"{topic_prefix}-marker", marker)
        wait_until(lambda: marker in cluster.kept(), TIMEOUT_S, "the marker is kept")
        cluster.delete(f"{topic_prefix}-marker")
        wait_until(lambda: marker not in cluster.kept(), TIMEOUT_S, "the marker is gone")
    assert {topic.topic_id for _, topics in cluster.told() for topic in topics} == {marker}


def test_an_outage_deletes_nothing_and_is_survived(kafka_jars: object) -> None:
    with EmbeddedKafka() as broker:
        cluster = Cluster(broker.bootstrap_servers, "c")
        stays, goes = cluster.make("stays"), cluster.make("goes")
        cluster.commit("g", "stays", stays)
        cluster.commit("g", "goes", goes)
        with cluster.watched():
            wait_until(lambda: {stays, goes} <= cluster.kept().keys(), TIMEOUT_S, "they are kept")
            broker.kill()
            time.sleep(7)
            broker.start()
            cluster.delete("goes")
            wait_until(lambda: goes not in cluster.kept(), TIMEOUT_S, "the one that is gone is told")
        assert cluster.told() == [("g", (DeletedTopic(name="goes", topic_id=goes),))] * len(cluster.told())


def test_a_topic_that_may_not_be_seen_any_more_is_not_gone(kafka_jars: object) -> None:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:admin",
    }
    with EmbeddedKafka(properties=properties) as broker:
        cluster = Cluster(broker.bootstrap_servers, "c")
        hidden, goes = cluster.make("hidden"), cluster.make("goes")
        cluster.commit("g", "hidden", hidden)
        cluster.commit("g", "goes", goes)
        with cluster.watched():
            wait_until(lambda: {hidden, goes} <= cluster.kept().keys(), TIMEOUT_S, "they are kept")
            deny = AclBinding(
                ResourceType.TOPIC, "hidden", ResourcePatternType.LITERAL, "User:ANONYMOUS", "*",
                AclOperation.DESCRIBE, AclPermissionType.DENY,
            )  # fmt: skip
            for future in cluster.admin.create_acls([deny]).values():
                future.result()
            wait_until(lambda: "hidden" not in cluster.admin.list_topics().topics, TIMEOUT_S, "it is not listed")
            cluster.delete("goes")
            wait_until(lambda: goes not in cluster.kept(), TIMEOUT_S, "the other is told")
        assert {topic.name for _, topics in cluster.told() for topic in topics} == {"goes"}
        assert hidden in cluster.kept()


@pytest.mark.parametrize("kept_bytes_max", [33_554_432, 2_000], ids=["kept", "too much to keep"])
def test_who_has_offsets_of_a_topic(cluster: Cluster, kept_bytes_max: int) -> None:
    committed = CommittedTopics(
        cluster.topics.offsets, OFFSETS_PARTITIONS, lambda group_id: group_id != "not ours", kept_bytes_max
    )

    def of(*names: str) -> dict[str, dict[str, frozenset[str | None]]]:
        with open_reader(cluster.properties) as reader:
            merged: dict[str, dict[str, frozenset[str | None]]] = {}
            for ids_by_group in committed.of(reader, names):
                for group_id, topics in ids_by_group.items():
                    for name, ids in topics.items():
                        group_topics = merged.setdefault(group_id, {})
                        group_topics[name] = group_topics.get(name, frozenset()) | ids
            return merged

    first, second = "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"
    for number in range(20):
        cluster.commit(f"g{number}", "t" if number % 2 else "u", first, number)
    cluster.commit("g1", "t", None, 3)
    cluster.commit("g1", "v", second)
    cluster.commit("not ours", "t", None)
    cluster.put("g1", encode_key(GroupMetadataKey("g1")), b"damaged")
    cluster.put("g1", b"no key of ours", b"x")
    cluster.put("g1", encode_key(OffsetCommitKey("g3", "t", 3)), b"damaged")
    odd = {f"g{number}": {"t": frozenset({first})} for number in range(1, 20, 2)}
    assert of("t") == odd | {"g1": {"t": frozenset({first, None})}}
    assert of("v", "w") == {"g1": {"v": frozenset({second})}}
    assert of("w") == {}
    cluster.commit("g2", "t", second)
    assert of("t")["g2"] == {"t": frozenset({second})}
    committed.notified("g1", "t", first)
    committed.notified("g2", "t", first)
    committed.notified("nobody", "t", first)
    if kept_bytes_max > 10_000:
        assert "g1" not in of("t"), "what is stored without an id is dropped as well"
        assert of("t")["g2"] == {"t": frozenset({second})}, "what is stored with another is not"
    cluster.put("g2", encode_key(GroupMetadataKey("g2")), None)
    of("t")  # nobody knows yet whether it is dead, or of the consumer protocol from here on
    assert "g2" not in of("t") or kept_bytes_max < 10_000


def test_topics_that_others_have_seen_are_looked_at_at_once(cluster: Cluster, topic_prefix: str) -> None:
    """The next look at all topics would be in an hour."""
    old, new, short = (f"{topic_prefix}-{name}" for name in ("old", "new", "short"))
    old_id = cluster.make(old)
    with cluster.watched(interval_ms=3_600_000):
        wait_until(lambda: old_id in cluster.kept(), TIMEOUT_S, "it is kept")
        new_id = cluster.make(new)
        cluster.say_seen(SeenTopic(new))
        wait_until(lambda: new_id in cluster.kept(), TIMEOUT_S, "it is kept")
        short_id = cluster.make(short)
        cluster.commit("reader", short, short_id)
        cluster.delete(short)
        cluster.say_seen(SeenTopic(short, short_id), cluster_id="another cluster's")
        cluster.say_seen(SeenTopic(short, short_id))
        wait_until(lambda: cluster.told() != [], TIMEOUT_S, "its group is told")
    assert cluster.told() == [("reader", (DeletedTopic(name=short, topic_id=short_id),))]
    assert {old_id, new_id} <= cluster.kept().keys()


def test_topics_that_others_have_seen_do_not_wait_for_a_look_at_all_topics(
    cluster: Cluster, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look costs by the partitions of the cluster; a member that joins waits for its new topic a second at most."""
    new = f"{topic_prefix}-new"

    kept = threading.Event()

    class LongLooks(TopicListings):
        looks = 0

        def look(
            self, names: frozenset[str], *, at_all: bool = True, between: Callable[[], None] = lambda: None
        ) -> TopicListing:
            self.looks += at_all
            if at_all and self.looks > 1 and not kept.is_set():
                new_id = cluster.make(new)

                def is_kept() -> bool:
                    cluster.say_seen(SeenTopic(new, new_id))
                    between()
                    return new_id in cluster.kept()

                wait_until(is_kept, TIMEOUT_S, "it is kept in the midst of the look")
                kept.set()
            return super().look(names, at_all=at_all, between=between)

    monkeypatch.setattr("streaming.topic_watcher.TopicListings", LongLooks)
    with cluster.watched():
        assert kept.wait(2 * TIMEOUT_S)


def test_a_look_at_all_topics_goes_in_pieces(cluster: Cluster, topic_prefix: str) -> None:
    names = [f"{topic_prefix}-{number}" for number in range(2 * NAMES_PER_REQUEST + 1)]
    made = {name: cluster.make(name) for name in (names[0], names[-1])}
    between: list[None] = []
    listing = TopicListings(cluster.admin).look(frozenset(names), between=lambda: between.append(None))
    assert listing.topics == made
    assert listing.absent == frozenset(names[1:-1])
    assert len(between) == 2


def test_what_others_have_seen_is_told_although_brokers_did_not_answer_and_the_query_was_slow(
    cluster: Cluster, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither waits for the next look at all topics, which may be an hour away."""
    new, short = f"{topic_prefix}-new", f"{topic_prefix}-short"
    looks: list[bool] = []

    class Unanswered(TopicListings):
        def look(
            self, names: frozenset[str], *, at_all: bool = True, between: Callable[[], None] = lambda: None
        ) -> TopicListing:
            looks.append(at_all)
            if looks.count(False) == 1 and not at_all:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            return super().look(names, at_all=at_all, between=between)

    monkeypatch.setattr("streaming.topic_watcher.TopicListings", Unanswered)
    with cluster.watched(handled=0, interval_ms=3_600_000) as watcher:
        wait_until(lambda: looks, TIMEOUT_S, "it has looked")
        new_id = cluster.make(new)
        cluster.say_seen(SeenTopic(new))
        wait_until(lambda: new_id in cluster.kept(), TIMEOUT_S, "it is kept")
        short_id = cluster.make(short)
        cluster.delete(short)
        cluster.say_seen(SeenTopic(short, short_id))
        wait_until(lambda: len(looks) > 3, TIMEOUT_S, "it is missed")
        cluster.commit("late", short, short_id)
        watcher.handled(EVERYTHING)
        wait_until(lambda: cluster.told() != [], TIMEOUT_S, "its group is told")
