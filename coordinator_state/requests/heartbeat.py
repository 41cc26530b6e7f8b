"""Heartbeat: API key 12, versions 0-4 (3: group instance id)."""

from __future__ import annotations

from coordinator_state import timers
from coordinator_state.errors import require_generation, require_group, require_group_id, require_member
from coordinator_state.rebalance import told_of_rebalance
from coordinator_state.states import GroupState
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatRequest, HeartbeatResponse

_ALL_IS_WELL = HeartbeatResponse()
_REJOIN = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(turn: Turn, request: HeartbeatRequest) -> None:
    """The member lives: its session starts anew. In PreparingRebalance it learns that it must rejoin."""
    require_group_id(request.group_id)
    group = require_group(turn.group)
    member = require_member(group, request.member_id, request.group_instance_id)
    require_generation(group, request.generation_id)
    turn.arm(timers.session(member.member_id), member.session_timeout_ms)
    if group.state is GroupState.PREPARING_REBALANCE:
        told_of_rebalance(turn, member.member_id)
        turn.answer(_REJOIN)
    else:
        turn.answer(_ALL_IS_WELL)


def heartbeat_error(request: HeartbeatRequest, error_code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=error_code)
