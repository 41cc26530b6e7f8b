"""A difference is told to responders and people, whatever Kafka does at the moment."""

from __future__ import annotations

import pytest

from schemas.query_progress import AnswerDifference, QueryProgress, decode_progress
from streaming import progress_topic
from streaming.config import StreamingConfig
from streaming.progress_topic import ProgressPublisher
from streaming.watcher import ShardProgress
from tests.coordinating.responder.fake_kafka import FakeKafka

TOPICS = StreamingConfig(responders=True).topics
DIFFERENCE = AnswerDifference(
    core_hash="ours", shard=0, request_id="r", epoch=1, seq=2, detail="Other bytes.", responses_partition=0,
    responder_offset=3, query_offset=4,
)  # fmt: skip
BATCH = ShardProgress(
    shard=0, batch_id=1, batch_ms=1, phases_ms={}, events=1, events_per_second=1.0, start_offset=0, end_offset=1,
    groups=1, state_memory_bytes=0, state_disk_bytes=0, clock_ms=1, clock_lag_ms=1,
)  # fmt: skip
BOTH = {TOPICS.progress: [DIFFERENCE], TOPICS.differences: [DIFFERENCE]}


@pytest.fixture
def fake_kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    fake_kafka = FakeKafka()
    monkeypatch.setattr(progress_topic, "new_producer", fake_kafka.producer)
    return fake_kafka


def told(fake_kafka: FakeKafka) -> dict[str, list[AnswerDifference]]:
    records = {topic: [decode_progress(value) for value in values_of(fake_kafka, topic)] for topic in BOTH}
    return {
        topic: [each for each in of_topic if isinstance(each, AnswerDifference)] for topic, of_topic in records.items()
    }


def values_of(fake_kafka: FakeKafka, topic: str) -> list[bytes]:
    return [record.value() or b"" for record in fake_kafka.logs[topic, 0]]


def test_it_is_told_where_responders_and_where_people_look(fake_kafka: FakeKafka) -> None:
    ProgressPublisher(TOPICS, {0: "ours"}, {}).differs(DIFFERENCE)
    assert told(fake_kafka) == BOTH


def test_what_there_was_no_room_for_is_told_with_the_next_batch_and_once(fake_kafka: FakeKafka) -> None:
    publisher = ProgressPublisher(TOPICS, {0: "ours"}, {})
    fake_kafka.is_full = True
    publisher.differs(DIFFERENCE)
    publisher.batch_ended(BATCH)
    fake_kafka.is_full = False
    publisher.batch_ended(BATCH)
    assert told(fake_kafka) == BOTH
    publisher.batch_ended(BATCH)
    publisher.close()
    assert told(fake_kafka) == BOTH


@pytest.mark.parametrize("topic", BOTH)
def test_what_kafka_did_not_take_in_time_is_told_again(fake_kafka: FakeKafka, topic: str) -> None:
    publisher = ProgressPublisher(TOPICS, {0: "ours"}, {})
    fake_kafka.refuses.add(topic)
    publisher.differs(DIFFERENCE)
    publisher.batch_ended(BATCH)
    assert told(fake_kafka) == {**BOTH, topic: []}
    fake_kafka.refuses.clear()
    publisher.batch_ended(BATCH)
    publisher.close()
    assert told(fake_kafka) == BOTH


def test_a_batch_that_there_was_no_room_for_is_not_told_late(fake_kafka: FakeKafka) -> None:
    """The next batch says where the query is then."""
    publisher = ProgressPublisher(TOPICS, {0: "ours"}, {})
    fake_kafka.is_full = True
    publisher.batch_ended(BATCH)
    fake_kafka.is_full = False
    publisher.batch_ended(BATCH)
    (value,) = values_of(fake_kafka, TOPICS.progress)
    assert isinstance(decode_progress(value), QueryProgress)
