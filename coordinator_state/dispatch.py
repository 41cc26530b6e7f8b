"""Which handler takes which request and which timer; how each request says no."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator_state import timers
from coordinator_state.rebalance import join_timer_expired, sync_timer_expired
from coordinator_state.requests.delete_groups import delete_groups, delete_groups_error
from coordinator_state.requests.describe_groups import describe_groups, describe_groups_error
from coordinator_state.requests.find_coordinator import find_coordinator, find_coordinator_error
from coordinator_state.requests.heartbeat import heartbeat, heartbeat_error
from coordinator_state.requests.join_group import join_group, join_group_error
from coordinator_state.requests.leave_group import leave_group, leave_group_error
from coordinator_state.requests.offset_commit import offset_commit, offset_commit_error
from coordinator_state.requests.offset_delete import offset_delete, offset_delete_error
from coordinator_state.requests.offset_fetch import offset_fetch, offset_fetch_error
from coordinator_state.requests.sync_group import sync_group, sync_group_error
from coordinator_state.retention import expiry_timer_expired
from coordinator_state.sessions import session_timer_expired
from coordinator_state.timers import Timer
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    Request,
    Response,
    SyncGroupRequest,
)

HANDLERS: dict[type[Any], tuple[Callable[[Turn, Any], None], Callable[[Any, ErrorCode], Response]]] = {
    HeartbeatRequest: (heartbeat, heartbeat_error),
    OffsetCommitRequest: (offset_commit, offset_commit_error),
    JoinGroupRequest: (join_group, join_group_error),
    SyncGroupRequest: (sync_group, sync_group_error),
    LeaveGroupRequest: (leave_group, leave_group_error),
    OffsetFetchRequest: (offset_fetch, offset_fetch_error),
    DescribeGroupsRequest: (describe_groups, describe_groups_error),
    DeleteGroupsRequest: (delete_groups, delete_groups_error),
    OffsetDeleteRequest: (offset_delete, offset_delete_error),
    FindCoordinatorRequest: (find_coordinator, find_coordinator_error),
}
"""What is done for each kind of request, and how it is refused."""


def handle_request(turn: Turn, request: Request) -> None:
    """Hand a request to its handler. Raises `Refusal`."""
    HANDLERS[type(request)][0](turn, request)


def error_response(request: Request, error_code: ErrorCode) -> Response:
    """The answer that refuses a request."""
    return HANDLERS[type(request)][1](request, error_code)


def handle_timer(turn: Turn, name: str, timer: Timer) -> None:
    """Hand a timer that is due to its handler."""
    member_id = timers.member_of(name)
    if member_id is not None:
        session_timer_expired(turn, member_id, timer.armed_ms)
    elif name == timers.JOIN:
        join_timer_expired(turn)
    elif name == timers.SYNC:
        sync_timer_expired(turn)
    else:
        assert name == timers.OFFSETS_EXPIRY
        expiry_timer_expired(turn)
