"""A group of the model in the words of the recorded histories (`simulation.recorded_states`)."""

from __future__ import annotations

from base64 import b64encode, urlsafe_b64encode
from typing import Any
from uuid import UUID

from simulation.model_consumer_group import ConsumerModelGroup
from simulation.model_consumer_records import ConsumerMember, Owned, by_topic
from simulation.model_group import ModelGroup

Snapshot = dict[str, Any]


def snapshot(group: ModelGroup) -> Snapshot:
    """Describe a group in the terms of the recorded histories; values that are None are left out."""
    members = {
        member.member_id: _without_none(
            {
                "instance_id": member.instance_id,
                "client_id": member.client_id,
                "session_timeout_ms": member.session_ms,
                "rebalance_timeout_ms": member.rebalance_ms,
                "protocols": [name for name, _ in member.protocols],
                "assignment": b64encode(member.assignment).decode(),
                "parked": "+".join(["join"] * (member.join is not None) + ["sync"] * (member.sync is not None)) or None,
            }
        )
        for member in group.members
    }
    return _without_none(
        {
            "state": group.state,
            "state_since_ms": group.since_ms,
            "generation": group.generation,
            "protocol_type": group.protocol_type,
            "protocol": group.protocol,
            "leader": group.leader,
            "members": members,
            "pending_join": sorted(group.issued_ids),
            "pending_sync": sorted(group.must_sync),
            "subscribed_topics": None if group.topics is None else sorted(group.topics),
            "deadlines": {
                timer.who or timer.kind: timer.deadline_ms
                for timer in group.timers
                if timer.kind == "session" or not timer.who
            },
        }
    )


def consumer_snapshot(group: ConsumerModelGroup) -> Snapshot:
    """Describe a consumer group."""
    deadlines: dict[str, dict[str, int]] = {}
    for timer in group.timers:
        deadlines.setdefault(timer.who, {})[timer.kind] = timer.deadline_ms
    deadline_ms, epoch = group.looks_again
    return {
        "type": "consumer",
        "state": group.state,
        "group_epoch": group.epoch,
        "assignment_epoch": group.target_epoch,
        "assignment_timestamp_ms": group.target_ms,
        "metadata_hash": group.metadata_hash,
        "subscription_type": group.held_type,
        "metadata_refresh": {"deadline_ms": deadline_ms, "epoch": epoch},
        "subscribed_topics": sorted(group.subscribed()),
        "resolved_regexes": {
            regex: {
                "topics": sorted(resolved.topics),
                "version": resolved.version,
                "timestamp_ms": resolved.timestamp_ms,
            }
            for regex, resolved in group.resolved.items()
        },
        "members": {member_id: _member(group, member) for member_id, member in group.members.items()},
        "deadlines": deadlines,
        "open_transactions": {},
    }


def _member(group: ConsumerModelGroup, member: ConsumerMember) -> Snapshot:
    wishes, holding = member.wishes, member.holding
    classic = wishes.classic
    return _without_none(
        {
            "instance_id": wishes.instance_id,
            "rack_id": wishes.rack_id,
            "client_id": wishes.client_id,
            "subscribed_topics": sorted(wishes.names),
            "subscribed_regex": wishes.regex,
            "assignor": wishes.assignor,
            "rebalance_timeout_ms": wishes.rebalance_ms,
            "classic": None
            if classic is None
            else {"session_timeout_ms": classic.session_ms, "protocols": [name for name, _ in classic.protocols]},
            "state": holding.state,
            "epoch": holding.epoch,
            "previous_epoch": holding.previous,
            "assigned": _with_epochs(holding.assigned),
            "pending_revocation": _with_epochs(holding.pending),
            "target": {
                _kafka_id(topic_id): numbers
                for topic_id, numbers in by_topic(group.targets.get(member.member_id, frozenset()))
            },
        }
    )


def _with_epochs(owned: Owned) -> Snapshot:
    return {
        _kafka_id(topic_id): {str(number): owned[topic_id, number] for number in numbers}
        for topic_id, numbers in by_topic(owned)
    }


def _kafka_id(topic_id: str) -> str:
    """Return a topic id as Kafka prints it."""
    return urlsafe_b64encode(UUID(topic_id).bytes).decode().rstrip("=")


def _without_none(fields: Snapshot) -> Snapshot:
    return {name: value for name, value in fields.items() if value is not None}
