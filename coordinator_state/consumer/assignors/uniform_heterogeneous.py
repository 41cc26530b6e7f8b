"""The assignor `uniform` for members that subscribe to different topics.

Members keep what they subscribe to. Free partitions go to the least loaded subscriber; then topics are balanced, one
after the other, until a round changes nothing.

Source: `UniformHeterogeneousAssignmentBuilder` (Kafka 4.3).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from itertools import chain

from coordinator_state.consumer.assignors.contract import AssignorError, AssignorGroup
from coordinator_state.consumer.assignors.java_order import (
    capacity_at_least,
    grown_capacity,
    partition_order,
    topic_id_order,
)
from coordinator_state.consumer.assignors.mutable_target import MutableTarget, NewTarget, NewTargetOrder
from coordinator_state.consumer.member import TargetAssignment


class TopicBalancer:
    """Names the members between which the next partition is to move. Members go by number; loads are the caller's."""

    def __init__(self, subscribers: Iterable[int], loads: list[int]) -> None:
        """`subscribers` are ascending, and not none; the caller keeps `loads` up to date."""
        self._loads = loads
        self._members = sorted(subscribers, key=loads.__getitem__)
        self._least_end = 0
        """Members before this place are the least loaded ones."""
        self._least_load = loads[self._members[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._members)
        """Members between these places are the most loaded ones; those behind are excluded."""
        self._most_load = loads[self._members[-1]] + 1
        self._next_most = len(self._members) - 1

    def is_balanced(self) -> bool:
        """Return whether the most and the least loaded are within one partition of each other."""
        return self._most_load - self._least_load <= 1

    def least_loaded(self) -> int:
        """Return the next of the least loaded members, which is about to get a partition."""
        if self._next_least >= self._least_end:
            self._least_load += 1
            members, loads = self._members, self._loads
            while self._least_end < len(members) and loads[members[self._least_end]] == self._least_load:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def most_loaded(self) -> int | None:
        """Return the next of the most loaded members, which is about to give a partition; None: all are excluded."""
        if self._next_most < self._most_start:
            members, loads = self._members, self._loads
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_load = loads[members[self._most_start - 1]]
            else:
                self._most_load -= 1
            while self._most_start > 0 and loads[members[self._most_start - 1]] == self._most_load:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def exclude_most_loaded(self) -> None:
        """Let the member that `most_loaded` has just returned be: it has no partition of the topic."""
        place, last, members = self._next_most + 1, self._most_end - 1, self._members
        members[place], members[last] = members[last], members[place]
        self._most_end = last


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
        self._new: dict[int, NewTarget] = {
            number: {} for number, member in enumerate(group.members) if not member.target
        }
        """What members get whose targets are empty, as long as nothing of it is moved."""
        self._changed: dict[int, MutableTarget] = {}
        """Copies of all other targets that are not kept as they are."""
        self._subscribers = self._find_subscribers()
        self._owners = {topic_id: [_NOBODY] * group.topics[topic_id].partition_count for topic_id in self._subscribers}
        """The owner of each partition of each topic."""
        self._set_capacities = {topic_id: self._set_capacity(topic_id) for topic_id in self._subscribers}
        """The buckets of the set that a member gets for a topic that is new to it."""

    def assign(self) -> dict[str, TargetAssignment]:
        self._keep_what_is_subscribed()
        topic_ids = sorted(self._subscribers, key=self._topic_order)
        for topic_id in topic_ids:
            self._assign_free(topic_id)
        self._balance([topic_id for topic_id in topic_ids if len(self._subscribers[topic_id]) > 1])
        assignment = {member.member_id: member.target for member in self._members}
        in_record_order = NewTargetOrder(topic_ids)
        for number, new in self._new.items():
            assignment[self._members[number].member_id] = in_record_order(new)
        for number, changed in self._changed.items():
            assignment[self._members[number].member_id] = changed.in_record_order()
        return assignment

    def _find_subscribers(self) -> dict[str, list[int]]:
        """Return the subscribers of each topic that has any, ascending."""
        subscribers: dict[str, list[int]] = {topic_id: [] for topic_id in self._group.topics}
        subscribers_of = subscribers.__getitem__
        for number, member in enumerate(self._members):
            for numbers in map(subscribers_of, member.subscribed_topic_ids):
                numbers.append(number)
        return {topic_id: numbers for topic_id, numbers in subscribers.items() if numbers}

    def _topic_order(self, topic_id: str) -> tuple[float, int, tuple[int, int]]:
        """Topics of many partitions for each subscriber come first."""
        subscribers = len(self._subscribers[topic_id])
        return -len(self._owners[topic_id]) / subscribers, subscribers, topic_id_order(topic_id)

    def _keep_what_is_subscribed(self) -> None:
        subscriptions: dict[tuple[str, ...], frozenset[str]] = {}
        for number, member in enumerate(self._members):
            if not member.target:
                continue  # so is everyone's in a first assignment
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
                count = len(owners)
                for partition in partitions:
                    if not 0 <= partition < count:
                        wrong = min(partitions) if min(partitions) < 0 else max(partitions)
                        raise AssignorError(f"topic {topic_id!r} has no partition {wrong}")
                    owners[partition] = number
                load += len(partitions)
            self._loads[number] = load

    def _target_of(self, number: int) -> MutableTarget:
        target = self._changed.get(number)
        if target is None:
            new = self._new.pop(number, None)
            if new is None:
                target = MutableTarget(self._members[number].target)
            else:
                target = MutableTarget.of_new(new, self._set_capacities)
            self._changed[number] = target
        return target

    def _set_capacity(self, topic_id: str) -> int:
        partitions_each = -(-len(self._owners[topic_id]) // len(self._subscribers[topic_id]))
        return capacity_at_least(partitions_each * 4 // 3 + 1)

    # --------------------------------------------------------------------------------------------- free partitions

    def _assign_free(self, topic_id: str) -> None:
        """Give the topic's free partitions to its least loaded subscribers."""
        owners = self._owners[topic_id]
        if _NOBODY not in owners:
            return
        free = [partition for partition, owner in enumerate(owners) if owner < 0]
        loads, new_targets, capacity = self._loads, self._new, self._set_capacities[topic_id]
        for number, partitions in self._shares(topic_id, free):
            loads[number] += len(partitions)
            for partition in partitions:
                owners[partition] = number
            new = new_targets.get(number)
            if new is None:
                self._target_of(number).add(topic_id, partitions, capacity)
            elif isinstance(partitions, tuple):
                new[topic_id] = partitions
            else:
                new[topic_id] = tuple(partition_order(partitions, grown_capacity(capacity, len(partitions))))

    def _shares(self, topic_id: str, free: list[int]) -> Iterable[tuple[int, tuple[int] | list[int]]]:
        """Return who gets which of a topic's free partitions, level by level: each subscriber once, and a single
        partition as a tuple."""
        loads = self._loads
        by_load = sorted(self._subscribers[topic_id], key=loads.__getitem__)
        level = loads[by_load[0]]
        if len(free) <= len(by_load) and loads[by_load[len(free) - 1]] == level:
            return zip(by_load, zip(free), strict=False)  # the lowest level takes all: one for each, the usual case
        sorted_loads = [loads[number] for number in by_load]
        shares: dict[int, tuple[int] | list[int]] = {}
        taken = 0
        while taken < len(free):
            given = free[taken : taken + bisect_right(sorted_loads, level)]
            for number, partition in zip(by_load, given, strict=False):
                share = shares.get(number)
                if share is None:
                    shares[number] = (partition,)
                elif isinstance(share, tuple):
                    shares[number] = [*share, partition]
                else:
                    share.append(partition)
            taken += len(given)
            level += 1
        return shares.items()

    # ------------------------------------------------------------------------------------------------------ balance

    def _balance(self, topic_ids: list[str]) -> None:
        """Balance the topics in turn, until none has changed since the last one that did."""
        last: str | None = None
        load_min = min(self._loads, default=0)
        for topic_id in chain.from_iterable([topic_ids] * ROUNDS_MAX):
            if topic_id == last:
                return
            if self._balance_topic(topic_id, load_min) or last is None:
                last = topic_id

    def _balance_topic(self, topic_id: str, load_min: int) -> bool:
        """Move partitions of a topic from the most to the least loaded subscribers. Return whether any has moved.

        `load_min`: nobody has less. Whoever gives keeps more than the least loaded has, so it stays true.
        """
        subscribers, owners, loads = self._subscribers[topic_id], self._owners[topic_id], self._loads
        # Nothing moves unless something can move at first: from the most loaded owner to the least loaded subscriber.
        most = max([loads[owner] for owner in owners], default=0)
        if most - load_min <= 1 or most - min([loads[number] for number in subscribers]) <= 1:
            return False
        by_owner: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            by_owner.setdefault(owner, []).append(partition)
        balancer = TopicBalancer(subscribers, loads)
        lost: dict[int, list[int]] = {}
        gained: dict[int, list[int]] = {}
        while not balancer.is_balanced():
            giver = balancer.most_loaded()
            while giver is not None and not by_owner.get(giver):
                balancer.exclude_most_loaded()
                giver = balancer.most_loaded()
            if giver is None:
                break
            taker = balancer.least_loaded()
            if balancer.is_balanced():
                break
            partition = by_owner[giver].pop()
            owners[partition] = taker
            loads[giver] -= 1
            loads[taker] += 1
            lost.setdefault(giver, []).append(partition)
            gained.setdefault(taker, []).append(partition)
        # Nobody both gives and takes: before that, most and least would be within one partition of each other.
        for number, partitions in lost.items():
            self._target_of(number).remove(topic_id, partitions)
        for number, partitions in gained.items():
            self._target_of(number).add(topic_id, partitions, self._set_capacities[topic_id])
        return True
