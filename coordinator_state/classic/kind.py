"""Classic groups as one kind of group."""

from __future__ import annotations

from coordinator_state.classic import timers
from coordinator_state.classic.assigned_topics import assigned_topics
from coordinator_state.classic.changes import Changes
from coordinator_state.classic.commit import validate_offset_commit, validate_txn_offset_commit
from coordinator_state.classic.group import CONSUMER, ClassicGroup, classic_group
from coordinator_state.classic.heartbeat import heartbeat
from coordinator_state.classic.join_group import join_group
from coordinator_state.classic.leave_group import leave_group
from coordinator_state.classic.loading import load
from coordinator_state.classic.sessions import renew_sessions, session_timer_expired
from coordinator_state.classic.sync_group import sync_group
from coordinator_state.config import GroupConfig
from coordinator_state.group import Group
from coordinator_state.kind import GroupKind
from coordinator_state.step import Step
from coordinator_state.timers import Timer
from schemas.history import GroupSnapshot, SnapshotMember


def snapshot(group: Group, seq: int, config: GroupConfig) -> GroupSnapshot:
    """Return the group as the assignments topic shows it."""
    body = classic_group(group)
    protocol_name, is_consumer = body.protocol_name, body.protocol_type == CONSUMER
    return GroupSnapshot(
        group_id=group.group_id,
        epoch=group.epoch,
        seq=seq,
        time_ms=group.now_ms,
        timestamp_ms=group.timestamp_ms,
        state=str(body.state),
        state_since_ms=body.state_since_ms,
        generation_id=body.generation_id,
        protocol_type=body.protocol_type,
        protocol_name=protocol_name,
        leader_id=body.leader_id,
        members=tuple([
            SnapshotMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                metadata=member.metadata_of(protocol_name),
                assignment=member.assignment,
                partitions=assigned_topics(is_consumer, member.assignment),
            )
            for member in body.members.values()
        ]),
    )


class ClassicKind(GroupKind):
    """Groups of the protocol of JoinGroup and SyncGroup, and groups of commits without members."""

    body = ClassicGroup
    join_group = staticmethod(join_group)
    sync_group = staticmethod(sync_group)
    heartbeat = staticmethod(heartbeat)
    leave_group = staticmethod(leave_group)
    validate_offset_commit = staticmethod(validate_offset_commit)
    validate_txn_offset_commit = staticmethod(validate_txn_offset_commit)
    renew_sessions = staticmethod(renew_sessions)
    load = staticmethod(load)
    snapshot = staticmethod(snapshot)

    def timer_expired(self, step: Step, name: str, timer: Timer) -> None:
        if timers.is_left_over(name):
            return
        member_id = timers.member_of(name)
        if member_id is not None:
            session_timer_expired(step, member_id, timer.armed_ms)
            return
        changes = Changes(step, classic_group(step.require_group()))
        if name == timers.JOIN:
            changes.join_timer_expired()
        else:
            assert name == timers.SYNC
            changes.sync_timer_expired()
