"""A classic group as it is published on the assignments topic."""

from __future__ import annotations

from coordinator_state.classic.assigned_topics import assigned_topics
from coordinator_state.classic.group import CONSUMER, classic_group
from coordinator_state.config import GroupConfig
from coordinator_state.group import Group
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
