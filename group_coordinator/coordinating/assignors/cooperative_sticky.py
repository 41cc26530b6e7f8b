"""CooperativeStickyAssignor: sticky, while members keep their partitions until they are told to give them up."""

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
from group_coordinator.coordinating.assignors.user_data import decode_generation, encode_generation
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
