"""StickyAssignor: balance, and let everybody keep what it had; members give up everything before they rejoin."""

from __future__ import annotations

from collections.abc import Sequence

from group_coordinator.coordinating.assignors.contract import (
    GroupAssignment,
    MemberSubscription,
    RebalanceProtocol,
    Topics,
)
from group_coordinator.coordinating.assignors.sticky_engine import assign_sticky
from group_coordinator.coordinating.assignors.user_data import decode_sticky_user_data, encode_sticky_user_data
from schemas.consumer_protocol import TopicPartition


class StickyAssignor:
    """Kafka's `org.apache.kafka.clients.consumer.StickyAssignor` (KIP-54, KIP-341).

    A member claims in its user data what it was assigned last; its `owned_partitions` are not looked at.
    """

    name = "sticky"
    rebalance_protocol = RebalanceProtocol.EAGER

    def assign(self, topics: Topics, members: Sequence[MemberSubscription]) -> GroupAssignment:
        result = assign_sticky(topics, members, lambda member: decode_sticky_user_data(member.user_data))
        return result.layout.named(result.assigned)

    def subscription_user_data(
        self, owned_partitions: Sequence[TopicPartition] | None, generation_id: int
    ) -> bytes | None:
        return None if owned_partitions is None else encode_sticky_user_data(owned_partitions, generation_id)
