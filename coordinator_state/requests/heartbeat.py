"""Heartbeat: API key 12, versions 0-4 (3: group instance id)."""

from __future__ import annotations

from coordinator_state import states, timers
from coordinator_state.errors import require_generation, require_group, require_group_id, require_member
from coordinator_state.outputs import Answer, RequestEvent
from coordinator_state.rebalance import told_of_rebalance
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.messages import APIS, HeartbeatRequest, HeartbeatResponse

_VERSIONS = frozenset(range(APIS["Heartbeat"].min_version, APIS["Heartbeat"].max_version + 1))
_ALL_IS_WELL = HeartbeatResponse()
_REJOIN = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(turn: Turn, request: HeartbeatRequest) -> None:
    """The member lives: its session starts anew. In PreparingRebalance it learns that it must rejoin."""
    require_group_id(request.group_id)
    group = require_group(turn.group)
    member = require_member(group, request.member_id, request.group_instance_id)
    require_generation(group, request.generation_id)
    turn.arm(timers.session(member.member_id), member.session_timeout_ms)
    if group.state is states.PREPARING_REBALANCE:
        told_of_rebalance(turn, member.member_id)
        turn.answer(_REJOIN)
    else:
        turn.answer(_ALL_IS_WELL)


def beat(turn: Turn, event: RequestEvent, request: HeartbeatRequest) -> bool:
    """The short way of nearly all heartbeats: one that changes nothing but its member's deadline.

    False, and nothing done: it must go the long way, through a turn of its own and `heartbeat`.
    """
    group = turn.group
    if (
        group is None
        or group.state is states.PREPARING_REBALANCE
        or request.generation_id != group.generation_id
        or request.group_instance_id is not None
    ):
        return False
    member_id = request.member_id
    member = group.members.get(member_id)
    envelope = event.envelope
    api_version = envelope.api_version
    if member is None or api_version not in _VERSIONS:
        return False
    now_ms, clock_ms, earliest_ms = group.now_ms, event.clock_ms, turn.earliest_ms
    if now_ms < clock_ms:
        now_ms = clock_ms
    if now_ms >= earliest_ms:
        return False
    group.now_ms = now_ms
    group.timestamp_ms = event.timestamp_ms
    group.seq = seq = group.seq + 1
    deadline_ms = now_ms + member.session_timeout_ms
    if deadline_ms < earliest_ms:
        turn.earliest_ms = deadline_ms
    offset = event.offset
    name = timers.SESSION_PREFIX + member_id
    armed = group.timers
    armed.pop(name, None)
    armed[name] = timers.Timer(deadline_ms, now_ms, offset)
    turn.outputs.append(
        Answer(
            turn.group_id,
            group.epoch,
            seq,
            now_ms,
            envelope.request_id,
            envelope.reply_partition,
            "Heartbeat",
            api_version,
            offset,
            _ALL_IS_WELL,
        )
    )
    return True
