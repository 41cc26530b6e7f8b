"""A group request on its way from its connection to its answer."""

from __future__ import annotations

from msgspec import Struct

from gateway.translation import GroupRequest


class Asked(Struct, frozen=True, kw_only=True):
    """A group request that waits for its answer."""

    number: int
    """Names it on this connection."""
    api: str
    api_version: int
    client_id: str
    client_host: str
    """The client's address."""
    principal: str
    request: GroupRequest
    size: int = 0
    """Its bytes on the wire."""
