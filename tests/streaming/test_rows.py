"""Outputs as producer records, and what happens to those that no topic takes."""

from __future__ import annotations

import json

import pytest
from msgspec import structs

from coordinator_state import Answer, AssignmentChange, GroupConfig, LogRecord
from group_coordinator.ground.settings.topic_names import Topics
from schemas.error_codes import ErrorCode
from schemas.events import EventError, EventProblem, decode_response_event
from schemas.history import Cause, GroupCreated
from schemas.messages import (
    HeartbeatResponse,
    JoinGroupResponse,
    JoinGroupResponseMember,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponseTopic,
)
from schemas.output_records import NO_PARTITION, OutputRecord
from streaming.operator_config import OperatorConfig
from streaming.reply_partitions import ReplyPartitions
from streaming.rows import EventRow, dead_letter, output_batch, output_frame, output_record

CONFIG = OperatorConfig(
    group=GroupConfig(),
    topics=Topics.of_prefix("c"),
    partition=2,
    reply_partitions=ReplyPartitions("responses", 8),
    offsets_partitions=50,
    output_max_bytes=10_000,
)
ANSWER = Answer("g", 7, 3, 1_000, "request", 5, "Heartbeat", 4, 9, HeartbeatResponse())
HISTORY = GroupCreated(
    group_id="g", epoch=7, seq=2, time_ms=1, timestamp_ms=1, generation_id=0,
    cause=Cause(kind="request", partition=2, offset=9),
)  # fmt: skip
NAMES = {"epoch": "7", "seq": "3"}


def test_an_answer_goes_to_the_partition_that_its_sender_reads() -> None:
    record = output_record(ANSWER, CONFIG)
    assert (record.topic, record.partition, record.key, record.headers) == ("c.responses", 5, b"request", NAMES)
    envelope, response = decode_response_event(record.value or b"")
    assert (envelope.group_id, envelope.answers_offset, envelope.seq, response) == ("g", 9, 3, HeartbeatResponse())


def test_a_log_record_goes_where_kafka_would_put_it_and_names_its_cause() -> None:
    record = output_record(LogRecord("g", 7, 3, 1_000, 9, b"key", None), CONFIG)
    # "g".hashCode() = 103.
    assert record == OutputRecord("c.offsets", 103 % 50, b"key", None, NAMES | {"partition": "2", "offset": "9"})


def test_a_group_that_is_gone_is_a_tombstone() -> None:
    assert output_record(AssignmentChange("g", 7, 3, None), CONFIG) == OutputRecord(
        "c.assignments", NO_PARTITION, b"g", None, NAMES
    )


def test_history_goes_by_group() -> None:
    record = output_record(HISTORY, CONFIG)
    assert (record.topic, record.key, record.headers["seq"]) == ("c.history", b"g", "2")
    assert json.loads(record.value or b"")["type"] == "group_created"


def large_fetch(metadata: str) -> OffsetFetchResponse:
    topics = (OffsetFetchResponseTopic(name=metadata, partitions=()),)
    return OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=topics),))


LARGE_JOIN = JoinGroupResponse(members=(JoinGroupResponseMember(member_id="m", metadata=b"x" * 20_000),))


@pytest.mark.parametrize(("api", "response"), [("OffsetFetch", large_fetch("x" * 20_000)), ("JoinGroup", LARGE_JOIN)])
def test_an_answer_that_is_too_large_is_an_error_answer(api: str, response: object) -> None:
    record = output_record(structs.replace(ANSWER, api=api, response=response), CONFIG)
    assert (record.topic, record.partition, record.key) == ("c.responses", 5, b"request")
    assert record.size_bytes <= CONFIG.output_max_bytes
    _, answer = decode_response_event(record.value or b"")
    carrier = answer.groups[0] if isinstance(answer, OffsetFetchResponse) else answer
    assert getattr(carrier, "error_code", None) is ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.mark.parametrize(
    ("output", "topic"),
    [
        (LogRecord("g", 7, 3, 1_000, 9, b"key", b"x" * 20_000), "c.offsets"),
        (LogRecord("g", 7, 3, 1_000, 9, b"x" * 20_000, b""), "c.offsets"),
        (structs.replace(HISTORY, cause=structs.replace(HISTORY.cause, reason="x" * 20_000)), "c.history"),
        (structs.replace(ANSWER, request_id="x" * 20_000), "c.responses"),
    ],
)
def test_any_other_output_that_is_too_large_is_told_by_a_dead_letter(
    output: LogRecord | GroupCreated | Answer, topic: str
) -> None:
    record = output_record(output, CONFIG)
    assert (record.topic, record.value) == ("c.dead-letters", None)
    assert record.headers["reason"] == "output_too_large"
    assert (record.headers["topic"], record.headers["seq"]) == (topic, str(output.seq))
    assert record.size_bytes <= CONFIG.output_max_bytes


def test_a_dead_letter_is_the_event_itself_with_its_origin() -> None:
    problem = EventError(EventProblem.BAD_BODY, "d" * 5_000)
    record = dead_letter(b"\xff", EventRow(9, 1, 77, b"value"), problem, CONFIG)
    assert (record.topic, record.key, record.value) == ("c.dead-letters", b"\xff", b"value")
    assert record.headers == {
        "reason": "bad_body", "detail": "d" * 1_000, "topic": "c.events", "partition": "2", "offset": "9",
        "timestamp_ms": "77",
    }  # fmt: skip


def test_a_frame_has_no_nulls_that_would_make_numbers_floats() -> None:
    frame = output_frame(
        [(None, [output_record(ANSWER, CONFIG), output_record(AssignmentChange("g", 7, 4, None), CONFIG)])]
    )
    assert str(frame["partition"].dtype) == "int32"
    assert frame["partition"].tolist() == [5, -1]
    assert frame["value"].tolist()[1] is None
    assert json.loads(frame["headers"][0]) == NAMES
    assert output_frame([(b"g", [])]).empty


def test_an_arrow_batch_is_the_same_rows() -> None:
    outputs = [
        (None, [output_record(ANSWER, CONFIG)]),
        (b"g", [output_record(AssignmentChange("g", 7, 4, None), CONFIG)]),
    ]
    assert output_batch(outputs).to_pylist() == output_frame(outputs).to_dict("records")
