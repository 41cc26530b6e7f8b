"""`uniform` with different subscriptions, as plainly as it can be said: one partition after the other, in maps with
real buckets. Slow."""

from __future__ import annotations

from coordinator_state.consumer.assignors import AssignorGroup
from coordinator_state.consumer.assignors.java_order import topic_id_order
from coordinator_state.consumer.assignors.uniform_heterogeneous import TopicBalancer
from coordinator_state.consumer.member import TargetAssignment
from tests.coordinator_state.consumer.assignors.java_maps import JavaTarget

ROUNDS_MAX = 16


def assign_heterogeneous(group: AssignorGroup) -> dict[str, TargetAssignment]:
    """Return what `uniform` gives to members that subscribe to any topics."""
    return _Assignment(group).assign()


class _Assignment:
    def __init__(self, group: AssignorGroup) -> None:
        self.members = group.members
        self.topic_ids = [topic for topic in group.topics if any(topic in m.subscribed_topic_ids for m in self.members)]
        self.subscribers = {
            topic: [number for number, member in enumerate(self.members) if topic in member.subscribed_topic_ids]
            for topic in self.topic_ids
        }
        self.counts = {topic: group.topics[topic].partition_count for topic in self.topic_ids}
        self.owners: dict[tuple[str, int], int] = {}
        self.loads = [0] * len(self.members)
        self.changed: dict[int, JavaTarget] = {}

    def assign(self) -> dict[str, TargetAssignment]:
        for number, member in enumerate(self.members):
            for topic, partitions in member.target:
                if topic not in member.subscribed_topic_ids:
                    self.target_of(number).drop_topic(topic)
                    continue
                self.owners.update({(topic, partition): number for partition in partitions})
                self.loads[number] += len(partitions)
        self.topic_ids.sort(key=self.topic_order)
        for topic in self.topic_ids:
            self.assign_free(topic)
        self.balance([topic for topic in self.topic_ids if len(self.subscribers[topic]) > 1])
        return {
            member.member_id: self.changed[number].in_record_order() if number in self.changed else member.target
            for number, member in enumerate(self.members)
        }

    def topic_order(self, topic: str) -> tuple[float, int, tuple[int, int]]:
        subscribers = len(self.subscribers[topic])
        return -self.counts[topic] / subscribers, subscribers, topic_id_order(topic)

    def target_of(self, number: int) -> JavaTarget:
        if number not in self.changed:
            self.changed[number] = JavaTarget(self.members[number].target)
        return self.changed[number]

    def give(self, topic: str, partition: int, number: int) -> None:
        partitions_each = -(-self.counts[topic] // len(self.subscribers[topic]))
        self.target_of(number).add(topic, partition, int(partitions_each / 0.75) + 1)
        self.owners[topic, partition] = number
        self.loads[number] += 1

    def take(self, topic: str, partition: int) -> None:
        number = self.owners.pop((topic, partition))
        self.target_of(number).remove(topic, partition)
        self.loads[number] -= 1

    def assign_free(self, topic: str) -> None:
        walk = TopicBalancer(self.subscribers[topic], self.loads)
        for partition in range(self.counts[topic]):
            if (topic, partition) not in self.owners:
                self.give(topic, partition, walk.least_loaded())

    def balance(self, topic_ids: list[str]) -> None:
        last = None
        for topic in topic_ids * ROUNDS_MAX:
            if topic == last:
                break
            if self.balance_topic(topic) or last is None:
                last = topic

    def balance_topic(self, topic: str) -> bool:
        """Move one partition after the other, each the last that its owner had before, and say whether any moved."""
        walk = TopicBalancer(self.subscribers[topic], self.loads)
        had = {
            number: [partition for partition in range(self.counts[topic]) if self.owners[topic, partition] == number]
            for number in self.subscribers[topic]
        }
        moved = False
        while True:
            giver = walk.most_loaded()
            while giver is not None and not had[giver]:
                walk.exclude_most_loaded()
                giver = walk.most_loaded()
            taker = walk.least_loaded()
            if giver is None or walk.is_balanced():
                return moved
            partition = had[giver].pop()
            self.take(topic, partition)
            self.give(topic, partition, taker)
            moved = True
