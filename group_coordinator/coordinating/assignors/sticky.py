"""StickyAssignor: balance, and let everybody keep what it had; members give up everything before they rejoin."""

from __future__ import annotations

from collections.abc import Sequence

from group_coordinator.coordinating.assignors.contract import (
    GroupAssignment,
    MemberSubscription,
    RebalanceProtocol,
    Topics,
)
from group_coordinator.coordinating.assignors.sticky_claims import Claim
from group_coordinator.coordinating.assignors.sticky_engine import assign_sticky
from group_coordinator.coordinating.assignors.user_data import (
    decode_generation,
    decode_sticky_user_data,
    encode_generation,
    encode_sticky_user_data,
)
from schemas.consumer_protocol import Subscription, TopicPartition


class CooperativeStickyAssignor:
    """Kafka's `org.apache.kafka.clients.consumer.CooperativeStickyAssignor` (KIP-429).

    A partition that changes hands is given to nobody at first: its old owner gives it up and rejoins, and the
    rebalance after that gives it to the new one.
    """

    name = "cooperative-sticky"
    rebalance_protocol = RebalanceProtocol.COOPERATIVE

    def assign(self, topics: Topics, members: Sequence[MemberSubscription]) -> GroupAssignment:
        result = assign_sticky(topics, members, _claim)
        withheld = result.in_transfer
        assigned = result.assigned
        if withheld:
            assigned = [[partition for partition in own if partition not in withheld] for own in assigned]
        return result.layout.named(assigned)

    def subscription_user_data(
        self, owned_partitions: Sequence[TopicPartition] | None, generation_id: int
    ) -> bytes | None:
        return encode_generation(generation_id)


def _claim(subscription: Subscription) -> Claim:
    generation_id: int | None = subscription.generation_id
    if subscription.generation_id < 0:  # a subscription before version 2: the user data say it
        generation_id = decode_generation(subscription.user_data)
    return Claim(partitions=subscription.owned_partitions, generation_id=generation_id)


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
