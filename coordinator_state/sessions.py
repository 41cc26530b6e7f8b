"""Sessions: how long nothing may be heard of a member, or of the owner of a handed-out id; what follows when they end."""

from __future__ import annotations

from coordinator_state import states, timers
from coordinator_state.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator_state.group import Member
from coordinator_state.rebalance import complete_join, prepare_rebalance, remove_member
from coordinator_state.timers import Timer
from coordinator_state.turn import Turn
from schemas.history import MemberExpired, PendingMemberRemoved


def session_timer_expired(turn: Turn, member_id: str, last_heard_ms: int) -> None:
    """Nothing was heard of a member, or of the owner of a handed-out id, for its time."""
    group = turn.require_group()
    if member_id in group.pending_join:
        turn.cause_seq = turn.tell(PendingMemberRemoved, member_id=member_id, reason="expired")
        group.remove_pending(member_id)
        if group.state is states.PREPARING_REBALANCE and group.all_joined:
            complete_join(turn)
        return
    member = group.members.get(member_id)
    if member is None or member.satisfies_heartbeat:
        return
    timeout_ms = _session_ms(member)
    turn.about(member_id, member.group_instance_id, client_id=member.client_id, client_host=member.client_host)
    turn.cause_seq = turn.tell(
        MemberExpired, member=member.identity, last_heard_ms=last_heard_ms, session_timeout_ms=timeout_ms
    )
    remove_member(turn, member)
    if group.state in (states.STABLE, states.COMPLETING_REBALANCE):
        prepare_rebalance(turn, "member_expired", f"member {member_id} was not heard for {timeout_ms} ms", member)
    elif group.state is states.PREPARING_REBALANCE and group.all_joined:
        complete_join(turn)


def renew_sessions(turn: Turn) -> None:
    """The clock had stood still: every session begins anew, in the order of arming. None ends sooner than it would have.

    A member's timer still says when it was last heard: it was not heard now.
    """
    group = turn.require_group()
    for name, timer in list(group.timers.items()):
        member_id = timers.member_of(name)
        if member_id is None:
            continue
        del group.timers[name]
        member = group.members.get(member_id)
        if member is None:
            delay_ms = timer.deadline_ms - timer.armed_ms
            group.timers[name] = Timer(turn.now_ms + delay_ms, turn.now_ms, timer.armed_offset)
        else:
            # A member that waits to join may have named a shorter session meanwhile: that holds from its next arming on.
            deadline_ms = max(timer.deadline_ms, turn.now_ms + _session_ms(member))
            group.timers[name] = Timer(deadline_ms, timer.armed_ms, timer.armed_offset)


def _session_ms(member: Member) -> int:
    return NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
