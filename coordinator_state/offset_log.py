"""What goes into the offsets log: group records, offset records and their tombstones, as Kafka writes them."""

from __future__ import annotations

from coordinator_state.group import Group
from coordinator_state.offsets import CommittedOffset
from coordinator_state.turn import Turn
from schemas.records import (
    NO_TIMESTAMP,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    encode_group_metadata_value,
    encode_key,
    encode_offset_commit,
    encode_offset_commit_key,
    offset_commit_keys,
)
from schemas.wire import INT32

GROUP_METADATA_VALUE_VERSION = 3
"""Every Kafka from 2.3 to 4.3 writes 3."""


def group_metadata_value(group: Group) -> GroupMetadataValue:
    """The group as its record holds it: hard state only."""
    return GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=group.protocol_name,
        leader=group.leader_id,
        current_state_timestamp_ms=group.state_since_ms,
        members=tuple(
            MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                session_timeout_ms=member.session_timeout_ms,
                subscription=member.metadata_of(group.protocol_name),
                assignment=member.assignment,
            )
            for member in group.members.values()
        ),
    )


def append_group_metadata(turn: Turn) -> None:
    """Append the group as it is."""
    value = encode_group_metadata_value(group_metadata_value(turn.require_group()), GROUP_METADATA_VALUE_VERSION)
    turn.record(encode_key(GroupMetadataKey(turn.group_id)), value)


def append_group_tombstone(turn: Turn) -> None:
    turn.record(encode_key(GroupMetadataKey(turn.group_id)), None)


def offset_keys(turn: Turn, topic: str) -> bytes:
    """What the keys of the topic's offsets begin with."""
    return offset_commit_keys(turn.group_id, topic)


def append_offset(turn: Turn, keys: bytes, partition: int, committed: CommittedOffset) -> None:
    """Append one committed offset of the topic of `keys`. One with an expiry of its own is of version 1, the only one that can say so."""
    expire_timestamp_ms = committed.expire_timestamp_ms
    value = encode_offset_commit(
        turn.config.offset_commit_value_version,
        committed.offset,
        committed.leader_epoch,
        committed.metadata,
        committed.commit_timestamp_ms,
        NO_TIMESTAMP if expire_timestamp_ms is None else expire_timestamp_ms,
        committed.topic_id,
    )
    turn.record(keys + INT32.pack(partition), value)


def append_offset_tombstone(turn: Turn, topic: str, partition: int) -> None:
    turn.record(encode_offset_commit_key(turn.group_id, topic, partition), None)
