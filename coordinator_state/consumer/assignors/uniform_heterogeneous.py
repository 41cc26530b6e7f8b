"""The assignor `uniform` for members that subscribe to different topics.

Members keep what they subscribe to. Free partitions go to the least loaded subscriber; then topics are balanced, one
after the other, until a round changes nothing.

Source: `UniformHeterogeneousAssignmentBuilder` (Kafka 4.3).
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from operator import itemgetter

from coordinator_state.consumer.assignors.contract import AssignorError, AssignorGroup
from coordinator_state.consumer.assignors.java_order import capacity_at_least, topic_id_order
from coordinator_state.consumer.assignors.mutable_target import MutableTarget
from coordinator_state.consumer.assignors.topic_balancer import TopicBalancer
from coordinator_state.consumer.member import TargetAssignment

ROUNDS_MAX = 16
_NOBODY = -1


def assign_heterogeneous(group: AssignorGroup) -> dict[str, TargetAssignment]:
    """Return the assignment of a group whose members subscribe to any topics."""
    return _HeterogeneousAssignment(group).assign()


class _HeterogeneousAssignment:
    """One assignment while it is made. Members go by their number in the order of the group."""

    def __init__(self, group: AssignorGroup) -> None:
        self._group = group
        self._members = group.members
        self._loads = [0] * len(group.members)
        """The number of partitions of each member."""
        self._changed: dict[int, MutableTarget] = {}
        """Copies of the targets that are not kept as they are."""
        self._subscribers = self._find_subscribers()
        self._owners = {topic_id: [_NOBODY] * group.topics[topic_id].partition_count for topic_id in self._subscribers}
        """The owner of each partition of each topic."""

    def assign(self) -> dict[str, TargetAssignment]:
        self._keep_what_is_subscribed()
        topic_ids = sorted(self._subscribers, key=self._topic_order)
        for topic_id in topic_ids:
            self._assign_free(topic_id)
        self._balance([topic_id for topic_id in topic_ids if len(self._subscribers[topic_id]) > 1])
        assignment = {member.member_id: member.target for member in self._members}
        for number, changed in self._changed.items():
            assignment[self._members[number].member_id] = changed.in_record_order()
        return assignment

    def _find_subscribers(self) -> dict[str, list[int]]:
        """Return the subscribers of each topic, ascending."""
        subscribers: dict[str, list[int]] = {}
        for number, member in enumerate(self._members):
            for topic_id in member.subscribed_topic_ids:
                if topic_id in subscribers:
                    subscribers[topic_id].append(number)
                else:
                    subscribers[topic_id] = [number]
        return subscribers

    def _topic_order(self, topic_id: str) -> tuple[float, int, tuple[int, int]]:
        """Topics of many partitions for each subscriber come first."""
        subscribers = len(self._subscribers[topic_id])
        return -len(self._owners[topic_id]) / subscribers, subscribers, topic_id_order(topic_id)

    def _keep_what_is_subscribed(self) -> None:
        subscriptions: dict[tuple[str, ...], frozenset[str]] = {}
        for number, member in enumerate(self._members):
            topic_ids = member.subscribed_topic_ids
            subscribed = subscriptions.get(topic_ids)
            if subscribed is None:
                subscribed = subscriptions[topic_ids] = frozenset(topic_ids)
            load = 0
            for topic_id, partitions in member.target:
                if topic_id not in subscribed:
                    self._target_of(number).drop_topic(topic_id)
                    continue
                owners = self._owners[topic_id]
                first, last = min(partitions), max(partitions)
                if first < 0 or last >= len(owners):
                    raise AssignorError(f"topic {topic_id!r} has no partition {first if first < 0 else last}")
                for partition in partitions:
                    owners[partition] = number
                load += len(partitions)
            self._loads[number] = load

    def _target_of(self, number: int) -> MutableTarget:
        target = self._changed.get(number)
        if target is None:
            target = self._changed[number] = MutableTarget(self._members[number].target)
        return target

    def _set_capacity(self, topic_id: str) -> int:
        """Return the buckets of the set that a member gets for a topic that is new to it."""
        partitions_each = -(-len(self._owners[topic_id]) // len(self._subscribers[topic_id]))
        return capacity_at_least(partitions_each * 4 // 3 + 1)

    # --------------------------------------------------------------------------------------------- free partitions

    def _assign_free(self, topic_id: str) -> None:
        """Give the topic's free partitions to its least loaded subscribers, level by level."""
        owners = self._owners[topic_id]
        if _NOBODY not in owners:
            return
        free = [partition for partition, owner in enumerate(owners) if owner < 0]
        loads = self._loads
        by_load = sorted(self._subscribers[topic_id], key=loads.__getitem__)
        sorted_loads = [loads[number] for number in by_load]
        gained: dict[int, list[int]] = {}
        level, taken = sorted_loads[0], 0
        while taken < len(free):
            given = free[taken : taken + bisect_right(sorted_loads, level)]
            for number, partition in zip(by_load, given, strict=False):
                owners[partition] = number
                if number in gained:
                    gained[number].append(partition)
                else:
                    gained[number] = [partition]
            taken += len(given)
            level += 1
        capacity = self._set_capacity(topic_id)
        for number, partitions in gained.items():
            loads[number] += len(partitions)
            self._target_of(number).add(topic_id, partitions, capacity)

    # ------------------------------------------------------------------------------------------------------ balance

    def _balance(self, topic_ids: list[str]) -> None:
        """Balance the topics in turn, until none has changed since the last one that did."""
        last: str | None = None
        for topic_id in chain.from_iterable([topic_ids] * ROUNDS_MAX):
            if topic_id == last:
                return
            if self._balance_topic(topic_id) or last is None:
                last = topic_id

    def _balance_topic(self, topic_id: str) -> bool:
        """Move partitions of a topic from the most to the least loaded subscribers. Return whether any has moved."""
        subscribers = self._subscribers[topic_id]
        loads = itemgetter(*subscribers)(self._loads)
        if max(loads) - min(loads) <= 1:
            return False
        owners = self._owners[topic_id]
        by_owner: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            by_owner.setdefault(owner, []).append(partition)
        balancer = TopicBalancer(subscribers, self._loads)
        capacity = self._set_capacity(topic_id)
        moved = False
        while not balancer.is_balanced():
            giver = balancer.most_loaded()
            while giver is not None and not by_owner.get(giver):
                balancer.exclude_most_loaded()
                giver = balancer.most_loaded()
            if giver is None:
                break
            partition = by_owner[giver].pop()
            taker = balancer.least_loaded()
            if balancer.is_balanced():
                break
            owners[partition] = taker
            self._loads[giver] -= 1
            self._loads[taker] += 1
            self._target_of(giver).remove(topic_id, (partition,))
            self._target_of(taker).add(topic_id, (partition,), capacity)
            moved = True
        return moved
