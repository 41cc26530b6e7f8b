"""Answers to a heartbeat, as a responder hands them over and as they lie in Kafka."""

from __future__ import annotations

from group_coordinator.coordinating.answer_sockets import HandedAnswer
from group_coordinator.coordinating.gateway.handover import TopicRecord
from schemas.error_codes import ErrorCode
from schemas.events import ResponseDocument, encode_json
from schemas.messages import HeartbeatResponse
from schemas.query_progress import DECIDED_AT_HEADER, WRITER_HEADER

HEADERS = {"epoch": "0", "seq": "1", WRITER_HEADER: "responder-7", DECIDED_AT_HEADER: "12"}


def value_of(request_id: str, error_code: ErrorCode = ErrorCode.NONE) -> bytes:
    document = ResponseDocument(
        request_id=request_id, group_id="g", epoch=0, seq=1, api="Heartbeat", api_version=4, answers_offset=1,
        time_ms=0, body=HeartbeatResponse(error_code=error_code),
    )  # fmt: skip
    return encode_json(document)


def handed(request_id: str, error_code: ErrorCode = ErrorCode.NONE) -> HandedAnswer:
    return HandedAnswer(request_id.encode(), value_of(request_id, error_code), HEADERS)


def in_kafka(request_id: str, error_code: ErrorCode = ErrorCode.NONE) -> TopicRecord:
    return TopicRecord(request_id.encode(), value_of(request_id, error_code), 0)
