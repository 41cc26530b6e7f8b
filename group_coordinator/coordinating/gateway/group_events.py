"""One request to one group, on its way to the coordinator."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from schemas.group_metadata_events import TopicMetadata
from schemas.messages import JoinGroupRequest, Request, Response, SyncGroupRequest


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


def without_bulk(event: GroupEvent) -> GroupEvent:
    """Drop the parts of an event that its refusal does not need: a JoinGroup or SyncGroup may wait for minutes."""
    request = event.request
    if isinstance(request, JoinGroupRequest):
        request = replace(request, protocols=())
    elif isinstance(request, SyncGroupRequest):
        request = replace(request, assignments=())
    return replace(event, request=request, topic_metadata=UNSET)
