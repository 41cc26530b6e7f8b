"""A plain consumer of topics: stretches, ends, compaction, what is not there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.errors import NoSuchTopicError, TopicReadError, explaining
from group_coordinator.ground.kafka_topics.log_bounds import log_bounds
from group_coordinator.ground.kafka_topics.reader import TopicReader, partition_count, read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.making_topics import make_topic

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def properties(kafka: EmbeddedKafka) -> dict[str, str]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def topic(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> str:
    """Two partitions with the values 0 to 9, the even ones in the first."""
    make_topic(admin, topic_prefix, partitions=2)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(10):
        producer.produce(topic_prefix, b"%d" % number, partition=number % 2)
    producer.flush()
    return topic_prefix


@pytest.fixture
def reader(properties: dict[str, str]) -> Iterator[TopicReader]:
    with TopicReader(properties, "test") as reader:
        yield reader


def values(messages: Iterator[Message]) -> list[int]:
    return [int(message.value() or b"") for message in messages]


def test_a_topic_is_read_up_to_where_it_ends_now(properties: dict[str, str], topic: str) -> None:
    assert sorted(values(read_topic(properties, topic))) == list(range(10))
    assert values(read_topic(properties, topic, [1])) == [1, 3, 5, 7, 9]
    assert partition_count(properties, topic) == 2


def test_a_stretch_is_read(reader: TopicReader, topic: str) -> None:
    assert reader.bounds(topic, 0) == Bounds(0, 5)
    assert values(reader.read({(topic, 0): Bounds(1, 3)})) == [2, 4]
    assert values(reader.read({(topic, 0): Bounds(4, 5), (topic, 1): Bounds(3, 3)})) == [8]
    assert values(reader.read({(topic, 0): Bounds(0, 5)})) == [0, 2, 4, 6, 8], "the reader can be used again"
    assert next(reader.read({(topic, 1): Bounds(0, 5)})).value() == b"1"
    assert values(reader.read({(topic, 1): Bounds(4, 5)})) == [9], "what was left unread does not come"
    assert values(reader.read({})) == []


def test_a_log_may_end_before_the_end_of_a_stretch(reader: TopicReader, topic: str) -> None:
    """As the last records of a compacted topic, or the markers of a transaction, which nobody gets to see."""
    assert values(reader.read({(topic, 0): Bounds(3, 9)})) == [6, 8]


def test_reading_ends_when_the_rest_is_not_wanted(reader: TopicReader, topic: str) -> None:
    with pytest.raises(KafkaException):
        list(reader.read({(topic, 0): Bounds(0, 5)}, lambda: False))


def test_a_topic_that_is_not_there(properties: dict[str, str], reader: TopicReader, topic_prefix: str) -> None:
    with pytest.raises(NoSuchTopicError, match=f"There is no topic {topic_prefix}"):
        list(read_topic(properties, topic_prefix))
    with pytest.raises(KafkaException):
        reader.bounds(topic_prefix, 0)


def test_the_bounds_of_many_partitions(admin: AdminClient, topic: str) -> None:
    partitions = [(topic, 1), (topic, 0), (topic, 9), (f"{topic}-absent", 0)]
    assert log_bounds(admin, partitions) == {(topic, 0): Bounds(0, 5), (topic, 1): Bounds(0, 5)}
    assert log_bounds(admin, []) == {}


def test_a_kafka_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.ground.kafka_topics.errors.TIMEOUT_S", 0.2)
    with pytest.raises(
        TopicReadError, match=r"Kafka at 127\.0\.0\.1:1 does not answer within 0\.2 s: .*Check --bootstrap-servers\."
    ):
        partition_count(NOWHERE, "t")


def test_what_kafka_refuses() -> None:
    with pytest.raises(TopicReadError, match=r"^Kafka at 127\.0\.0\.1:1: .*[Aa]uthoriz.*\.$"), explaining(NOWHERE):
        raise KafkaException(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
