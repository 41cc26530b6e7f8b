"""`offsets export` and `offsets import` between a coordinator's topics, a replayed history,
Kafka's tool and a real cluster."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from group_coordinator.coordinating.commands.committed_offsets import CommittedOffsets, from_csv
from group_coordinator.coordinating.commands.offsets_target import Target
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_request_event, encode_tick
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from schemas.output_records import OutputRecord
from schemas.records_file import Record, encode_record
from streaming.config import StreamingConfig
from tests.offsets_log.kafka_tools import consumer_groups
from tests.offsets_log.live_topic import make_topics, outputs_of, write

START_MS = 1_767_225_600_000
RECORDS = 10
"""In each partition of the topic that is consumed."""


class Log:
    """A log of events with commits, one a second."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.records: list[Record] = []
        self._now_ms = START_MS

    def commit(self, group_id: str, offsets: dict[int, int]) -> int:
        """Returns the moment of it."""
        self._now_ms += 1_000
        partitions = tuple(
            OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            for index, offset in offsets.items()
        )
        request = OffsetCommitRequest(
            group_id=group_id, topics=(OffsetCommitRequestTopic(name=self.topic, partitions=partitions),)
        )
        number = len(self.records)
        value = encode_request_event(
            "OffsetCommit", 9, request, request_id=f"r-{number}", reply_partition=0, client_id="c"
        )
        self._add(None, encode_tick(self._now_ms))
        self._add(group_id.encode(), value)
        return self._now_ms

    def _add(self, key: bytes | None, value: bytes) -> None:
        self.records.append(
            Record(partition=0, offset=len(self.records), timestamp_ms=self._now_ms, key=key, value=value)
        )


@pytest.fixture
def config(kafka: EmbeddedKafka, topic_prefix: str) -> StreamingConfig:
    return make_topics(kafka.bootstrap_servers, topic_prefix)


def call(config: StreamingConfig, *arguments: str, exit_code: int = 0) -> str:
    """What the command prints, to either stream."""
    flags = [*arguments, "--bootstrap-servers", config.bootstrap_servers]
    result = CliRunner().invoke(app, ["offsets", *flags], env={"TZ": "UTC", "COLUMNS": "200"})
    assert result.exit_code == exit_code, result.output
    return result.output


def rows(printed: str) -> list[list[str]]:
    return [line.split() for line in printed.splitlines() if line.split()]


def make_consumed(config: StreamingConfig, admin: AdminClient, topic: str) -> None:
    for future in admin.create_topics([NewTopic(topic, 2, 1)]).values():
        future.result(30)
    producer = Producer({"log_level": 0, **config.client_properties})
    for number in range(2 * RECORDS):
        producer.produce(topic, b"record", partition=number % 2)
    assert producer.flush(30) == 0


def test_out_of_the_topics_through_kafkas_tool_and_onto_a_cluster(
    kafka: EmbeddedKafka, admin: AdminClient, config: StreamingConfig, tmp_path: Path
) -> None:
    topic = f"{config.topic_prefix}-consumed"
    first_group, second_group = f"{config.topic_prefix}-one", f"{config.topic_prefix}, the other"
    log = Log(topic)
    log.commit(first_group, {0: 1, 1: 1})
    then_ms = log.commit(second_group, {0: 7})
    log.commit(first_group, {1: 5})
    log.commit(second_group, {0: 40, 1: 3})  # 40 lies beyond the end of the partition
    outputs = list(outputs_of(log.records, config))
    write(config, outputs)
    make_consumed(config, admin, topic)
    now: CommittedOffsets = {first_group: {(topic, 0): 1, (topic, 1): 5}, second_group: {(topic, 0): 40, (topic, 1): 3}}
    offsets_then: CommittedOffsets = {first_group: {(topic, 0): 1, (topic, 1): 1}, second_group: {(topic, 0): 7}}

    # Export: now, as of a moment, of one group; from the topics and from the files of a replay the same.
    of_all, of_one, before = export(config, tmp_path, first_group, then_ms)
    assert from_csv(of_all.read_text()) == now
    assert of_one.read_text() == f"{topic},0,1\n{topic},1,5\n"
    assert from_csv(before.read_text()) == offsets_then
    write_as_replayed(tmp_path, outputs)
    assert from_csv(call(config, "export", "--replayed", str(tmp_path))) == now
    assert from_csv(call(config, "export", "--replayed", str(tmp_path), "--at", "2026-01-01T00:00:02Z")) == offsets_then

    # Kafka's own tool takes both forms of the file.
    target = Target(config.client_properties)
    reset = ("--reset-offsets", "--from-file")
    printed = consumer_groups(
        kafka.bootstrap_servers, *reset, str(before), "--group", first_group, "--group", second_group, "--dry-run"
    )
    assert [first_group, topic, "1", "1"] in [row[:4] for row in rows(printed)]
    assert target.committed(first_group) == {}
    consumer_groups(kafka.bootstrap_servers, *reset, str(of_one), "--group", first_group, "--execute")
    assert target.committed(first_group) == now[first_group]

    # Ours: shown first, then done; an offset that the log does not reach is moved to its end, as Kafka's tool does.
    printed_changes = call(config, "import", str(before))
    assert [first_group, topic, "1", "5", "1"] in rows(printed_changes)
    assert [first_group, topic, "0", "1", "1", "unchanged"] in rows(printed_changes)
    assert "would commit 2 offsets of 2 groups" in printed_changes
    assert target.committed(first_group) == now[first_group]
    call(config, "import", str(of_all), "--execute")
    assert target.committed(first_group) == now[first_group]
    assert target.committed(second_group) == {(topic, 0): RECORDS, (topic, 1): 3}
    call(config, "import", str(before), "--group", second_group, "--execute")
    assert target.committed(second_group) == {(topic, 0): 7, (topic, 1): 3}

    require_a_consumer_begins_there_and_keeps_the_group(config, first_group, topic, before)
    require_nothing_is_changed_where_a_partition_is_missing(config, first_group, topic, of_one)


def require_a_consumer_begins_there_and_keeps_the_group(
    config: StreamingConfig, group: str, topic: str, before: Path
) -> None:
    # A real consumer begins where it was told; while it lives, and where a partition does not exist, nothing is
    # changed.
    consumer = Consumer(
        {**config.client_properties, "group.id": group, "log_level": 0, "auto.offset.reset": "earliest"}
    )
    try:
        consumer.subscribe([topic])
        assert first_offsets(consumer.consume(2 * RECORDS - 6, timeout=30)) == {0: 1, 1: 5}
        refused = call(config, "import", str(before), "--execute", exit_code=1)
        assert f"Group '{group}' is stable with 1 members: stop them first." in refused
        assert "Nothing was changed." in refused
    finally:
        consumer.close()


def export(config: StreamingConfig, directory: Path, group_id: str, then_ms: int) -> tuple[Path, Path, Path]:
    """Files with the offsets of all groups, of one group, and of all as of a moment."""
    of_all, of_one, before = (directory / name for name in ("all.csv", "one.csv", "before.csv"))
    prefix = ("--topic-prefix", config.topic_prefix)
    assert "4 offsets of 2 groups" in call(config, "export", *prefix, "--out", str(of_all))
    call(config, "export", *prefix, "--group", group_id, "--out", str(of_one))
    call(config, "export", *prefix, "--at", str(then_ms), "--out", str(before))
    assert "had no committed offsets" in call(config, "export", *prefix, "--group", "nobody", exit_code=1)
    return of_all, of_one, before


def write_as_replayed(directory: Path, outputs: list[OutputRecord]) -> None:
    """The files of a replay that the commands read."""
    for name in ("offsets", "history"):
        topic_records = [output for output in outputs if output.topic.endswith(f".{name}")]
        lines = [encode_record(Record(partition=None, key=record.key, value=record.value)) for record in topic_records]
        (directory / f"{name}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines))


def first_offsets(messages: list[Message]) -> dict[int | None, int]:
    """Partition -> the smallest offset that was read."""
    offsets: dict[int | None, int] = {}
    for message in messages:
        offsets[message.partition()] = min(offsets.get(message.partition(), RECORDS), message.offset() or 0)
    return offsets


def require_nothing_is_changed_where_a_partition_is_missing(
    config: StreamingConfig, group_id: str, topic: str, file: Path
) -> None:
    file.write_text(f"{topic},0,2\n{topic},2,0\nno-such-topic,0,0\n")
    refused = call(config, "import", str(file), "--group", group_id, "--execute", exit_code=1)
    assert f"There is no partition 2 of a topic {topic}." in refused
    assert "There is no partition 0 of a topic no-such-topic." in refused
    assert Target(config.client_properties).committed(group_id)[topic, 0] != 2


def test_a_history_that_does_not_reach_back_says_so(config: StreamingConfig, admin: AdminClient) -> None:
    log = Log("consumed")
    for offset in range(3):
        log.commit("g", {0: offset})
    write(config, outputs_of(log.records, config))
    history = config.topics.history
    for future in admin.delete_records([TopicPartition(history, 0, 2)]).values():
        future.result(30)
    message = call(config, "export", "--topic-prefix", config.topic_prefix, "--at", str(START_MS), exit_code=1)
    assert f"{history} begins at" in message
    assert "is known no more" in message
