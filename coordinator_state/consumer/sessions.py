"""Timers of members: what follows when one fires, and how they begin anew after the clock stood still.

Source: the timers of `GroupMetadataManager`; `onLoaded` (Kafka 4.3).
"""

from __future__ import annotations

from typing import Literal

from coordinator_state.causes import Subject
from coordinator_state.consumer import timers
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.configuration import session_timeout_ms
from coordinator_state.consumer.fence import fence_members
from coordinator_state.consumer.group import consumer_group
from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.consumer.snapshot import identity
from coordinator_state.step import Step
from coordinator_state.timers import Timer
from schemas.history import MemberDropped, MemberExpired
from schemas.observed_history import MemberGone

_SLOW: dict[str, Literal["did_not_revoke", "did_not_rejoin", "did_not_sync"]] = {
    "rebalance": "did_not_revoke",
    "join": "did_not_rejoin",
    "sync": "did_not_sync",
}


def timer_expired(step: Step, name: str, timer: Timer) -> None:
    """Fence the member whose timer this is, if it is still there."""
    group = consumer_group(step.require_group())
    kind, member_id = timers.timer_of(name)
    member = group.members.get(member_id)
    if member is None or not timers.is_bound(timer):
        return
    step.set_subject(Subject(member_id, member.instance_id, client_id=member.client_id, client_host=member.client_host))
    if kind == "session":
        record = MemberExpired(
            *step.history_fields(),
            member=identity(member),
            last_heard_ms=timer.armed_ms,
            session_timeout_ms=timer.deadline_ms - timer.armed_ms,
        )
        step.cause_seq = step.append_history(record)
        fence_members(Changes(step, group), [member], "member_expired")
        return
    step.cause_seq = step.append_history(
        MemberDropped(
            *step.history_fields(),
            member=identity(member),
            reason=_SLOW[kind],
        )
    )
    fence_members(Changes(step, group), [member], "member_dropped")


def depart(step: Step, member_id: str) -> None:
    """Take out a member of which a recording knows only that it is gone."""
    group = consumer_group(step.require_group())
    member = group.members.get(member_id)
    if member is not None:
        step.cause_seq = step.append_history(MemberGone(*step.history_fields(), member=identity(member)))
        fence_members(Changes(step, group), [member], "member_gone")


def renew_sessions(step: Step) -> None:
    """Begin all timers of members anew: none ends sooner than it would have. The order of arming stays."""
    members, armed = consumer_group(step.require_group()).members, step.require_group().timers
    for name, timer in list(armed.items()):
        kind, member_id = timers.timer_of(name)
        member = members.get(member_id)
        if member is None:
            continue
        delay_ms = _session_ms(step, member) if kind == "session" else member.rebalance_timeout_ms
        del armed[name]
        armed[name] = Timer(max(timer.deadline_ms, step.now_ms + delay_ms), timer.armed_ms, timer.armed_offset)


def _session_ms(step: Step, member: ConsumerMember) -> int:
    return session_timeout_ms(step) if member.classic is None else member.classic.session_timeout_ms
