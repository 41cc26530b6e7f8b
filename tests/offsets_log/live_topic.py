"""The offsets topic of a coordinator, written by a scripted run of the core:
what the sink would write, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from confluent_kafka import Producer

from coordinator_state import LogRecord
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.ground.kafka_topics.reader import read_topic
from schemas.java_hash import group_partition
from schemas.messages import (
    DeleteGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.replay import replay_in_process
from streaming.topics import ensure_topics
from tests.coordinator_state.harness import GroupHarness, of_type

Pairs = list[tuple[bytes, bytes | None]]


def make_topics(bootstrap_servers: str, prefix: str) -> StreamingConfig:
    """The topics of a coordinator, and its settings."""
    config = StreamingConfig(
        bootstrap_servers=bootstrap_servers, topic_prefix=prefix, offsets_partitions=4, responses_partitions=8,
        group_initial_rebalance_delay_ms=1_000,
    )  # fmt: skip
    ensure_topics(new_admin_client({"bootstrap.servers": bootstrap_servers}), config.topic_settings)
    return config


def outputs_of(log: Iterable[Record], config: StreamingConfig) -> Iterator[OutputRecord]:
    for _, outputs in replay_in_process(log, config):
        yield from outputs


def write(config: StreamingConfig, outputs: Iterable[OutputRecord]) -> None:
    """As the sink does it."""
    producer = Producer({"enable.idempotence": True, "log_level": 0, "linger.ms": 20, **config.client_properties})
    for output in outputs:
        producer.produce(output.topic, output.value, output.key, output.partition, headers=dict(output.headers))
    assert producer.flush(30) == 0


def read(config: StreamingConfig, topic: str) -> Pairs:
    return [(message.key() or b"", message.value()) for message in read_topic(config.client_properties, topic)]


def every_kind_of_record(config: StreamingConfig) -> list[OutputRecord]:
    """Records of one group that have every field of every version that is written, and all tombstones."""
    harness = GroupHarness("every, \"kind\" ö", offset_commit_value_version=config.offset_commit_value_version)
    generation = harness.stable("m1", "m2")
    harness.commit("m1", generation, {("t", 0): 7, ("t", 1): 2**40}, metadata="läuft")
    harness.commit("m1", generation, {("t", 2): 9}, version=3, retention_time_ms=100_000)  # with an expiry of its own
    request_topic = OffsetCommitRequestTopic(
        name="u",
        topic_id="8d1f2f4c-6b1b-4f57-9f0e-0d5a1f0c7b11",
        partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_leader_epoch=5),),
    )
    request = OffsetCommitRequest(
        group_id=harness.group_id, generation_id_or_member_epoch=generation, member_id="m1", topics=(request_topic,)
    )
    harness.send("OffsetCommit", request, 10)
    harness.leave("m1", "m2")
    harness.join(group_instance_id="i1", new_member_id="i1-a", reason="again")
    harness.sleep(0)
    harness.sync("i1-a", generation + 2, {"i1-a": b"\x00\xff"}, group_instance_id="i1")
    harness.leave("i1-a")
    harness.send("DeleteGroups", DeleteGroupsRequest(groups_names=(harness.group_id,)), 2)
    partition = group_partition(harness.group_id, config.offsets_partitions)
    topic = config.topics.offsets
    records = of_type(harness.outputs, LogRecord)
    return [OutputRecord(topic, partition, record.key, record.value, {}) for record in records]
