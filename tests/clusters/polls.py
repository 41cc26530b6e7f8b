"""What an admin client sees of all groups, in the words of a recording."""

from __future__ import annotations

from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConsumerGroupDescription

_TIMEOUT_S = 8.0


def poll(admin: AdminClient) -> list[dict[str, Any]]:
    """Return all groups with their members and offsets. Raises KafkaException where the cluster does not answer."""
    listed = admin.list_consumer_groups(request_timeout=_TIMEOUT_S).result()
    if listed.errors:
        raise KafkaException(*listed.errors)
    states = {group.group_id: group.state.name for group in listed.valid or ()}
    if not states:
        return []
    described = admin.describe_consumer_groups(list(states), request_timeout=_TIMEOUT_S)
    asked = {
        group_id: admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group_id)], request_timeout=_TIMEOUT_S
        )[group_id]
        for group_id in states
    }
    groups = []
    for group_id, future in sorted(described.items()):
        offsets = asked[group_id].result().topic_partitions or []
        committed = {_name(place): place.offset for place in offsets if place.error is None and place.offset >= 0}
        groups.append(_group(future.result(), states[group_id]) | {"offsets": committed})
    return groups



def _group(group: ConsumerGroupDescription, listed_state: str) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.type.name.title(),
        "protocol_type": "consumer",
        "listed_state": _words(listed_state),
        "state": _words(group.state.name),
        "coordinator": None if group.coordinator is None else group.coordinator.id,
        "assignor": group.partition_assignor,
        "members": sorted(
            (
                {
                    "member_id": member.member_id,
                    "client_id": member.client_id,
                    "host": member.host,
                    "assignment": _places(member.assignment),
                }
                | ({"instance_id": member.group_instance_id} if member.group_instance_id else {})
                | ({"target": _places(member.target_assignment)} if member.target_assignment is not None else {})
                for member in group.members
            ),
            key=lambda member: str(member["member_id"]),
        ),
    }


def _places(assignment: Any) -> list[str]:
    return sorted(map(_name, assignment.topic_partitions))


def _name(place: TopicPartition) -> str:
    return f"{place.topic}-{place.partition}"


def _words(state: str) -> str:
    """PREPARING_REBALANCING of the library is Kafka's PreparingRebalance."""
    return {"PREPARING_REBALANCING": "PreparingRebalance", "COMPLETING_REBALANCING": "CompletingRebalance"}.get(
        state, state.title()
    )
