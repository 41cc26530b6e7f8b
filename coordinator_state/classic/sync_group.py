"""SyncGroup: API key 14, versions 0-5 (3: group instance id; 5: protocol type and name are mandatory)."""

from __future__ import annotations

from coordinator_state.classic import states, timers
from coordinator_state.classic.assigned_topics import assigned_topics
from coordinator_state.classic.changes import Changes
from coordinator_state.classic.checks import require_generation, require_member
from coordinator_state.classic.group import CONSUMER, ClassicGroup, classic_or_none
from coordinator_state.classic.member import Member
from coordinator_state.errors import Refusal, require_group, require_group_id
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.history import AssignmentReceived, GroupStable, MemberAssignment
from schemas.messages import SyncGroupRequest, SyncGroupResponse

PROTOCOL_MANDATORY_VERSION = 5


def sync_group(step: Step, request: SyncGroupRequest) -> None:
    """Answer a member with its assignment. The leader's request brings the assignments of all."""
    mandatory = step.envelope.api_version >= PROTOCOL_MANDATORY_VERSION
    if mandatory and (request.protocol_type is None or request.protocol_name is None):
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            "protocol_missing",
            "protocol type and name are mandatory since version 5",
        )
    require_group_id(request.group_id)
    group = require_group(classic_or_none(step.group))
    member = require_member(group, request.member_id, request.group_instance_id)
    require_generation(group, request.generation_id)
    _require_protocol(group, request)
    changes = Changes(step, group)
    if group.state is states.STABLE:
        _has_synced(changes, member)
        changes.step.respond(group.sync_response(member))
    elif group.state is states.COMPLETING_REBALANCE:
        _park(changes, member)
        _has_synced(changes, member)
        if member.member_id == group.leader_id:
            _receive_assignments(changes, request)
    else:
        assert group.state is states.PREPARING_REBALANCE, f"a group in state {group.state} has a member"
        group.note_rebalance_known(member, step.timestamp_ms)
        changes.step.respond(SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


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


def _park(changes: Changes, member: Member) -> None:
    """Park the request; one that is already parked is superseded, and told so (Kafka leaves it unanswered)."""
    request = changes.this_request()
    if member.awaiting_sync is not None and member.awaiting_sync.request_id != request.request_id:
        changes.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    member.awaiting_sync = request


def _has_synced(changes: Changes, member: Member) -> None:
    changes.group.pending_sync.pop(member.member_id, None)
    if not changes.group.pending_sync:
        changes.step.cancel(timers.SYNC)


def _receive_assignments(changes: Changes, request: SyncGroupRequest) -> None:
    """The leader's assignments: members that it does not list get nothing, ids that are no members are ignored."""
    group, most = changes.group, changes.step.config.group_max_bytes
    assignments = {assignment.member_id: assignment.assignment for assignment in request.assignments}
    growth = sum(
        [len(assignments.get(member.member_id, b"")) - len(member.assignment) for member in group.members.values()]
    )
    if group.members_bytes + growth > most:
        # The group's record would be too large: what Kafka does when the log refuses it (RECORD_LIST_TOO_LARGE).
        changes.answer_syncs(ErrorCode.UNKNOWN_SERVER_ERROR)
        reason = f"the assignments would exceed group_max_bytes ({most})"
        changes.prepare("assignment_too_large", reason, group.members.get(group.leader_id or ""))
        return
    for member in group.members.values():
        group.set_assignment(member, assignments.get(member.member_id, b""))
    changes.write()
    is_consumer = group.protocol_type == CONSUMER
    changes.lead(
        AssignmentReceived(
            *changes.fields(),
            rebalance=group.rebalance.seq if group.rebalance is not None else None,
            leader_id=request.member_id,
            assignments=tuple([
                MemberAssignment(member_id=member.member_id, topics=assigned_topics(is_consumer, member.assignment))
                for member in group.members.values()
            ]),
        )
    )
    changes.become(states.STABLE)
    changes.answer_syncs(ErrorCode.NONE)
    changes.tell(
        GroupStable(
            *changes.fields(),
            leader_id=request.member_id,
            protocol_name=group.protocol_name,
            members=tuple(group.members),
        )
    )
    changes.complete("stable")
