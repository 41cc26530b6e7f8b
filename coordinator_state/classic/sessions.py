"""Sessions: how long nothing may be heard of a member, or of the owner of a handed-out id; what follows when they
end."""

from __future__ import annotations

from coordinator_state.causes import Subject
from coordinator_state.classic import states, timers
from coordinator_state.classic.changes import Changes
from coordinator_state.classic.group import classic_group
from coordinator_state.classic.member import Member
from coordinator_state.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from coordinator_state.step import Step
from coordinator_state.timers import Timer
from schemas.history import MemberExpired


def session_timer_expired(step: Step, member_id: str, last_heard_ms: int) -> None:
    """Remove a member, or a handed-out id, of which nothing came for its session timeout."""
    group = classic_group(step.require_group())
    changes = Changes(step, group)
    if member_id in group.pending_join:
        step.cause_seq = changes.take_back(member_id, "expired")
        if group.state is states.PREPARING_REBALANCE and group.all_joined:
            changes.complete_join()
        return
    member = group.members.get(member_id)
    if member is None or member.satisfies_heartbeat:
        return
    timeout_ms = _ended_session_ms(member, step.now_ms - last_heard_ms)
    step.set_subject(
        Subject(member_id, member.group_instance_id, client_id=member.client_id, client_host=member.client_host)
    )
    changes.lead(
        MemberExpired(
            *changes.fields(), member=member.identity, last_heard_ms=last_heard_ms, session_timeout_ms=timeout_ms
        )
    )
    changes.remove(member)
    if group.state in (states.STABLE, states.COMPLETING_REBALANCE):
        changes.prepare("member_expired", f"member {member_id} was not heard for {timeout_ms} ms", member)
    elif group.state is states.PREPARING_REBALANCE and group.all_joined:
        changes.complete_join()


def renew_sessions(step: Step) -> None:
    """Restart every session after the clock stood still, in the order of arming. No session ends sooner than it would
    have. A member's timer still names the event by which it was last heard."""
    members, armed = classic_group(step.require_group()).members, step.require_group().timers
    for name, timer in list(armed.items()):
        member_id = timers.member_of(name)
        if member_id is None:
            if timers.is_left_over(name):
                del armed[name]  # it would count time in which nobody could be heard; no failover keeps it in Kafka
            continue
        del armed[name]
        member = members.get(member_id)
        if member is None:
            delay_ms = timer.deadline_ms - timer.armed_ms
            armed[name] = Timer(step.now_ms + delay_ms, step.now_ms, timer.armed_offset)
        else:
            # A member that waits to join may have named a shorter session meanwhile: that holds from its next arming
            # on.
            deadline_ms = max(timer.deadline_ms, step.now_ms + _session_ms(member))
            armed[name] = Timer(deadline_ms, timer.armed_ms, timer.armed_offset)


def _ended_session_ms(member: Member, silent_ms: int) -> int:
    """Return the time that a member had which was silent for so long. A session that it asked for since may be longer;
    and of a new one's first join a heartbeat makes an ordinary session."""
    sessions_ms = (member.session_timeout_ms, _session_ms(member))
    return max((session_ms for session_ms in sessions_ms if session_ms <= silent_ms), default=silent_ms)


def _session_ms(member: Member) -> int:
    return NEW_MEMBER_JOIN_TIMEOUT_MS if member.is_new else member.session_timeout_ms
