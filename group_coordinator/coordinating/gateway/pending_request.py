"""A group request is pending between its connection and its answer."""

from __future__ import annotations

from msgspec import Struct

from group_coordinator.coordinating.gateway.frames import RequestHead
from group_coordinator.coordinating.gateway.group_configs import CONFIG_APIS, ConfigsRequest, ConfigsResponse
from group_coordinator.coordinating.gateway.versions import ANSWERED_APIS
from schemas.message_versions import GroupRequest, GroupResponse
from schemas.messages import JoinGroupRequest, SyncGroupRequest

MAY_BE_PARKED = (JoinGroupRequest, SyncGroupRequest)
"""Their answers may wait for other members of the group."""


AnyRequest = GroupRequest | ConfigsRequest
AnyResponse = GroupResponse | ConfigsResponse


class PendingRequest(Struct, frozen=True, kw_only=True):
    """This group request waits for its answer."""

    number: int
    """Names it in this process (`answer_order`)."""
    api: str
    api_version: int
    client_id: str
    client_host: str
    """The client's address."""
    principal: str
    request: AnyRequest
    size: int = 0
    """Its bytes on the wire."""


def pending_request(
    number: int, head: RequestHead, request: AnyRequest, size: int, client_host: str, principal: str
) -> PendingRequest:
    """Return the pending request of this header."""
    return PendingRequest(
        number=number,
        api=ANSWERED_APIS.get(head.api_key) or CONFIG_APIS[head.api_key],
        api_version=head.api_version,
        client_id=head.client_id or "",
        client_host=client_host,
        principal=principal,
        request=request,
        size=size,
    )
