"""One request to one group, on its way to the coordinator."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET, Struct, UnsetType

from schemas.group_metadata_events import TopicMetadata
from schemas.messages import Request, Response


class GroupEvent(Struct, frozen=True, kw_only=True):
    """One request to one group, for the coordinator."""

    group_id: str
    api: str
    api_version: int
    client_id: str
    client_host: str
    """As Java prints an address: with a leading slash."""
    new_member_id: str | None
    request: Request
    size: int = 0
    """Bytes of the client's request on the wire."""
    principal: str = ""
    """The client's."""
    waited_ms: float = 0.0
    """So long the client waits already."""
    topic_metadata: TopicMetadata | UnsetType = UNSET
    """What the group is to be told of topics with it."""


OnAnswer = Callable[[Response], None]
