"""The app on a real broker: its life with a pause in the middle, told once and looked at from several sides;
its failures."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from group_coordinator.ground.kafka_topics.reader import headers_of
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.error_codes import ErrorCode
from schemas.events import encode_request_event
from schemas.messages import (
    DescribeGroupsRequest,
    HeartbeatResponse,
    Response,
)
from schemas.output_records import NO_PARTITION, OutputRecord
from schemas.records_file import Record
from streaming.application import QueryFailed, ShardProgress
from streaming.config import StreamingConfig
from streaming.event_log import RECORD_COLUMNS, records_of_topic
from streaming.replay import replay_in_process
from streaming.topics import TopicError
from tests.streaming import random_log
from tests.streaming.running_app import GROUP, HEARTBEAT, SESSION_MS, TIMEOUT_S, Client, RunningApp
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEARTBEATS_PER_SESSION = 4


@dataclass
class Heartbeats:
    """A member's heartbeats, whoever listens."""

    client: Client
    ids: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Heartbeats:
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop, if they have not stopped yet."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SESSION_MS / 1_000 / HEARTBEATS_PER_SESSION):
            self.ids.append(self.client.send("Heartbeat", 4, HEARTBEAT))


@dataclass
class Life:
    """What was seen."""

    config: StreamingConfig
    heartbeats: list[Response]
    heartbeats_in_the_pause: int
    described: Response
    outputs: list[OutputRecord]
    progress: list[ShardProgress]
    events: list[Record]


@pytest.fixture(scope="module")
def life(spark: SparkSession, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory) -> Life:
    """The app runs, gets poison, is stopped for three sessions while heartbeats go on, and runs again."""
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix="life",
        checkpoint=str(tmp_path_factory.mktemp("checkpoint")),
        responses_partitions=random_log.RESPONSES_PARTITIONS,
        offsets_partitions=4,
        group_min_session_timeout_ms=2_000,
        group_initial_rebalance_delay_ms=0,
        tick_interval_ms=200,
    )
    with RunningApp(config, spark) as app:
        assert app.failure is None
        client = Client(config)
        client.join()
        with Heartbeats(client) as heartbeats:
            for key, value in random_log.POISONS:
                client.write(key, value)
            client.write(b"large", b"x" * 1_000_000)
            nowhere = encode_request_event(
                "Heartbeat", 4, HEARTBEAT, request_id="nowhere", reply_partition=99, client_id="test"
            )
            client.write(GROUP.encode(), nowhere)
            described = client.answer(client.send("DescribeGroups", 5, DescribeGroupsRequest(groups=(GROUP,))))
            app.stop()
            assert app.failure is None
            before = len(heartbeats.ids)
            wait_until(lambda: len(heartbeats.ids) > before + 3 * HEARTBEATS_PER_SESSION)
            paused = len(heartbeats.ids) - before
            with RunningApp(config.changed(max_events_per_batch=40), spark) as again:
                wait_until(lambda: len(client.answers().keys() & set(heartbeats.ids)) >= before + paused + 8, TIMEOUT_S)
                heartbeats.stop()
                # At once: who heartbeats no more has one session left.
                wait_until(lambda: client.answers().keys() >= set(heartbeats.ids), TIMEOUT_S)
            assert again.failure is None
    answers = client.answers()
    answers_in_order = [answers[request_id] for request_id in heartbeats.ids]
    topics = config.topics
    rows = records_of_topic(spark, config, topics.events).collect()
    events = [Record(**{name: _plain(row[name]) for name in RECORD_COLUMNS}) for row in rows]
    return Life(
        config, answers_in_order, paused, described, list(read_outputs(config)), app.progress + again.progress, events
    )


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def read_outputs(config: StreamingConfig) -> Iterator[OutputRecord]:
    """All that lies on the output topics, partition by partition."""
    topics = config.topics
    consumer = Consumer({**config.client_properties, "group.id": "test"})
    for topic in topics.outputs:
        for number in consumer.list_topics(topic).topics[topic].partitions:
            place = TopicPartition(topic, number, 0)
            _, high = consumer.get_watermark_offsets(place)
            consumer.assign([place])
            for _ in range(high):
                message = consumer.poll(30.0)
                assert message is not None
                chosen = number if topic in (topics.responses, topics.offsets) else NO_PARTITION
                yield OutputRecord(topic, chosen, message.key(), message.value(), headers_of(message))
    consumer.close()


def history(life: Life) -> list[dict[str, Any]]:
    topic = life.config.topics.history
    records = [json.loads(output.value or b"") for output in life.outputs if output.topic == topic]
    return [record for record in records if record["group_id"] == GROUP]


def test_a_pause_of_three_sessions_expires_nobody(life: Life) -> None:
    assert life.heartbeats_in_the_pause >= 3
    assert {(type(heartbeat), getattr(heartbeat, "error_code", None)) for heartbeat in life.heartbeats} == {
        (HeartbeatResponse, ErrorCode.NONE)
    }
    kinds = Counter(record["type"] for record in history(life))
    assert kinds["member_expired"] == 0
    assert kinds["rebalance_started"] == kinds["group_stable"] == 1


def test_the_clock_goes_on_from_where_it_stood(life: Life) -> None:
    ticks = [
        json.loads(event.value or b"")["clock_ms"] for event in life.events if event.key is None and _is_tick(event)
    ]
    steps = [after - before for before, after in pairwise(ticks)]
    assert max(steps) <= 1.1 * life.config.tick_interval_ms
    assert min(steps) >= 0, "it repeats its tick while it waits for the query, and never goes back"


def test_no_batch_is_without_an_event(life: Life) -> None:
    """A batch without data after each tick would find no timer due, most of the time.

    Spark's first one is of the log as it lies: it may be empty.
    """
    assert [progress for progress in life.progress if not progress.events and progress.batch_id] == []


def test_that_nothing_was_found_is_no_batch(
    spark: SparkSession, kafka: EmbeddedKafka, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Spark reports a first look that finds nothing new as it reports a batch."""
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix="empty",
        checkpoint=str(tmp_path_factory.mktemp("checkpoint")),
        ticker=False,
    )
    client = Client(config)
    for _ in range(2):
        with RunningApp(config, spark) as app:
            wait_until(lambda: any(query.lastProgress is not None for query in spark.streams.active), TIMEOUT_S)
            client.write(b"poison", b"no event")
            wait_until(lambda: any(progress.events for progress in app.progress), TIMEOUT_S)
        assert app.failure is None
    assert [(progress.batch_id, progress.events) for progress in app.progress] == [(2, 1)]


def _is_tick(event: Record) -> bool:
    poisons = {value for _, value in random_log.POISONS}
    return event.value not in poisons and (event.value or b"").startswith(b'{"type":"tick"')


def test_poison_becomes_dead_letters_and_the_query_lives(life: Life) -> None:
    assert getattr(life.described, "groups")[0].group_state == "Stable"  # noqa: B009
    topic = life.config.topics.dead_letters
    letters = {output.headers["offset"]: output for output in life.outputs if output.topic == topic}
    reasons = Counter(letter.headers["reason"] for letter in letters.values())
    assert reasons == {
        "key_not_utf8": 1, "no_key": 2, "malformed_tick": 3, "not_an_envelope": 7, "no_value": 1,
        "no_such_reply_partition": 1,
    }  # fmt: skip
    events = {str(event.offset): event for event in life.events}
    undelivered = [
        letters.pop(offset)
        for offset, dead_letter in list(letters.items())
        if dead_letter.headers["reason"] == "no_such_reply_partition"
    ]
    assert [(record.key, json.loads(record.value or b"")["body"]["error_code"]) for record in undelivered] == [
        (b"nowhere", 0)
    ]
    for offset, letter in letters.items():
        assert (letter.key, letter.value) == (events[offset].key, events[offset].value)
        assert letter.headers["topic"] == life.config.topics.events
        assert letter.headers["timestamp_ms"] == str(events[offset].timestamp_ms)


def test_a_replay_of_the_log_gives_the_same_bytes(life: Life) -> None:
    # Timers that only the last ticks of all have reached are for the next start to fire: the log up to its last
    # request.
    last = max(event.offset or 0 for event in life.events if event.key is not None)
    log = [event for event in life.events if (event.offset or 0) <= last]
    replayed = [output for _, group_outputs in replay_in_process(log, life.config) for output in group_outputs]
    assert {_frozen(output) for output in life.outputs} == {_frozen(record) for record in replayed}
    assert len(life.outputs) == len(replayed), "a clean stop writes nothing twice"


def _frozen(output: OutputRecord) -> Any:
    return output._replace(headers=tuple(sorted(output.headers.items())))  # type: ignore[arg-type]


def test_outputs_of_a_group_lie_in_order(life: Life) -> None:
    for topic in set(life.config.topics.outputs) - {life.config.topics.dead_letters}:
        seqs = [
            int(output.headers["seq"])
            for output in life.outputs
            if output.topic == topic and GROUP in str(output.value)
        ]
        assert seqs == sorted(seqs)


def test_progress_is_told(life: Life) -> None:
    assert max(progress.groups for progress in life.progress) == 1
    assert sum(progress.events for progress in life.progress) >= len(life.heartbeats)
    assert all(progress.batch_ms > 0 for progress in life.progress)
    assert [progress.clock_ms for progress in life.progress] == sorted(progress.clock_ms for progress in life.progress)


@pytest.mark.kafka
def test_an_outage_of_the_broker_for_three_sessions_expires_nobody(
    spark: SparkSession, kafka_jars: Path, tmp_path: Path
) -> None:
    with EmbeddedKafka() as broker:
        config = StreamingConfig(
            bootstrap_servers=broker.bootstrap_servers,
            checkpoint=str(tmp_path),
            responses_partitions=2,
            offsets_partitions=1,
            group_min_session_timeout_ms=2_000,
            group_initial_rebalance_delay_ms=0,
            tick_interval_ms=200,
        )
        with RunningApp(config, spark) as app:
            client = Client(config)
            client.join()
            with Heartbeats(client) as heartbeats:
                wait_until(lambda: bool(client.answers().keys() & set(heartbeats.ids)), TIMEOUT_S)
                broker.kill()
                time.sleep(3 * SESSION_MS / 1_000)  # the member's heartbeats wait for the broker: time alone can tell
                broker.start()
                before = len(heartbeats.ids)
                wait_until(lambda: len(client.answers().keys() & set(heartbeats.ids)) >= before + 5, TIMEOUT_S)
            answers = [client.answer(request_id) for request_id in heartbeats.ids]
        assert app.failure is None
    assert {getattr(answer, "error_code", None) for answer in answers} == {ErrorCode.NONE}


def test_a_query_that_fails_ends_the_app_with_the_cause(
    spark: SparkSession, kafka: EmbeddedKafka, topic_prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(key: object, frames: object, state: object) -> Iterator[Any]:
        raise ZeroDivisionError("a bug of ours")

    monkeypatch.setattr("streaming.job.streaming_operator", lambda config: fail)
    config = StreamingConfig(
        bootstrap_servers=kafka.bootstrap_servers,
        topic_prefix=topic_prefix,
        checkpoint=str(tmp_path),
        offsets_partitions=1,
    )
    with RunningApp(config, spark) as app:
        Client(config).write(b"group", b"{}")
        app.join()
    assert isinstance(app.failure, QueryFailed)
    text = str(app.failure)
    assert "Traceback (most recent call last)" in text
    assert "ZeroDivisionError: a bug of ours" in text
    assert "org.apache.spark" not in text
    with RunningApp(config.changed(shards=2), spark) as failing:
        failing.join()
    assert isinstance(failing.failure, TopicError)
