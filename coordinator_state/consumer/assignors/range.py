"""The server-side assignor `range`: each topic is cut into one block for each subscriber.

It does not look at what members have. Static members come first, by instance id, so they keep their place when they
come back under another id.

Source: `RangeAssignor` of the package `group.assignor` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_state.consumer.assignors.contract import AssignorGroup, AssignorMember, SubscriptionType
from coordinator_state.consumer.assignors.java_order import capacity_at_least, grown_capacity, topic_order
from coordinator_state.consumer.member import TargetAssignment
from schemas.java_hash import java_string_order

_Blocks = dict[str, tuple[int, ...]]


class RangeAssignor:
    """Kafka's `range`."""

    name = "range"

    def assign(self, group: AssignorGroup) -> dict[str, TargetAssignment]:
        """Return the assignment; every member has an entry."""
        members = sorted(group.members, key=_order)
        blocks: dict[str, _Blocks] = {member.member_id: {} for member in members}
        for topic_id, subscribers in _subscribers(members, group.subscription_type).items():
            quota, extras = divmod(group.topics[topic_id].partition_count, len(subscribers))
            first = 0
            for number, member_id in enumerate(subscribers):
                after = first + quota + (number < extras)
                if after == first:
                    break
                blocks[member_id][topic_id] = tuple(range(first, after))
                first = after
        return {
            member.member_id: _in_record_order(member.subscribed_topic_ids, blocks[member.member_id])
            for member in group.members
        }


def _order(member: AssignorMember) -> tuple[bool, bytes]:
    if member.instance_id is not None:
        return False, java_string_order(member.instance_id)
    return True, java_string_order(member.member_id)


def _subscribers(members: list[AssignorMember], subscription_type: SubscriptionType) -> dict[str, list[str]]:
    """Return the subscribers of each topic, in the order of their blocks."""
    if subscription_type is SubscriptionType.HOMOGENEOUS:
        everyone = [member.member_id for member in members]
        return dict.fromkeys(members[0].subscribed_topic_ids if members else (), everyone)
    subscribers: dict[str, list[str]] = {}
    for member in members:
        for topic_id in member.subscribed_topic_ids:
            subscribers.setdefault(topic_id, []).append(member.member_id)
    return subscribers


def _in_record_order(topic_ids: Sequence[str], blocks: _Blocks) -> TargetAssignment:
    if len(blocks) < 2:
        return tuple(blocks.items())
    capacity = grown_capacity(capacity_at_least(len(topic_ids) * 4 // 3 + 1), len(blocks))
    put = [topic_id for topic_id in topic_ids if topic_id in blocks]
    return tuple([(topic_id, blocks[topic_id]) for topic_id in topic_order(put, capacity)])
