"""What a coordinator wrote, as a reader takes it that drops what it has seen; and what it should have written."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import KafkaException, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from schemas.kafka.records import decode_record
from schemas.output_records import NO_PARTITION, OutputRecord
from schemas.query_progress import DECIDED_AT_HEADER, GATEWAY_PREFIX, WRITER_HEADER
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.replay import replay_in_process


class Stream(NamedTuple):
    """The records of one group on one topic: within it order may be relied on. Dead letters go by their key."""

    topic: str
    group_id: str


class Name(NamedTuple):
    """What identifies an output of a group for ever. A dead letter: its origin."""

    epoch: int
    seq: int


Outputs = dict[Stream, list[tuple[Name, OutputRecord]]]
"""The outputs of each stream, each once, in order."""


class Written(NamedTuple):
    """What lies in the topics."""

    outputs: Outputs
    repeated: int
    """Records that were written again, to the byte the same."""


def events_of(config: StreamingConfig) -> list[Record]:
    """The log, as the events topic has it."""
    return [
        Record(
            partition=message.partition(), offset=message.offset(), timestamp_ms=message.timestamp()[1],
            key=message.key(), value=message.value(),
        )
        for message in read_topic(config.client_properties, config.topics.events)
    ]  # fmt: skip


def expected_of(config: StreamingConfig, log: Iterable[Record]) -> Outputs:
    """What an undisturbed coordinator writes: the core over the whole log, without Spark or batches."""
    outputs: Outputs = defaultdict(list)
    for _, records in replay_in_process(log, config):
        for record in records:
            outputs[_stream(record, config)].append((_name(record), record))
    for output in outputs.values():
        output.sort(key=lambda named_record: named_record[0])
    return dict(outputs)


def written_of(config: StreamingConfig) -> Written:
    """What a careful reader makes of the output topics.

    It remembers the last (epoch, seq) of each stream and partition and drops what is not beyond it. It passes over what
    a gateway has written. Fails when a name ever stands for other bytes than before.
    """
    first_records: dict[tuple[Stream, Name], OutputRecord] = {}
    last: dict[tuple[Stream, int], Name] = {}
    outputs: Outputs = defaultdict(list)
    repeated = 0
    for topic in config.topics.outputs:
        for message in read_topic(config.client_properties, topic):
            partition = message.partition()
            assert partition is not None
            if headers_of(message).get(WRITER_HEADER, "").startswith(GATEWAY_PREFIX):
                continue
            record = OutputRecord(topic, partition, message.key(), message.value(), _own_headers(message))
            stream, name = _stream(record, config), _name(record)
            before = first_records.setdefault((stream, name), record)
            assert before == record, f"{stream} {name} is written twice with different bytes"
            if (stream, partition) in last and name <= last[stream, partition]:
                repeated += 1
                continue
            last[stream, partition] = name
            outputs[stream].append((name, record))
    for output in outputs.values():
        output.sort(key=lambda named_record: named_record[0])  # over the partitions of a topic there is no order
    return Written(dict(outputs), repeated)


def _own_headers(message: Message) -> dict[str, str]:
    """The headers of an output, whoever wrote it."""
    return {
        name: text for name, text in headers_of(message).items() if name not in (WRITER_HEADER, DECIDED_AT_HEADER)
    }


def answers_of_responders(config: StreamingConfig) -> int:
    """The number of answers that responders have written, repeats included."""
    responses = read_topic(config.client_properties, config.topics.responses)
    return sum(WRITER_HEADER in headers_of(message) for message in responses)


def has_written(config: StreamingConfig, count_expected: int) -> bool:
    """Whether there are so many outputs, or more; not while the broker or its topics are just starting."""
    with suppress(KafkaException):
        return records_so_far(config) >= count_expected and count(written_of(config).outputs) >= count_expected
    return False


def records_so_far(config: StreamingConfig, *but: str) -> int:
    """The ends of all output topics `but` these together, repetitions and all: cheap to ask for, again and again."""
    settings = config.topic_settings
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = {
        TopicPartition(getattr(settings.topics, stream), number): latest
        for stream in ("responses", "assignments", "offsets", "history", "dead_letters")
        if stream not in but
        for number in range(getattr(settings, f"{stream}_partitions"))
    }
    admin = new_admin_client(config.client_properties)
    return sum(future.result().offset for future in admin.list_offsets(ends, request_timeout=10.0).values())


def require_same(written: Outputs, expected: Outputs) -> None:
    """Fails, and says where, unless every output is there, once, with the bytes that it should have."""
    assert written.keys() == expected.keys()
    for stream, expected_records in expected.items():
        written_records = written[stream]
        assert [name for name, _ in written_records] == [name for name, _ in expected_records], stream
        for (name, record), (_, expected_record) in zip(written_records, expected_records, strict=True):
            anywhere = expected_record.partition == NO_PARTITION
            assert record == (expected_record._replace(partition=record.partition) if anywhere else expected_record), (
                f"{stream} {name}"
            )


def count(outputs: Outputs) -> int:
    return sum(map(len, outputs.values()))


def _stream(record: OutputRecord, config: StreamingConfig) -> Stream:
    topics = config.topics
    key = record.key or b""
    if record.topic == topics.dead_letters:
        return Stream(record.topic, repr(record.key))
    if record.topic == topics.responses:
        return Stream(record.topic, json.loads(record.value or b"")["group_id"])
    if record.topic == topics.offsets:
        return Stream(record.topic, group_id_of(key))
    return Stream(record.topic, key.decode())


def group_id_of(key: bytes) -> str:
    """The group of a record of the offsets log, of any type."""
    record = decode_record(key, None)
    assert not isinstance(record, int), f"record type {record}"
    group_id: str = record.key["group"] if "group" in record.key else record.key["group_id"]
    return group_id


def _name(record: OutputRecord) -> Name:
    headers = record.headers
    if "seq" in headers:
        return Name(int(headers["epoch"]), int(headers["seq"]))
    return Name(int(headers["partition"]), int(headers["offset"]))
