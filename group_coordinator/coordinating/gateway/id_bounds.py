"""Ids that are longer than Kafka's clients could need are refused: each is kept, and written again and again.

So are expressions whose compilation would keep all others waiting. Kafka itself takes any string of up to 32,767 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from group_coordinator.coordinating.gateway.config import Bounds
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.events import MEMBER_ID_SUFFIX_BYTES
from schemas.message_versions import GroupRequest
from schemas.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)


def ids_problem(request: GroupRequest, client_id: str, bounds: Bounds) -> ErrorCode | None:
    """Return the code by which a request is refused because an id or expression in it is too long; None: none is.

    Whoever only looks at groups, leaves or deletes may name any, so that what is there can be seen and removed.
    """
    if isinstance(request, FindCoordinatorRequest | ListGroupsRequest):
        return None
    id_bytes_max = bounds.id_bytes_max
    if any(is_too_long(group_id, id_bytes_max) for group_id in _groups(request)):
        return ErrorCode.INVALID_GROUP_ID
    if is_too_long(client_id, id_bytes_max) or any(is_too_long(name, id_bytes_max) for name in _names(request)):
        return ErrorCode.INVALID_REQUEST
    # A member id that the coordinator gives out is the client id or the instance id with a UUID behind it.
    member_bytes_max = id_bytes_max + MEMBER_ID_SUFFIX_BYTES
    if any(is_too_long(member_id, member_bytes_max) for member_id in _members(request)):
        return ErrorCode.INVALID_REQUEST
    expression = request.subscribed_topic_regex if isinstance(request, ConsumerGroupHeartbeatRequest) else None
    return ErrorCode.INVALID_REGULAR_EXPRESSION if is_too_long(expression, bounds.regex_bytes_max) else None


def is_too_long(name: str | None, bytes_max: int) -> bool:
    """Return whether a name has more bytes than this in UTF-8."""
    if name is None or 4 * len(name) <= bytes_max:
        return False
    return len(name) > bytes_max or len(name.encode(errors="replace")) > bytes_max


def _groups(request: GroupRequest) -> Iterator[str]:
    match request:
        case (
            JoinGroupRequest() | SyncGroupRequest() | HeartbeatRequest() | OffsetCommitRequest()
            | ConsumerGroupHeartbeatRequest()
        ):  # fmt: skip
            yield request.group_id
        case OffsetFetchRequest():
            yield from (group.group_id for group in request.groups)


def _members(request: GroupRequest) -> Iterator[str | None]:
    match request:
        case (
            JoinGroupRequest() | SyncGroupRequest() | HeartbeatRequest() | OffsetCommitRequest()
            | ConsumerGroupHeartbeatRequest()
        ):  # fmt: skip
            yield request.member_id
        case OffsetFetchRequest():
            yield from (group.member_id for group in request.groups)


def _names(request: GroupRequest) -> Iterator[str | None]:
    """Yield what else is kept of a member."""
    match request:
        case JoinGroupRequest():
            yield request.group_instance_id
            yield request.protocol_type
            yield from (protocol.name for protocol in request.protocols)
        case SyncGroupRequest():
            yield from (request.group_instance_id, request.protocol_type, request.protocol_name)
        case HeartbeatRequest() | OffsetCommitRequest():
            yield request.group_instance_id
        case ConsumerGroupHeartbeatRequest():
            yield from (request.instance_id, request.rack_id, request.server_assignor)
