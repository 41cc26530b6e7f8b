"""Whatever a hostile sender can make grow has a limit: a setting, Kafka's own error code, and a count of those refused.

All sizes are those of the default settings unless the test sets them lower.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from coordinator_state import GroupConfig
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.error_codes import ErrorCode
from schemas.events import encode_request_event, encode_tick
from schemas.messages import (
    JoinGroupProtocol,
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    Request,
    SyncGroupAssignment,
    SyncGroupRequest,
)
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.replay import replay_in_process
from tests.coordinating.operations.tally_bench import Bench, bench
from tests.offsets_log.live_topic import make_topics

START_MS = 1_700_000_000_000


def join(
    *protocols: tuple[str, bytes], session_timeout_ms: int = 10_000, client_id: str = "c"
) -> tuple[str, int, Request, str]:
    request = JoinGroupRequest(
        group_id="g", session_timeout_ms=session_timeout_ms, protocol_type="consumer",
        protocols=tuple(JoinGroupProtocol(name=name, metadata=data) for name, data in protocols or (("range", b""),)),
    )  # fmt: skip
    return "JoinGroup", 3, request, client_id


def commit(partitions: int, metadata: str = "") -> tuple[str, int, Request, str]:
    commit_partitions = tuple(
        OffsetCommitRequestPartition(partition_index=number, committed_offset=1, committed_metadata=metadata)
        for number in range(partitions)
    )
    return (
        "OffsetCommit",
        7,
        OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=commit_partitions),)),
        "c",
    )


def sync(size: int) -> tuple[str, int, Request, str]:
    assignments = (SyncGroupAssignment(member_id="m0", assignment=bytes(size)),)
    return "SyncGroup", 3, SyncGroupRequest(group_id="g", generation_id=1, member_id="m0", assignments=assignments), "c"


def coordinate(config: StreamingConfig, *requests: tuple[str, int, Request, str]) -> tuple[list[Any], Bench]:
    """The answers in order of their requests, and what was counted."""
    values: list[tuple[bytes | None, bytes]] = [(None, encode_tick(START_MS))]
    for number, (api, version, request, client_id) in enumerate(requests):
        event = encode_request_event(
            api, version, request, request_id=str(number), reply_partition=0, client_id=client_id,
            new_member_id=f"m{number}",
        )  # fmt: skip
        values += [(b"g", event), (None, encode_tick(START_MS + 1_000 * (number + 1)))]
    log = [
        Record(partition=0, offset=number, timestamp_ms=START_MS, key=key, value=value)
        for number, (key, value) in enumerate(values)
    ]
    outputs = [record for _, records in replay_in_process(log, config) for record in records]
    counted = bench()
    counted.count(log, outputs)
    answers = [json.loads(record.value or b"") for record in outputs if record.topic.endswith(".responses")]
    return [answer["body"] for answer in sorted(answers, key=lambda answer: int(answer["request_id"]))], counted


def config(**group: Any) -> StreamingConfig:
    return StreamingConfig(responses_partitions=1, offsets_partitions=1, group_initial_rebalance_delay_ms=0, **group)


def test_members() -> None:
    answers, counted = coordinate(config(group_max_size=1), join(), join())
    assert answers[-1]["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert counted.value(m.REFUSALS, api="JoinGroup", rule="group_is_full", error="GROUP_MAX_SIZE_REACHED") == 1


def test_metadata_of_members() -> None:
    answers, counted = coordinate(config(), join(("range", bytes(700_000))), join(("range", bytes(700_000))))
    assert answers[-1]["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert counted.value(m.REFUSALS, api="JoinGroup", rule="group_is_too_large", error="GROUP_MAX_SIZE_REACHED") == 1


def test_ids_of_members() -> None:
    answers, _ = coordinate(config(group_max_bytes=10_000), join(), *(join(client_id="c" * 3_000) for _ in range(6)))
    assert answers[-1]["error_code"] == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_protocols() -> None:
    protocols = [(f"p{number}", b"") for number in range(GroupConfig().member_max_protocols + 1)]
    answers, counted = coordinate(config(), join(*protocols), join(*protocols[1:]))
    assert [answer["error_code"] for answer in answers] == [ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.NONE]
    assert (
        counted.value(m.REFUSALS, api="JoinGroup", rule="too_many_protocols", error="INCONSISTENT_GROUP_PROTOCOL") == 1
    )


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, 2**31 - 1, -1])
def test_sessions(session_timeout_ms: int) -> None:
    answers, counted = coordinate(config(), join(session_timeout_ms=session_timeout_ms))
    assert answers[-1]["error_code"] == ErrorCode.INVALID_SESSION_TIMEOUT
    assert (
        counted.value(
            m.REFUSALS, api="JoinGroup", rule="session_timeout_out_of_bounds", error="INVALID_SESSION_TIMEOUT"
        )
        == 1
    )


def test_assignments() -> None:
    answers, counted = coordinate(config(group_max_bytes=5_000), join(), sync(6_000))
    assert answers[-1]["error_code"] == ErrorCode.UNKNOWN_SERVER_ERROR
    assert counted.value(m.ANSWERS, api="SyncGroup", error="UNKNOWN_SERVER_ERROR") == 1


def test_offsets_of_a_group() -> None:
    answers, counted = coordinate(config(group_offsets_max_bytes=310), commit(5))
    (topic,) = answers[-1]["topics"]
    refused = ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert [partition["error_code"] for partition in topic["partitions"]] == [0, 0, 0, refused, refused]
    assert (
        counted.value(m.REFUSALS, api="OffsetCommit", rule="too_many_offsets", error="INVALID_COMMIT_OFFSET_SIZE") or 0
    ) >= 1


def test_metadata_of_offsets() -> None:
    answers, counted = coordinate(config(), commit(1, metadata="x" * 4_097))
    (topic,) = answers[-1]["topics"]
    assert topic["partitions"][0]["error_code"] == ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert (
        counted.value(m.REFUSALS, api="OffsetCommit", rule="metadata_too_long", error="OFFSET_METADATA_TOO_LARGE") == 1
    )


def test_strings() -> None:
    """Longer than the offsets log can hold: no answer could name it."""
    answers, counted = coordinate(config(), join(client_id="c" * 40_000))
    assert answers == []
    assert counted.value(m.DEAD_LETTERS, reason="string_too_long") == 1


def test_events(kafka: EmbeddedKafka, topic_prefix: str) -> None:
    """The broker refuses an event of more than `event_max_bytes`, before the log has it."""
    settings = make_topics(kafka.bootstrap_servers, topic_prefix)
    producer = Producer({"message.max.bytes": 10_000_000, "log_level": 0, **settings.client_properties})
    errors: list[KafkaError | None] = []
    for size in (settings.event_max_bytes - 1_000, settings.event_max_bytes + 1_000):
        producer.produce(
            settings.topics.events,
            key=b"g",
            value=bytes(size),
            on_delivery=lambda error, _: errors.append(error),
        )
        try:
            producer.flush(
                30
            )  # one at a time: the first may have to be sent again, while the leader of a new topic is not known
        except KafkaException as problem:
            pytest.fail(str(problem))
    assert errors[0] is None
    assert errors[1] is not None
    assert errors[1].code() == KafkaError.MSG_SIZE_TOO_LARGE
