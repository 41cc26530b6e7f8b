"""LeaveGroup: API key 13, versions 0-5 (3: several members, instance ids; 5: reason). v0-2 have one top-level code."""

from __future__ import annotations

from coordinator_state.causes import Subject
from coordinator_state.classic.changes import Changes
from coordinator_state.classic.checks import require_member
from coordinator_state.classic.group import ClassicGroup, classic_group, classic_or_none
from coordinator_state.classic.member import Member
from coordinator_state.errors import Refusal, require_group_id
from coordinator_state.refused import record_refusal
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.history import MemberLeft
from schemas.messages import LeaveGroupMember, LeaveGroupMemberResponse, LeaveGroupRequest, LeaveGroupResponse

BATCH_VERSION = 3


def leave_group(step: Step, request: LeaveGroupRequest) -> None:
    """Remove members by member id or instance id. An entry that is refused does not stop the others."""
    require_group_id(request.group_id)
    leavers: list[Member | str] = []
    results = tuple(_leave(step, entry, leavers) for entry in request.members)
    if leavers:
        changes, last = Changes(step, classic_group(step.require_group())), leavers[-1]
        names = ", ".join(leaver if isinstance(leaver, str) else leaver.member_id for leaver in leavers)
        # Kafka rebalances even when only handed-out ids left; so do we (docs/differences.md).
        changes.rebalance(
            "pending_member_left" if isinstance(last, str) else "member_left",
            f"LeaveGroup of {names:.500}",
            None if isinstance(last, str) else last,
        )
    step.respond(leave_response(step, results))


def leave_response(step: Step, results: tuple[LeaveGroupMemberResponse, ...]) -> LeaveGroupResponse:
    """Return the answer; before version 3 the one member's code is the request's."""
    if step.envelope.api_version < BATCH_VERSION and len(results) == 1:
        return LeaveGroupResponse(error_code=results[0].error_code)
    return LeaveGroupResponse(members=results)


def _leave(step: Step, entry: LeaveGroupMember, leavers: list[Member | str]) -> LeaveGroupMemberResponse:
    error_code = ErrorCode.NONE
    step.set_subject(Subject(entry.member_id, entry.group_instance_id, entry.reason))
    group = classic_or_none(step.group)
    try:
        leaver = _leaver(group, entry)
    except Refusal as refusal:
        error_code = refusal.error_code
        record_refusal(step, refusal)
    else:
        assert group is not None
        changes = Changes(step, group)
        leavers.append(leaver)
        if isinstance(leaver, str):
            step.cause_seq = changes.take_back(leaver, "left")
        else:
            changes.lead(MemberLeft(*changes.fields(), member=leaver.identity))
            changes.remove(leaver)
    return LeaveGroupMemberResponse(
        member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=error_code
    )


def _leaver(group: ClassicGroup | None, entry: LeaveGroupMember) -> Member | str:
    """The member that an entry names, or the handed-out id."""
    if group is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "unknown_group", "there is no such group")
    if entry.member_id in group.pending_join:
        return entry.member_id
    member_id = entry.member_id
    if not member_id and entry.group_instance_id is not None:
        member_id = group.static_members.get(entry.group_instance_id, "")
    return require_member(group, member_id, entry.group_instance_id)
