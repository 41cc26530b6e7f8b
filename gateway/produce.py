"""The one thing that must be known of a Produce: whether it will have an answer. Source: Kafka's ProduceRequest, v0 to v9."""

from __future__ import annotations

from gateway.frames import RequestHead
from schemas.wire import STRING_SIZE_MAX, DecodeError, Reader

BEGINNING_BYTES_MAX = 10 + 2 * STRING_SIZE_MAX + 1_024
"""Enough for a request's header and for a Produce's transactional id."""
NO_ACKS = 0
_TRANSACTIONAL = 3
_FLEXIBLE = 9


def acks_of(head: RequestHead, beginning: bytes) -> int | None:
    """How many brokers must have it before it is answered, `NO_ACKS`: it is not; None: more of it is needed.

    Raises DecodeError.
    """
    flexible = head.api_version >= _FLEXIBLE
    reader = Reader(beginning)
    reader.position = head.size
    try:
        if flexible:
            reader.tagged_fields()
        if head.api_version >= _TRANSACTIONAL:
            reader.nullable_string(flexible)
        return reader.int16()
    except DecodeError:
        if len(beginning) >= BEGINNING_BYTES_MAX:
            raise
        return None
