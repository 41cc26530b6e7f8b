"""Requests and responses whole, header and body: their bodies are read and written by `schemas.kafka.codec`.

Source: Kafka's protocol guide, KIP-482.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from group_coordinator.coordinating.gateway.frames import RequestHead
from schemas.kafka.codec import NO_TAGS, encode, is_flexible
from schemas.wire import INT16, INT32, Reader, encode_nullable_string, pack


def body_start(message: str, head: RequestHead, payload: bytes) -> int:
    """Return where the body of a request begins, after its header and the header's tags. Raises `DecodeError`."""
    if not is_flexible(message, head.api_version):
        return head.size
    reader = Reader(payload)
    reader.position = head.size
    reader.tagged_fields()
    return reader.position


def request_payload(message: str, head: RequestHead, values: Mapping[str, Any]) -> bytes:
    """Encode a whole request of a client without a name: header and body, without its length. Raises `EncodeError`."""
    tags = NO_TAGS if is_flexible(message, head.api_version) else b""
    header = (
        INT16.pack(head.api_key)
        + INT16.pack(head.api_version)
        + INT32.pack(head.correlation_id)
        + encode_nullable_string(None)
    )
    return header + tags + encode(message, head.api_version, values)


def response_payload(message: str, version: int, correlation_id: int, values: Mapping[str, Any]) -> bytes:
    """Encode a whole response: header and body, without its length. Raises `EncodeError`."""
    tags = NO_TAGS if is_flexible(message, version) else b""
    return pack(INT32, correlation_id) + tags + encode(message, version, values)


def response_body_start(message: str, version: int) -> int:
    """Return where the body of a response begins whose header has no tags, as brokers write it."""
    return INT32.size + (1 if is_flexible(message, version) else 0)
