"""Answers to a heartbeat, as a responder hands them over and as they lie in Kafka; and answers on the wire, read."""

from __future__ import annotations

from group_coordinator.coordinating.answer_sockets import HandedAnswer
from group_coordinator.coordinating.gateway.codec import response_body_start
from group_coordinator.coordinating.gateway.handover import TopicRecord
from schemas.error_codes import ErrorCode
from schemas.events import ResponseDocument, encode_json
from schemas.kafka.codec import decode
from schemas.message_versions import GroupResponse, response_of
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


def read_response(api: str, version: int, payload: bytes) -> GroupResponse:
    """Return a response on the wire, header included. What its version does not say has our default, or is empty."""
    message = f"{api}Response"
    return response_of(api, version, decode(message, version, payload, response_body_start(message, version)))
