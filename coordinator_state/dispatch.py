"""Which handler takes which request and which timer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coordinator_state import timers
from coordinator_state.rebalance import join_timer_expired, sync_timer_expired
from coordinator_state.requests.delete_groups import delete_groups
from coordinator_state.requests.describe_groups import describe_groups
from coordinator_state.requests.find_coordinator import find_coordinator
from coordinator_state.requests.heartbeat import heartbeat
from coordinator_state.requests.join_group import join_group
from coordinator_state.requests.leave_group import leave_group
from coordinator_state.requests.offset_commit import offset_commit
from coordinator_state.requests.offset_delete import offset_delete
from coordinator_state.requests.offset_fetch import offset_fetch
from coordinator_state.requests.sync_group import sync_group
from coordinator_state.retention import expiry_timer_expired
from coordinator_state.sessions import session_timer_expired
from coordinator_state.timers import Timer
from coordinator_state.turn import Turn
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
    SyncGroupRequest,
)

HANDLERS: dict[type[Any], Callable[[Turn, Any], None]] = {
    HeartbeatRequest: heartbeat,
    OffsetCommitRequest: offset_commit,
    JoinGroupRequest: join_group,
    SyncGroupRequest: sync_group,
    LeaveGroupRequest: leave_group,
    OffsetFetchRequest: offset_fetch,
    DescribeGroupsRequest: describe_groups,
    DeleteGroupsRequest: delete_groups,
    OffsetDeleteRequest: offset_delete,
    FindCoordinatorRequest: find_coordinator,
}
"""What is done for each kind of request."""


def handle_request(turn: Turn, request: Request) -> None:
    """Hand a request to its handler. Raises `Refusal`."""
    HANDLERS[type(request)](turn, request)


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
