"""Consumer groups as one kind of group."""

from __future__ import annotations

from coordinator_state.consumer import timers
from coordinator_state.consumer.classic_join import join_group
from coordinator_state.consumer.classic_requests import heartbeat, leave_group, sync_group
from coordinator_state.consumer.configuration import session_timeout_ms
from coordinator_state.consumer.group import EXPIRED_DEADLINE, ConsumerGroup, consumer_group
from coordinator_state.consumer.member import MemberState
from coordinator_state.consumer.offsets import validate_offset_commit, validate_txn_offset_commit
from coordinator_state.consumer.sessions import renew_sessions, timer_expired
from coordinator_state.consumer.snapshot import snapshot
from coordinator_state.kind import GroupKind
from coordinator_state.step import Step
from coordinator_state.timers import OFFSETS_EXPIRY
from schemas.observed_history import CoordinatorChanged
from schemas.recorded import RecordedLoad


def load(step: Step, fact: RecordedLoad) -> None:
    """Begin the members' sessions when the group has been loaded: all with the group's timeout, classic ones, too.

    The timers of classic members to join and to sync are gone, and so is a wish to have expressions resolved.
    """
    group = step.require_group()
    body = consumer_group(group)
    step.append_history(CoordinatorChanged(*step.history_fields(), broker_id=fact.broker_id, leader_epoch=None))
    for name in list(group.timers):
        if name != OFFSETS_EXPIRY:
            step.cancel(name)
    delay_ms = max(fact.loaded_ms - step.now_ms, 0)
    for member in body.members.values():
        step.arm(timers.session(member.member_id), delay_ms + session_timeout_ms(step))
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            step.arm(timers.rebalance(member.member_id), delay_ms + member.rebalance_timeout_ms)
    body.metadata_deadline, body.regex_refresh_began_ms = EXPIRED_DEADLINE, None
    body.most_members = len(body.members)
    body.is_removed = False  # its records are still in the log
    step.note_change()


class ConsumerKind(GroupKind):
    """Groups of the protocol of ConsumerGroupHeartbeat (KIP-848)."""

    body = ConsumerGroup
    join_group = staticmethod(join_group)
    sync_group = staticmethod(sync_group)
    heartbeat = staticmethod(heartbeat)
    leave_group = staticmethod(leave_group)
    validate_offset_commit = staticmethod(validate_offset_commit)
    validate_txn_offset_commit = staticmethod(validate_txn_offset_commit)
    timer_expired = staticmethod(timer_expired)
    renew_sessions = staticmethod(renew_sessions)
    load = staticmethod(load)
    snapshot = staticmethod(snapshot)
