"""SyncGroup: API key 14, versions 0-5 (3: group instance id; 5: protocol type and name are mandatory)."""

from __future__ import annotations

from coordinator_state.classic import states, timers
from coordinator_state.classic.assigned_topics import assigned_topics
from coordinator_state.classic.checks import require_generation, require_member
from coordinator_state.classic.context import classic_or_none, transition_to
from coordinator_state.classic.group import CONSUMER, ClassicGroup
from coordinator_state.classic.group_record import append_group_metadata
from coordinator_state.classic.member import Member
from coordinator_state.classic.rebalance import (
    answer_parked_syncs,
    note_rebalance_known,
    prepare_rebalance,
    sync_response,
)
from coordinator_state.classic.rebalance_history import complete_rebalance
from coordinator_state.errors import Refusal, require_group, require_group_id
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.history import AssignmentReceived, GroupStable, MemberAssignment
from schemas.messages import SyncGroupRequest, SyncGroupResponse

PROTOCOL_MANDATORY_VERSION = 5


def sync_group(step: Step, request: SyncGroupRequest) -> None:
    """Answer a member with its assignment. The leader's request brings the assignments of all."""
    mandatory = step.request_event().envelope.api_version >= PROTOCOL_MANDATORY_VERSION
    if mandatory and (request.protocol_type is None or request.protocol_name is None):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "protocol_missing",
            "protocol type and name are mandatory since version 5",
        )
    require_group_id(request.group_id)
    group = require_group(classic_or_none(step))
    member = require_member(group, request.member_id, request.group_instance_id)
    require_generation(group, request.generation_id)
    _require_protocol(group, request)
    if group.state is states.STABLE:
        _has_synced(step, group, member)
        step.respond(sync_response(group, member))
    elif group.state is states.COMPLETING_REBALANCE:
        _park(step, group, member)
        _has_synced(step, group, member)
        if member.member_id == group.leader_id:
            _receive_assignments(step, group, request)
    else:
        assert group.state is states.PREPARING_REBALANCE, f"a group in state {group.state} has a member"
        note_rebalance_known(step, member.member_id)
        step.respond(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _require_protocol(group: ClassicGroup, request: SyncGroupRequest) -> None:
    if request.protocol_type not in (None, group.protocol_type):
        raise _protocol_differs("type", request.protocol_type, group.protocol_type)
    if request.protocol_name not in (None, group.protocol_name):
        raise _protocol_differs("name", request.protocol_name, group.protocol_name)


def _protocol_differs(field: str, requested: str | None, actual: str | None) -> Refusal:
    return Refusal(
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        "protocol_differs",
        f"the request names protocol {field} {requested!r:.100}, the group has {actual!r:.100}",
    )


def _park(step: Step, group: ClassicGroup, member: Member) -> None:
    """Park the request; one that is already parked is superseded, and told so (Kafka leaves it unanswered)."""
    if member.awaiting_sync is not None and not step.is_copy_of(member.awaiting_sync):
        superseded = SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
        step.respond_to_parked("SyncGroup", member.awaiting_sync, superseded)
    member.awaiting_sync = step.park()


def _has_synced(step: Step, group: ClassicGroup, member: Member) -> None:
    group.pending_sync.pop(member.member_id, None)
    if not group.pending_sync:
        step.cancel(timers.SYNC)


def _receive_assignments(step: Step, group: ClassicGroup, request: SyncGroupRequest) -> None:
    """The leader's assignments: members that it does not list get nothing, ids that are no members are ignored."""
    assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    growth = sum(
        [len(assignments.get(member.member_id, b"")) - len(member.assignment) for member in group.members.values()]
    )
    if group.members_bytes + growth > step.config.group_max_bytes:
        _fail(step, group)
        return
    for member in group.members.values():
        group.set_assignment(member, assignments.get(member.member_id, b""))
    append_group_metadata(step)
    is_consumer = group.protocol_type == CONSUMER
    step.cause_seq = step.append_history(
        AssignmentReceived(
            *step.history_fields(),
            rebalance=group.rebalance.seq if group.rebalance is not None else None,
            leader_id=request.member_id,
            assignments=tuple([
                MemberAssignment(member_id=member.member_id, topics=assigned_topics(is_consumer, member.assignment))
                for member in group.members.values()
            ]),
        )
    )
    transition_to(step, states.STABLE)
    answer_parked_syncs(step, ErrorCode.NONE)
    step.append_history(
        GroupStable(
            *step.history_fields(),
            leader_id=request.member_id,
            protocol_name=group.protocol_name,
            members=tuple(group.members),
        )
    )
    complete_rebalance(step, "stable")


def _fail(step: Step, group: ClassicGroup) -> None:
    """The group's record would be too large: what Kafka does when the log refuses it (RECORD_LIST_TOO_LARGE)."""
    answer_parked_syncs(step, ErrorCode.UNKNOWN_SERVER_ERROR)
    leader = group.members.get(group.leader_id or "")
    reason = f"the assignments would exceed group_max_bytes ({step.config.group_max_bytes})"
    prepare_rebalance(step, "assignment_too_large", reason, leader)
