"""Consumer groups as one kind of group."""

from __future__ import annotations

from coordinator_state.consumer.classic_join import join_group
from coordinator_state.consumer.classic_requests import heartbeat, leave_group, sync_group
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.loading import load
from coordinator_state.consumer.offsets import validate_offset_commit, validate_txn_offset_commit
from coordinator_state.consumer.sessions import renew_sessions, timer_expired
from coordinator_state.consumer.snapshot import snapshot
from coordinator_state.kind import GroupKind


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
