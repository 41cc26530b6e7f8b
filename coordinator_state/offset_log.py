"""What goes into the offsets log, as Kafka writes it: group records and tombstones. (Commits: `requests.offset_commit`.)"""

from __future__ import annotations

from coordinator_state.turn import Turn
from schemas.records import (
    GroupMetadataKey,
    encode_group_metadata,
    encode_key,
    encode_member_metadata,
    encode_offset_commit_key,
)

GROUP_METADATA_VALUE_VERSION = 3
"""Every Kafka from 2.3 to 4.3 writes 3."""


def append_group_metadata(turn: Turn) -> None:
    """Append the group as it is: hard state only."""
    group, version = turn.require_group(), GROUP_METADATA_VALUE_VERSION
    members = [
        encode_member_metadata(
            version,
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata_of(group.protocol_name),
            member.assignment,
        )
        for member in group.members.values()
    ]
    value = encode_group_metadata(
        version, group.protocol_type or "", group.generation_id, group.protocol_name, group.leader_id, group.state_since_ms, members
    )
    turn.record(encode_key(GroupMetadataKey(turn.group_id)), value)


def append_group_tombstone(turn: Turn) -> None:
    turn.record(encode_key(GroupMetadataKey(turn.group_id)), None)


def append_offset_tombstone(turn: Turn, topic: str, partition: int) -> None:
    turn.record(encode_offset_commit_key(turn.group_id, topic, partition), None)
