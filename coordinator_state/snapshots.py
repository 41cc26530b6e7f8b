"""A group as the assignments topic tells of it."""

from __future__ import annotations

from coordinator_state.group import CONSUMER, Group
from schemas.consumer_protocol import assigned_partitions
from schemas.history import AssignedTopic, GroupSnapshot, SnapshotMember
from schemas.small_cache import small_cache
from schemas.wire import DecodeError


def snapshot_of(group: Group, seq: int) -> GroupSnapshot:
    """The group as it is now."""
    return GroupSnapshot(
        group_id=group.group_id,
        epoch=group.epoch,
        seq=seq,
        time_ms=group.now_ms,
        timestamp_ms=group.timestamp_ms,
        state=group.state.value,
        state_since_ms=group.state_since_ms,
        generation_id=group.generation_id,
        protocol_type=group.protocol_type,
        protocol_name=group.protocol_name,
        leader_id=group.leader_id,
        members=tuple([
            SnapshotMember(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                metadata=member.metadata_of(group.protocol_name),
                assignment=member.assignment,
                partitions=assigned_topics(group.protocol_type, member.assignment),
            )
            for member in group.members.values()
        ]),
    )


def assigned_topics(protocol_type: str | None, assignment: bytes) -> tuple[AssignedTopic, ...] | None:
    """An assignment blob as topics and partitions; None if it is not one of the consumer protocol."""
    if protocol_type != CONSUMER:
        return None
    return _decoded(assignment) if assignment else ()


@small_cache(entries=1_024, longest=4_096)
def _decoded(assignment: bytes) -> tuple[AssignedTopic, ...] | None:
    """Every snapshot of a group has all assignments, and most are those of the last one."""
    try:
        by_topic = assigned_partitions(assignment)
    except DecodeError:
        return None
    return tuple(AssignedTopic(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items())
