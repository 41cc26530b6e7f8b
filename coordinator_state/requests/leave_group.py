"""LeaveGroup: API key 13, versions 0-5 (3: several members, instance ids; 5: reason). v0-2 have one top-level code."""

from __future__ import annotations

from coordinator_state import states, timers
from coordinator_state.errors import Refusal, require_group_id, require_member
from coordinator_state.group import Group, Member
from coordinator_state.rebalance import maybe_complete_join, prepare_rebalance, remove_member
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.history import MemberLeft, PendingMemberRemoved
from schemas.messages import LeaveGroupMember, LeaveGroupMemberResponse, LeaveGroupRequest, LeaveGroupResponse

BATCH_VERSION = 3


def leave_group(turn: Turn, request: LeaveGroupRequest) -> None:
    """Members leave, or are taken out by instance id. One bad entry does not stop the others."""
    require_group_id(request.group_id)
    group = turn.group
    left: list[Member | str] = []
    results = tuple(_leave(turn, group, entry, left) for entry in request.members)
    if group is not None and left:
        last = left[-1]
        if group.state in (states.STABLE, states.COMPLETING_REBALANCE):
            names = ", ".join(each if isinstance(each, str) else each.member_id for each in left)
            # Kafka rebalances even when only handed-out ids left; so do we (docs/differences.md).
            prepare_rebalance(
                turn,
                "pending_member_left" if isinstance(last, str) else "member_left",
                f"LeaveGroup of {names:.500}",
                None if isinstance(last, str) else last,
            )
        else:
            maybe_complete_join(turn)
    turn.answer(_response(turn, results))


def _response(turn: Turn, results: tuple[LeaveGroupMemberResponse, ...]) -> LeaveGroupResponse:
    assert turn.event is not None
    if turn.event.envelope.api_version < BATCH_VERSION and len(results) == 1:
        return LeaveGroupResponse(error_code=results[0].error_code)
    return LeaveGroupResponse(members=results)


def _leave(
    turn: Turn, group: Group | None, entry: LeaveGroupMember, left: list[Member | str]
) -> LeaveGroupMemberResponse:
    error_code = ErrorCode.NONE
    turn.about(entry.member_id, entry.group_instance_id, reason=entry.reason)
    try:
        leaver = _leaver(group, entry)
    except Refusal as refusal:
        error_code = refusal.error_code
        turn.tell_refused(refusal)
    else:
        assert group is not None
        left.append(leaver)
        if isinstance(leaver, str):
            group.remove_pending(leaver)
            turn.cancel(timers.session(leaver))
            turn.cause_seq = turn.tell(PendingMemberRemoved, member_id=leaver, reason="left")
        else:
            turn.cause_seq = turn.tell(MemberLeft, member=leaver.identity)
            remove_member(turn, leaver)
    return LeaveGroupMemberResponse(
        member_id=entry.member_id, group_instance_id=entry.group_instance_id, error_code=error_code
    )


def _leaver(group: Group | None, entry: LeaveGroupMember) -> Member | str:
    """The member that an entry names, or the handed-out id."""
    if group is None:
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "unknown_group", "there is no such group")
    if entry.member_id in group.pending_join:
        return entry.member_id
    member_id = entry.member_id
    if not member_id and entry.group_instance_id is not None:
        member_id = group.static_members.get(entry.group_instance_id, "")
    return require_member(group, member_id, entry.group_instance_id)
