"""Group requests and responses on the wire, and our messages (`schemas.message_versions`).

A topic that has its id only (OffsetCommit and OffsetFetch v10) has an empty name here.
"""

from __future__ import annotations

from group_coordinator.coordinating.gateway.codec import body_start, response_payload
from group_coordinator.coordinating.gateway.frames import RequestHead
from schemas.kafka.codec import decode
from schemas.message_versions import GroupRequest, GroupResponse, request_of, response_values


def read_request(api: str, head: RequestHead, payload: bytes, items_max: int | None = None) -> GroupRequest:
    """Decode the request in a frame's payload. Raises `schemas.wire.DecodeError`, also for a request of more than
    `items_max` items."""
    message = api + "Request"
    values = decode(message, head.api_version, payload, body_start(message, head, payload), items_max)
    return request_of(api, head.api_version, values)


def write_response(api: str, version: int, correlation_id: int, response: GroupResponse) -> bytes:
    """Encode a response's payload. Raises `schemas.wire.EncodeError` for values that this version does not have."""
    return response_payload(api + "Response", version, correlation_id, response_values(api, version, response))
