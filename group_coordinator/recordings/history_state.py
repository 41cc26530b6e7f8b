"""A group in the form in which histories recorded from another coordinator have it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from coordinator_state import Group, classic_group
from coordinator_state.classic.timers import member_of
from coordinator_state.timers import OFFSETS_EXPIRY

Json = dict[str, Any]


def group_state(group: Group) -> Json:
    """Return a group in the form of a history's `groups`."""
    classic = classic_group(group)
    deadlines: Json = {}
    for name, timer in group.timers.items():
        member_id = member_of(name)
        if name != OFFSETS_EXPIRY:
            deadlines[member_id or name] = timer.deadline_ms
    state: Json = {
        "state": classic.state.value,
        "state_since_ms": classic.state_since_ms,
        "generation": classic.generation_id,
        "protocol_type": classic.protocol_type,
        "protocol": classic.protocol_name,
        "leader": classic.leader_id,
        "members": {
            member.member_id: without_none(
                {
                    "instance_id": member.group_instance_id,
                    "client_id": member.client_id,
                    "session_timeout_ms": member.session_timeout_ms,
                    "rebalance_timeout_ms": member.rebalance_timeout_ms,
                    "protocols": [name for name, _ in member.protocols],
                    "assignment": b64encode(member.assignment).decode(),
                    "parked": "+".join(
                        kind
                        for kind, parked in (("join", member.awaiting_join), ("sync", member.awaiting_sync))
                        if parked is not None
                    )
                    or None,
                }
            )
            for member in classic.members.values()
        },
        "pending_join": sorted(classic.pending_join),
        "pending_sync": sorted(classic.pending_sync),
        "subscribed_topics": None if classic.subscribed_topics is None else sorted(classic.subscribed_topics),
        "deadlines": deadlines,
        "open_transactions": _open_transactions(group),
    }
    return without_none(state)


def _open_transactions(group: Group) -> Json:
    """Return topic -> partition -> the producers that have an offset pending, as a history's groups have it."""
    return {
        topic: {str(partition): sorted(by_producer) for partition, by_producer in partitions.items()}
        for topic, partitions in group.offsets.pending.items()
    }


def without_none(fields: Json) -> Json:
    return {name: value for name, value in fields.items() if value is not None}


def comparable(groups: Json) -> Json:
    """Sets as sorted lists; what is empty is as good as absent, and a group without a type is classic."""
    return {
        group_id: {
            name: sorted(value) if isinstance(value, list) else value
            for name, value in group.items()
            if (value not in ([], {}) or name == "subscribed_topics") and (name, value) != ("type", "classic")
        }
        for group_id, group in groups.items()
    }
