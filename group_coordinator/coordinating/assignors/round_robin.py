"""RoundRobinAssignor: deal all partitions to all members, one each, topic after topic."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

from group_coordinator.coordinating.assignors.contract import (
    GroupAssignment,
    MemberSubscription,
    RebalanceProtocol,
    Topics,
)
from group_coordinator.coordinating.assignors.layout import GroupLayout, static_members_first
from schemas.consumer_protocol import TopicPartition


class RoundRobinAssignor:
    """Kafka's `org.apache.kafka.clients.consumer.RoundRobinAssignor`.

    Members sit in a ring. Each partition, in the order of topic name and number, goes to the next member in the ring
    that subscribes to its topic. With equal subscriptions the members' numbers of partitions differ by at most one.
    """

    name = "roundrobin"
    rebalance_protocol = RebalanceProtocol.EAGER

    def assign(self, topics: Topics, members: Sequence[MemberSubscription]) -> GroupAssignment:
        layout = GroupLayout(topics, members)
        ring = static_members_first(layout)
        assigned: list[list[int]] = [[] for _ in ring]
        seat_of_member = {member: seat for seat, member in enumerate(ring)}
        subscribers = layout.subscribers(ring)
        seat = 0
        for topic in range(len(layout.topic_names)):
            partitions = layout.partitions_of(topic)
            candidates = subscribers.of(topic)
            start = bisect_left(candidates, seat, key=seat_of_member.__getitem__)
            turns = candidates[start:] + candidates[:start]
            if len(partitions) <= len(turns):
                for member, partition in zip(turns, partitions, strict=False):
                    assigned[member].append(partition)
            else:
                for turn, member in enumerate(turns):
                    assigned[member] += partitions[turn :: len(turns)]
            seat = seat_of_member[turns[(len(partitions) - 1) % len(turns)]] + 1
        return layout.named(assigned)

    def subscription_user_data(
        self, owned_partitions: Sequence[TopicPartition] | None, generation_id: int
    ) -> bytes | None:
        return None
