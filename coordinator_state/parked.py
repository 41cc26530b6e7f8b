"""Requests that wait for their response."""

from __future__ import annotations

from msgspec import Struct


class ParkedRequest(Struct, array_like=True, frozen=True, gc=False):
    """A request that has no response yet, with all that its response will need."""

    request_id: str
    reply_partition: int
    api_version: int
    offset: int
