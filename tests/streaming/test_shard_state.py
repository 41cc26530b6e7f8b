"""The state of a shard is read from the checkpoint beside the running query, and a responder goes on from it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from group_coordinator.coordinating.responder.answering import AnsweringShard
from group_coordinator.ground.kafka_topics.reader import headers_of, offset_of, read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.records_file import Record
from streaming import shard_state, stored_group
from streaming.config import StreamingConfig
from streaming.stored_group import ShardState
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log
from tests.streaming.running_app import TIMEOUT_S, RunningApp
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("group_buckets", [0, 3])
def test_from_the_state_of_any_batch_the_answers_are_those_of_the_query(
    kafka: EmbeddedKafka,
    spark: SparkSession,
    topic_prefix: str,
    tmp_path: Path,
    group_buckets: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_prefix,
        offsets_partitions=4,
        checkpoint=str(tmp_path / "checkpoint"),
        **SETTINGS,
        group_buckets=group_buckets,
        max_events_per_batch=40,
        ticker=False,
    )
    log = make_log(11, groups=4, mixed_groups=3, requests=200)
    topics = config.topics
    with RunningApp(config, spark) as app:
        assert app.application.read_state(0).state.batch_id == -1
        produce(config, topics.events, log[: len(log) // 2])
        wait_until(lambda: has_read(app, len(log) // 2), TIMEOUT_S)
        state = app.application.read_state(0).whole()
        # A query that is started in this thread is none of the jobs that the next reading cancels.
        assert not list(spark.sparkContext.getJobTags())
        require_same_in_pieces(app, state, monkeypatch)
        produce(config, topics.events, log[len(log) // 2 :])
        wait_until(lambda: has_read(app, len(log)), TIMEOUT_S)
    assert state.end_offset == len(log) // 2
    assert state.batch_id in batches_up_to(app, state.end_offset)
    assert len(state.groups) == 7
    shard = AnsweringShard(config.operator_config(), state)
    answers = [
        (answer.partition, answer.key, answer.value, answer.headers)
        for message in read_topic(config.client_properties, topics.events)
        if offset_of(message) >= state.start_offset
        for answer in shard.take(message.key(), message.value(), offset_of(message), message.timestamp()[1])
    ]
    written = [
        (message.partition(), message.key(), message.value(), headers_of(message))
        for message in read_topic(config.client_properties, topics.responses)
    ]
    assert len(answers) > 40
    assert not [answer for answer in answers if answer not in written]
    # What the log's last tick decides waits for the next batch of the query, but not for the responder.
    assert len(written) >= len(answers)


def require_same_in_pieces(app: RunningApp, state: ShardState, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pieces far smaller than the state are the same state."""
    with monkeypatch.context() as small:
        for module in (shard_state, stored_group):
            small.setattr(module, "PIECE_BYTES", 1_000)
        pieces = list(app.application.read_state(0).pieces)
    assert len(pieces) > 1
    assert {key: group for piece in pieces for key, group in piece.items()} == state.groups


def has_read(app: RunningApp, offset: int) -> bool:
    return app.failure is not None or (bool(app.progress) and app.progress[-1].end_offset == offset)


def batches_up_to(app: RunningApp, end_offset: int) -> list[int]:
    """Return the batches that ended there: behind the one that read the events, Spark may run one without any."""
    return [progress.batch_id for progress in app.progress if progress.end_offset == end_offset]


def produce(config: StreamingConfig, topic: str, records: list[Record]) -> None:
    producer = Producer({**config.client_properties, "message.max.bytes": 1_048_000})
    for record in records:
        producer.produce(topic, key=record.key, value=record.value, partition=0)
    producer.flush()
