"""What the server-side assignors promise, as conditions on their result. How they come to it is not asked.

Source: the descriptions of `UniformAssignor` and `RangeAssignor` (Kafka 4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from simulation.model_consumer_records import Partition, Target


class Assignee(NamedTuple):
    """A member to assign to."""

    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    """Ids of the topics that it subscribes to."""
    old: Target
    """Its target until now."""


class Assigned(NamedTuple):
    """What an assignor was asked."""

    assignor: str
    subscription_type: str
    members: tuple[Assignee, ...]
    counts: dict[str, int]
    """Topic id -> number of partitions."""

    def fails(self) -> bool | None:
        """Return whether there can be no assignment, because somebody's old target is a partition that is not there: a
        topic was made again with fewer partitions while the group was a classic one, whose assignments have names.

        Kafka's uniform assignor takes such a partition for one that is there. Where all subscribe alike it then comes
        out uneven, unless it had taken the partition from a member that had too much: None, for that depends on the
        order of a hash map.
        """
        if self.assignor != "uniform":
            return False
        loads = [
            sum(topic in member.topics for topic, _ in member.old)
            for member in self.members
            if any(topic in member.topics and number >= self.counts[topic] for topic, number in member.old)
        ]
        if not loads or self.subscription_type != "Homogeneous":
            return bool(loads)
        return min(loads) <= sum(self.counts.values()) // len(self.members) or None

    def partitions(self, topics: frozenset[str]) -> set[Partition]:
        return {(topic, number) for topic in topics for number in range(self.counts[topic])}

    def some_assignment(self) -> dict[str, Target]:
        """Return some assignment that keeps the promise where all subscribe alike: everybody keeps its fair share,
        and what is free goes to who has least."""
        new: dict[str, set[Partition]] = {}
        free = self.partitions(frozenset(self.counts))
        fair = -(-len(free) // max(len(self.members), 1))
        for member in self.members:
            wanted = [
                partition for partition in sorted(member.old) if partition in free and partition[0] in member.topics
            ]
            new[member.member_id] = set(wanted[:fair])
            free -= new[member.member_id]
        for partition in sorted(free):
            takers = [member.member_id for member in self.members if partition[0] in member.topics]
            new[min(takers, key=lambda member_id: len(new[member_id]))].add(partition)
        return {member_id: frozenset(partitions) for member_id, partitions in new.items()}


def broken_promise(asked: Assigned, new: Mapping[str, Target]) -> str | None:
    """Return how the result breaks the assignor's promise; None if it keeps it."""
    owners = Counter(partition for partitions in new.values() for partition in partitions)
    twice = sorted(partition for partition, count in owners.items() if count > 1)
    if twice:
        return f"{twice[0]} is the target of {owners[twice[0]]} members"
    is_alike = len({member.topics for member in asked.members}) <= 1
    if asked.subscription_type == "Homogeneous" and not is_alike:
        return None  # Kafka takes a member whose expression is not resolved yet for one that subscribes like the others
    for member in asked.members:
        foreign = sorted(partition for partition in new[member.member_id] if partition[0] not in member.topics)
        if foreign:
            return f"{member.member_id} is to have {foreign[0]}, to which it does not subscribe"
    forgotten = asked.partitions(frozenset(asked.counts)) - owners.keys()
    if forgotten:
        return f"{min(forgotten)} is nobody's target"
    beyond = owners.keys() - asked.partitions(frozenset(asked.counts))
    if beyond:
        return f"{min(beyond)} is a target, and does not exist"
    if asked.assignor == "range":
        return _not_a_range(asked, new)
    return _not_fair(asked, new) if is_alike else None


def _not_a_range(asked: Assigned, new: Mapping[str, Target]) -> str | None:
    """Each topic is cut into blocks for its subscribers: static members first, by instance; then the others, by id.
    The first blocks are one larger where it does not come out even."""
    for topic, count in sorted(asked.counts.items()):
        subscribers = sorted(
            (member for member in asked.members if topic in member.topics),
            key=lambda member: (member.instance_id is None, member.instance_id or member.member_id),
        )
        size, larger = divmod(count, len(subscribers))
        start = 0
        for number, member in enumerate(subscribers):
            end = start + size + (number < larger)
            actual = {index for topic_id, index in new[member.member_id] if topic_id == topic}
            if actual != set(range(start, end)):
                return f"{member.member_id} is to have {sorted(actual)} of {topic}, not {start} to {end - 1}"
            start = end
    return None


def _not_fair(asked: Assigned, new: Mapping[str, Target]) -> str | None:
    """Who subscribes alike gets as much, but for one partition, and nobody loses what is within its share."""
    least = sum(asked.counts.values()) // max(len(asked.members), 1)
    for member in asked.members:
        size = len(new[member.member_id])
        if not least <= size <= least + 1:
            return f"{member.member_id} is to have {size} partitions, where {least} are a fair share"
        valid = {partition for partition in member.old if partition in asked.partitions(member.topics)}
        if len(valid & new[member.member_id]) < min(len(valid), least):
            return f"{member.member_id} keeps {len(valid & new[member.member_id])} of its {len(valid)} partitions"
    return None
