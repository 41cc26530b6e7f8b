"""Heartbeat: API key 12, versions 0-4 (3: group instance id)."""

from __future__ import annotations

from coordinator_state.api_versions import API_VERSIONS
from coordinator_state.classic import states, timers
from coordinator_state.classic.checks import require_generation, require_member
from coordinator_state.classic.group import ClassicGroup, classic_or_none
from coordinator_state.errors import require_group, require_group_id
from coordinator_state.outputs import Answer, RequestEvent
from coordinator_state.step import Step
from coordinator_state.timers import Timer
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatRequest, HeartbeatResponse

_VERSIONS = API_VERSIONS["Heartbeat"]
_ALL_IS_WELL = HeartbeatResponse()
_REJOIN = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)


def heartbeat(step: Step, request: HeartbeatRequest) -> None:
    """Answer a Heartbeat and restart the member's session. In PreparingRebalance the answer tells the member to
    rejoin."""
    require_group_id(request.group_id)
    group = require_group(classic_or_none(step.group))
    member = require_member(group, request.member_id, request.group_instance_id)
    require_generation(group, request.generation_id)
    step.arm(timers.session(member.member_id), member.session_timeout_ms)
    if group.state is states.PREPARING_REBALANCE:
        group.note_rebalance_known(member, step.timestamp_ms)
        step.respond(_REJOIN)
    else:
        step.respond(_ALL_IS_WELL)


def fast_heartbeat(step: Step, event: RequestEvent, request: HeartbeatRequest) -> bool:
    """Handle a heartbeat that changes nothing but its member's deadline, as nearly all do, without a step.

    False, and nothing done: it needs a step with `heartbeat`. A property test holds the two ways against each other.
    """
    group = step.group
    if group is None:
        return False
    body, envelope, member_id = group.body, event.envelope, request.member_id
    api_version = envelope.api_version
    if (
        type(body) is not ClassicGroup
        or member_id not in body.members
        or request.generation_id != body.generation_id
        or body.state is states.PREPARING_REBALANCE
        or request.group_instance_id is not None
        or api_version not in _VERSIONS
        or envelope.topic_metadata
    ):
        return False
    now_ms, offset, no_deadline_before_ms = group.now_ms, event.offset, step.no_deadline_before_ms
    if now_ms < event.clock_ms:
        now_ms = event.clock_ms
    deadline_ms = now_ms + body.members[member_id].session_timeout_ms
    if now_ms >= no_deadline_before_ms or deadline_ms < no_deadline_before_ms:
        return False
    group.now_ms = now_ms
    group.timestamp_ms = event.timestamp_ms
    group.seq = seq = group.seq + 1
    name = timers.SESSION_PREFIX + member_id
    armed = group.timers
    armed.pop(name, None)
    armed[name] = Timer(deadline_ms, now_ms, offset)
    step.outputs.append(
        Answer(
            group.group_id, group.epoch, seq, now_ms,
            envelope.request_id, envelope.reply_partition, "Heartbeat", api_version, offset, _ALL_IS_WELL,
        )
    )  # fmt: skip
    return True
