"""The group as the assignors compute with it: members, topics and partitions are small integers, names stay outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain, repeat

from msgspec import Struct

from group_coordinator.coordinating.assignors.contract import GroupAssignment, MemberSubscription, Topics
from schemas.consumer_protocol import TopicPartition
from schemas.java_hash import java_map_order, java_string_order

_topic_partition = partial(tuple.__new__, TopicPartition)
"""What `TopicPartition._make` does, without a call of a Python function for each of them."""


class Subscribers(Struct, frozen=True, kw_only=True):
    """The members that subscribe to each topic. Topics with the same subscribers are of one group."""

    groups: list[list[int]]
    """The members of each group; there is at least one, and no two groups have the same."""
    group_of_topic: list[int]

    def of(self, topic: int) -> list[int]:
        """Return the topic's subscribers."""
        return self.groups[self.group_of_topic[topic]]


class GroupLayout:
    """Numbers for everything in one call of an assignor.

    A member's number is its place by member id. A topic's number is its place by name, among the topics that exist,
    have partitions and have a subscriber. Partitions are numbered through all topics, so that their numbers sort by
    topic name, then partition.
    """

    def __init__(self, topics: Topics, members: Sequence[MemberSubscription]) -> None:
        self.members = sorted(members, key=lambda member: java_string_order(member.member_id))
        self.number_of_member = {member.member_id: number for number, member in enumerate(self.members)}
        if len(self.number_of_member) < len(members):
            raise ValueError("two members of the group share a member id")
        self.map_order = [self.number_of_member[name] for name in java_map_order(m.member_id for m in members)]
        """The members as Kafka's leader iterates over them."""
        subscribed = set(chain.from_iterable(self._subscriptions))
        self.topic_names = sorted(
            (topic for topic in subscribed if topic in topics and topics[topic].partition_count), key=java_string_order
        )
        self.number_of_topic = {topic: number for number, topic in enumerate(self.topic_names)}
        self.metadata = [topics[topic] for topic in self.topic_names]
        self.first_partition = list(accumulate((topic.partition_count for topic in self.metadata), initial=0))
        """Of each topic its first partition; one more entry at the end, the number of all partitions."""
        self.partition_total = self.first_partition[-1]

    def partitions_of(self, topic: int) -> range:
        """Return the numbers of the topic's partitions."""
        return range(self.first_partition[topic], self.first_partition[topic + 1])

    def topics_of(self, member: int) -> frozenset[int]:
        """Return the topics that the member subscribes to."""
        return self._topics_of_subscription[self._subscription_of[member]]

    @cached_property
    def topic_map_order(self) -> list[int]:
        """The topics as Kafka's leader iterates over them: a map filled from the set of all subscribed names."""
        subscribed = java_map_order(
            chain.from_iterable(self.members[member].subscription.topics for member in self.map_order)
        )
        return [
            self.number_of_topic[topic]
            for topic in java_map_order(topic for topic in subscribed if topic in self.number_of_topic)
        ]

    @cached_property
    def topic_of_partition(self) -> list[int]:
        """The topic of each partition."""
        owners: list[int] = []
        for number, topic in enumerate(self.metadata):
            owners += [number] * topic.partition_count
        return owners

    def subscribers(self, member_order: Iterable[int]) -> Subscribers:
        """Return the subscribers of each topic, in the given order of all members."""
        order = list(member_order)
        places: list[list[int]] = [[] for _ in self._subscriptions]
        for place, member in enumerate(order):
            places[self._subscription_of[member]].append(place)
        subscriptions_of_topic: list[list[int]] = [[] for _ in self.topic_names]
        for subscription, topics in enumerate(self._topics_of_subscription):
            for topic in topics:
                subscriptions_of_topic[topic].append(subscription)
        number_of_group: dict[tuple[int, ...], int] = {}
        group_of_topic = [
            number_of_group.setdefault(tuple(subscriptions), len(number_of_group))
            for subscriptions in subscriptions_of_topic
        ]
        groups = []
        for subscriptions in number_of_group:
            in_group = sorted(chain.from_iterable(map(places.__getitem__, subscriptions)))
            groups.append(list(map(order.__getitem__, in_group)))
        return Subscribers(groups=groups, group_of_topic=group_of_topic)

    def named(self, partitions_of_member: Sequence[Sequence[int]]) -> GroupAssignment:
        """Return the assignment under its names, the members in map order."""
        names: list[TopicPartition] = []
        for topic, metadata in zip(self.topic_names, self.metadata, strict=True):
            names += map(_topic_partition, zip(repeat(topic), range(metadata.partition_count), strict=False))
        name = names.__getitem__
        return {
            self.members[member].member_id: list(map(name, partitions_of_member[member])) for member in self.map_order
        }

    @cached_property
    def _subscriptions(self) -> dict[tuple[str, ...], int]:
        """The different lists of topics, numbered."""
        numbers: dict[tuple[str, ...], int] = {}
        for member in self.members:
            numbers.setdefault(member.subscription.topics, len(numbers))
        return numbers

    @cached_property
    def _subscription_of(self) -> list[int]:
        return [self._subscriptions[member.subscription.topics] for member in self.members]

    @cached_property
    def _topics_of_subscription(self) -> list[frozenset[int]]:
        known = self.number_of_topic.keys()
        number_of = self.number_of_topic.__getitem__
        return [frozenset(map(number_of, known & names)) for names in self._subscriptions]


def static_members_first(layout: GroupLayout) -> list[int]:
    """Sort members by group instance id, then those without one by member id (Kafka's `MemberInfo.compareTo`)."""

    def place(member: int) -> tuple[bool, bytes]:
        group_instance_id = layout.members[member].group_instance_id
        return (group_instance_id is None, java_string_order(group_instance_id or ""))

    return sorted(range(len(layout.members)), key=place)
