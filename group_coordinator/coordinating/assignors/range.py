"""RangeAssignor: cut each topic by itself into one run of partitions per subscriber."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from group_coordinator.coordinating.assignors.contract import (
    GroupAssignment,
    MemberSubscription,
    RebalanceProtocol,
    Topics,
)
from group_coordinator.coordinating.assignors.layout import GroupLayout, static_members_first
from group_coordinator.coordinating.assignors.racks import Racks, member_racks, partition_racks, racks_matter
from schemas.consumer_protocol import TopicPartition


class RangeAssignor:
    """Kafka's `org.apache.kafka.clients.consumer.RangeAssignor`.

    The split of a topic depends on its number of partitions and its subscribers alone, so topics that agree in both
    are co-partitioned: a member gets the same partition numbers of each. Balance of each topic comes first, then
    co-partitioning, then racks (KIP-881).
    """

    name = "range"
    rebalance_protocol = RebalanceProtocol.EAGER

    def assign(self, topics: Topics, members: Sequence[MemberSubscription]) -> GroupAssignment:
        layout = GroupLayout(topics, members)
        subscribers = layout.subscribers(static_members_first(layout))
        shares = [
            _TopicShares(layout.partitions_of(topic), subscribers.of(topic)) for topic in range(len(layout.topic_names))
        ]
        by_racks = _share_by_racks(layout, shares, subscribers.group_of_topic)
        assigned: list[list[int]] = [[] for _ in layout.members]
        for topic in layout.topic_map_order:
            for member, partitions in shares[topic].completed():
                assigned[member] += partitions
        if by_racks:
            for partitions in assigned:
                partitions.sort()
        return layout.named(assigned)

    def subscription_user_data(
        self, owned_partitions: Sequence[TopicPartition] | None, generation_id: int
    ) -> bytes | None:
        return None


class _TopicShares:
    """One topic: who has taken what so far, and how much each subscriber may still take."""

    def __init__(self, partitions: range, subscribers: list[int]) -> None:
        self.partitions = partitions
        self.subscribers = subscribers
        self.taken: dict[int, list[int]] = {}
        self._gone: set[int] = set()
        self._quota, self._extras_left = divmod(len(partitions), len(subscribers))

    def room(self, member: int) -> int:
        """Return how many partitions the member may still take. The number never grows."""
        return self._quota + (self._extras_left > 0) - len(self.taken.get(member, ()))

    def take(self, member: int, partitions: Sequence[int]) -> None:
        own = self.taken.setdefault(member, [])
        own += partitions
        self._gone.update(partitions)
        if len(own) > self._quota:
            self._extras_left -= 1

    def is_free(self, partition: int) -> bool:
        return partition not in self._gone

    def completed(self) -> Iterable[tuple[int, Sequence[int]]]:
        """Return all shares, after the members in order have taken the next free partitions, each up to its room."""
        if not self.taken:
            return self._plain_ranges()
        self._share_the_rest()
        return self.taken.items()

    def _plain_ranges(self) -> Iterable[tuple[int, Sequence[int]]]:
        start = 0
        for place, member in enumerate(self.subscribers[: len(self.partitions)]):
            end = start + self._quota + (place < self._extras_left)
            yield member, self.partitions[start:end]
            start = end

    def _share_the_rest(self) -> None:
        free = [partition for partition in self.partitions if self.is_free(partition)]
        start = 0
        for member in self.subscribers:
            if start >= len(free):
                break
            share = free[start : start + max(0, self.room(member))]
            if share:
                self.take(member, share)
                start += len(share)


def _share_by_racks(layout: GroupLayout, shares: list[_TopicShares], group_of_topic: list[int]) -> bool:
    """Give members what is near them, where racks can matter for any topic; whether that was so."""
    rack_of = member_racks(layout)
    if not any(rack_of):
        return False
    racks_of = partition_racks(layout)
    needing = [
        racks_matter((rack_of[m] for m in topic.subscribers), racks_of[topic.partitions.start : topic.partitions.stop])
        for topic in shares
    ]
    if not any(needing):
        return False
    groups: dict[tuple[int, int], list[int]] = {}
    for number, topic in enumerate(shares):
        groups.setdefault((group_of_topic[number], len(topic.partitions)), []).append(number)
    for group in groups.values():
        if len(group) > 1:
            _share_together([shares[number] for number in group], rack_of, racks_of)
        elif needing[group[0]]:
            _share_alone(shares[group[0]], rack_of, racks_of)
    return True


def _share_alone(topic: _TopicShares, rack_of: list[str | None], racks_of: list[Racks]) -> None:
    """Members in order, each the free partitions with a replica on its rack; without a rack any partition will do."""
    near: dict[str | None, list[int]] = {None: list(reversed(topic.partitions))}
    for partition in reversed(topic.partitions):
        for rack in racks_of[partition]:
            near.setdefault(rack, []).append(partition)
    for member in topic.subscribers:
        candidates = near.get(rack_of[member], [])
        share: list[int] = []
        room = topic.room(member)
        while candidates and len(share) < room:
            partition = candidates.pop()
            if topic.is_free(partition):
                share.append(partition)
        if share:
            topic.take(member, share)


def _share_together(group: list[_TopicShares], rack_of: list[str | None], racks_of: list[Racks]) -> None:
    """Give a partition number of all topics at once to the first member that is near all of them and has room.

    The topics have the same subscribers and number of partitions and are served in step, so the first topic's room
    is that of all. Room never grows: a member found without it is never looked at again.
    """
    waiting: dict[str | None, list[tuple[int, int]]] = {}
    for place, member in reversed(list(enumerate(group[0].subscribers))):
        waiting.setdefault(rack_of[member], []).append((place, member))
    for places in zip(*(topic.partitions for topic in group), strict=True):
        common = frozenset.intersection(*(racks_of[partition] for partition in places))
        fronts = []
        for rack in (None, *common):
            queue = waiting.get(rack, [])
            while queue and group[0].room(queue[-1][1]) <= 0:
                queue.pop()
            fronts += queue[-1:]
        if fronts:
            _, member = min(fronts)
            for topic, partition in zip(group, places, strict=True):
                topic.take(member, (partition,))
