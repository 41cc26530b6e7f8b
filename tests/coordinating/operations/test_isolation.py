"""All readers of our topics see the same, whatever others' transactions do: what is in the log counts."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.ground.kafka_topics.reader import read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_tick
from schemas.isolation import ISOLATION_LEVEL, READER_PROPERTIES
from streaming.config import StreamingConfig
from streaming.event_log import records_of_topic
from streaming.events_tail import RecentGroups, last_tick_ms, open_reader
from streaming.source import events_stream

ROOT = Path(__file__).parents[3]
ROOMS = ("streaming", "group_coordinator")
READER = "group_coordinator/ground/kafka_topics/reader.py"
FACTORY = "group_coordinator/ground/kafka_topics/clients.py"
APPLICATION = "group_coordinator/coordinating/members/partition_reader.py"
"""Its consumer reads an application's topics, by its own isolation level."""
RELAY = "group_coordinator/coordinating/transactions/relay.py"
"""Its consumer keeps positions, and reads nothing."""
DEMO = "group_coordinator/proving/commands/demo_members.py"
"""It has clients as users have them."""
ABORTED, OPEN, LATER = b"aborted", b"open", b"later"
KEYS = [ABORTED, OPEN, LATER]
AHEAD_MAX_MS = 3_000


@pytest.fixture
def config(kafka: EmbeddedKafka, topic_prefix: str) -> StreamingConfig:
    return StreamingConfig(bootstrap_servers=kafka.bootstrap_servers, topic_prefix=topic_prefix)


@pytest.fixture
def events(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> Iterator[str]:
    """A tick, an aborted transaction, one that stays open, and then a record and a tick without any."""
    topic = f"{topic_prefix}.events"
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
    plain = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    plain.produce(topic, encode_tick(1_000), partition=0)
    plain.flush()
    other_producer = Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": topic, "log_level": "2"}
    )
    other_producer.init_transactions(30)
    for key in (ABORTED, OPEN):
        other_producer.begin_transaction()
        other_producer.produce(topic, b"{}", key, partition=0)
        other_producer.flush()
        if key == ABORTED:
            other_producer.abort_transaction(30)
    plain.produce(topic, b"{}", LATER, partition=0)
    plain.produce(topic, encode_tick(2_000), partition=0)
    plain.flush()
    yield topic
    other_producer.abort_transaction(30)


def test_the_stream(spark: SparkSession, config: StreamingConfig, events: str, tmp_path: Path) -> None:
    """An open transaction holds up nobody."""
    stream = events_stream(spark, events, 0, config.source_options, tick_ahead_max_ms=AHEAD_MAX_MS)
    rows = (
        stream.select("key", "clock_ms").writeStream.format("memory").queryName("isolation").trigger(availableNow=True)
    )
    rows.option("checkpointLocation", str(tmp_path)).start().awaitTermination(60)
    records = spark.table("isolation").collect()
    assert [bytes(row["key"]) for row in records if row["key"] is not None] == KEYS
    assert max(row["clock_ms"] for row in records) == 2_000


def test_a_replay_of_the_topic(spark: SparkSession, config: StreamingConfig, events: str) -> None:
    rows = records_of_topic(spark, config, events).collect()
    assert [bytes(row["key"]) for row in rows if row["key"] is not None] == KEYS


def test_the_tickers_reader(config: StreamingConfig, events: str) -> None:
    with open_reader(config.client_properties) as reader:
        assert last_tick_ms(reader, events, 0, AHEAD_MAX_MS) == 2_000
        assert RecentGroups(events, 0, 10_000, AHEAD_MAX_MS).read(reader, 2_000) == KEYS


def test_the_commands(config: StreamingConfig, events: str) -> None:
    """`export`, `groups`, `explain` read so."""
    assert [message.key() for message in read_topic(config.client_properties, events) if message.key()] == KEYS


def test_those_that_follow(config: StreamingConfig, events: str) -> None:
    """The gateway, the dashboard and the metrics read so."""
    keys: list[bytes | None] = []
    caught_up = threading.Event()
    follower = TopicFollower(
        config.client_properties,
        "test",
        lambda messages: keys.extend(message.key() for message in messages),
        on_caught_up=caught_up.set,
    )
    follower.start(from_beginning=[(events, 0)])
    assert caught_up.wait(30)
    follower.stop()
    assert [key for key in keys if key] == KEYS


def calls(names: set[str]) -> Iterator[tuple[str, ast.Call]]:
    """Yield the product's calls of functions with these names, each with its file."""
    for file in sorted(file for room in ROOMS for file in (ROOT / room).glob("**/*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield str(file.relative_to(ROOT)), node


def test_each_client_that_is_made() -> None:
    """One room makes them; a second one is found here."""
    assert {file for file, _ in calls({"Producer", "Consumer", "AdminClient"})} == {FACTORY, DEMO}


def test_each_consumer_that_is_made() -> None:
    """One class makes the consumers of our topics; a second one is found here."""
    makers = set()
    for name, call in calls({"new_consumer"}):
        makers.add(name)
        if name != READER:
            continue
        _, settings = call.args
        assert isinstance(settings, ast.Dict)
        last = settings.values[-1]
        assert settings.keys[-1] is None, "the isolation level comes last, so that no setting is above it"
        assert isinstance(last, ast.Name)
        assert last.id == "READER_PROPERTIES"
    assert makers == {READER, APPLICATION, RELAY}


def test_both_clients_understand_it(config: StreamingConfig) -> None:
    assert config.source_options["kafka.isolation.level"] == ISOLATION_LEVEL
    Consumer({**READER_PROPERTIES, "group.id": "unused"}).close()
    assert config.changed(kafka={"isolation.level": "read_committed"}).problems()
