"""A group in the form in which histories recorded from another coordinator have it."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from coordinator_state import Group, classic_group
from coordinator_state.classic.timers import is_left_over, member_of
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember, PartitionsWithEpochs, TargetAssignment
from coordinator_state.consumer.timers import timer_of
from coordinator_state.timers import OFFSETS_EXPIRY, PUBLICATION
from schemas.kafka.json_form import uuid_to_json
from schemas.wire import encode_uuid

Json = dict[str, Any]

_NO_TIMERS_OF_KAFKA = (OFFSETS_EXPIRY, PUBLICATION)
"""Kafka's retention check is one for all groups, and Kafka publishes no groups."""


def group_state(group: Group) -> Json | None:
    """Return a group in the form of a history's `groups`; None: Kafka has removed it from memory, and left its
    records."""
    if type(group.body) is ConsumerGroup:
        return None if group.body.is_removed else _consumer_state(group, group.body)
    return _classic_state(group)


def _classic_state(group: Group) -> Json:
    classic = classic_group(group)
    deadlines: Json = {}
    for name, timer in group.timers.items():
        if name not in _NO_TIMERS_OF_KAFKA and not is_left_over(name):
            deadlines[member_of(name) or name] = timer.deadline_ms
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
        "open_transactions": _open_transactions(group) or None,
    }
    return without_none(state)


def _open_transactions(group: Group) -> Json:
    """Return topic -> partition -> the producers that have an offset pending, as a history's groups have it."""
    return {
        topic: {str(partition): sorted(by_producer) for partition, by_producer in partitions.items()}
        for topic, partitions in group.offsets.pending.items()
    }


def _consumer_state(group: Group, body: ConsumerGroup) -> Json:
    deadlines: Json = {}
    for name, timer in group.timers.items():
        if name not in _NO_TIMERS_OF_KAFKA:
            kind, member_id = timer_of(name)
            deadlines.setdefault(member_id, {})[kind] = timer.deadline_ms
    return {
        "type": "consumer",
        "state": body.state_name,
        "group_epoch": body.group_epoch,
        "assignment_epoch": body.assignment_epoch,
        "assignment_timestamp_ms": body.assignment_timestamp_ms,
        "metadata_hash": body.metadata_hash,
        "subscription_type": body.subscription_type.value,
        "metadata_refresh": {"deadline_ms": body.metadata_deadline[0], "epoch": body.metadata_deadline[1]},
        "subscribed_topics": sorted(body.subscribed_topics),
        "resolved_regexes": {
            regex: {"topics": list(resolved.topics), "version": resolved.version, "timestamp_ms": resolved.timestamp_ms}
            for regex, resolved in body.resolved_regexes.items()
        },
        "members": {
            member_id: _consumer_member(member, body.targets.get(member_id, ()))
            for member_id, member in body.members.items()
        },
        "deadlines": deadlines,
        "open_transactions": _open_transactions(group),
    }


def _consumer_member(member: ConsumerMember, target: TargetAssignment) -> Json:
    classic = member.classic
    return without_none(
        {
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "client_id": member.client_id,
            "subscribed_topics": list(member.subscribed_topic_names),
            "subscribed_regex": member.subscribed_topic_regex,
            "assignor": member.server_assignor,
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "classic": None
            if classic is None
            else {
                "session_timeout_ms": classic.session_timeout_ms,
                "protocols": [name for name, _ in classic.supported_protocols],
            },
            "state": member.state.name,
            "epoch": member.member_epoch,
            "previous_epoch": member.previous_member_epoch,
            "assigned": _with_epochs(member.assigned),
            "pending_revocation": _with_epochs(member.pending_revocation),
            "target": {_topic(topic_id): sorted(partitions) for topic_id, partitions in target},
        }
    )


def _with_epochs(partitions: PartitionsWithEpochs) -> Json:
    return {
        _topic(topic_id): {str(partition): epoch for partition, epoch in epochs.items()}
        for topic_id, epochs in partitions.items()
    }


def _topic(topic_id: str) -> str:
    return uuid_to_json(encode_uuid(topic_id))


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
