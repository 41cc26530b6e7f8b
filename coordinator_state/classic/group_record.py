"""The record of a classic group in the offsets log, as Kafka writes it."""

from __future__ import annotations

from coordinator_state.classic.group import ClassicGroup
from schemas.records import encode_group_metadata, encode_group_metadata_key, encode_member_metadata

GROUP_METADATA_VALUE_VERSION = 3
"""Every Kafka from 2.3 to 4.3 writes 3."""


def group_record(group: ClassicGroup, group_id: str) -> tuple[bytes, bytes]:
    """Return key and value for the group as it is: hard state only."""
    version, protocol_name = GROUP_METADATA_VALUE_VERSION, group.protocol_name
    members = [
        encode_member_metadata(
            version,
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.metadata_of(protocol_name),
            member.assignment,
        )
        for member in group.members.values()
    ]
    value = encode_group_metadata(
        version, group.protocol_type or "", group.generation_id, protocol_name, group.leader_id, group.state_since_ms, members
    )
    return encode_group_metadata_key(group_id), value
