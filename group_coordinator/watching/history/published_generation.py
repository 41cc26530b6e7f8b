"""What a classic group's stored generations say, of a group that our own coordinator publishes. Pure."""

from __future__ import annotations

from group_coordinator.watching.history.stored_generations import StoredGenerations, next_generation
from schemas.group_states import GroupState
from schemas.history import GroupSnapshot
from schemas.records import GroupMetadataValue, MemberMetadata

_STORED = (GroupState.STABLE.value, GroupState.EMPTY.value)


def published_generation(before: StoredGenerations | None, group: GroupSnapshot | None) -> StoredGenerations | None:
    """Return what is known once our own coordinator has published a group so. None: no classic group is known.

    It is published during rebalances, too, which nobody stores: its assignments are old then, if there are any.
    """
    if group is None or not group.exists or group.is_consumer_group:
        return None
    if group.state not in _STORED and (before is not None or group.protocol_name is None):
        return before
    members = tuple(
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            session_timeout_ms=member.session_timeout_ms,
            subscription=member.metadata,
            assignment=member.assignment,
        )
        for member in group.members
    )
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "", generation=group.generation_id, protocol=group.protocol_name,
        leader=group.leader_id, members=members,
    )  # fmt: skip
    return next_generation(before, value, group.timestamp_ms or group.time_ms)
