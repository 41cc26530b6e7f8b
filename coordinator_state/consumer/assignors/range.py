"""The server-side assignor `range`: each topic is cut into one block for each subscriber.

It does not look at what members have. Static members come first, by instance id, so they keep their place when they
come back under another id.

Source: `RangeAssignor` of the package `group.assignor` (Kafka 4.3).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import repeat

from coordinator_state.consumer.assignors.contract import AssignorGroup, AssignorMember, SubscriptionType
from coordinator_state.consumer.assignors.java_order import capacity_at_least, topic_buckets, topic_order
from coordinator_state.consumer.member import TargetAssignment
from schemas.java_hash import java_string_order


class RangeAssignor:
    """Kafka's `range`."""

    name = "range"

    def assign(self, group: AssignorGroup) -> dict[str, TargetAssignment]:
        """Return the assignment; every member has an entry."""
        members = _in_order(group.members)
        if not members:
            return {}
        if group.subscription_type is SubscriptionType.HOMOGENEOUS:
            return _assign_homogeneous(group, members)
        return _assign_heterogeneous(group, members)


def _in_order(members: Iterable[AssignorMember]) -> list[AssignorMember]:
    static = [member for member in members if member.instance_id is not None]
    dynamic = [member for member in members if member.instance_id is None]
    return _sorted(static, [member.instance_id or "" for member in static]) + _sorted(
        dynamic, [member.member_id for member in dynamic]
    )


def _sorted(members: list[AssignorMember], names: list[str]) -> list[AssignorMember]:
    places = range(len(names))
    if all(map(str.isascii, names)):  # then Python compares them as Java does
        return [members[place] for place in sorted(places, key=names.__getitem__)]
    return [members[place] for place in sorted(places, key=lambda place: java_string_order(names[place]))]


def _assign_homogeneous(group: AssignorGroup, members: list[AssignorMember]) -> dict[str, TargetAssignment]:
    """The blocks of a member are the same in all topics of one size."""
    subscribed = members[0].subscribed_topic_ids
    topic_ids = topic_order(subscribed, _record_capacity(subscribed, members[0].absent_topics))
    partition_counts = [group.topics[topic_id].partition_count for topic_id in topic_ids]
    sizes = {count: _blocks(count, len(members)) for count in dict.fromkeys(partition_counts)}
    assignment: dict[str, TargetAssignment] = {}
    for number, member in enumerate(members):
        if len(sizes) == 1:
            [blocks] = sizes.values()
            target = tuple(zip(topic_ids, repeat(blocks[number]))) if blocks[number] else ()
        else:
            blocks_of = [sizes[count][number] for count in partition_counts]
            target = tuple([(topic, block) for topic, block in zip(topic_ids, blocks_of, strict=True) if block])
        assignment[member.member_id] = target
    return assignment


def _assign_heterogeneous(group: AssignorGroup, members: list[AssignorMember]) -> dict[str, TargetAssignment]:
    """Members are in order, so each takes the next block of each of its topics."""
    subscribers: Counter[str] = Counter()
    for topic_ids, count in Counter([member.subscribed_topic_ids for member in members]).items():
        for topic_id in topic_ids:
            subscribers[topic_id] += count
    sizes = {topic_id: (group.topics[topic_id].partition_count, count) for topic_id, count in subscribers.items()}
    blocks_of = {size: _blocks(*size) for size in dict.fromkeys(sizes.values())}
    left = {topic_id: iter(blocks_of[size]) for topic_id, size in sizes.items()}
    buckets: dict[int, dict[str, int]] = {}
    assignment: dict[str, TargetAssignment] = {}
    for member in members:
        capacity = _record_capacity(member.subscribed_topic_ids, member.absent_topics)
        if capacity not in buckets:
            buckets[capacity] = topic_buckets(sizes, capacity)
        target = []
        rest = filter(left.__contains__, member.subscribed_topic_ids) if left else ()
        for topic_id in sorted(rest, key=buckets[capacity].__getitem__):
            if block := next(left[topic_id], ()):
                target.append((topic_id, block))
            else:
                del left[topic_id]  # nobody who comes later gets any of it
        assignment[member.member_id] = tuple(target)
    return assignment


def _blocks(partition_count: int, subscribers: int) -> list[tuple[int, ...]]:
    """Return the partitions of each subscriber, in their order. Those without any come last."""
    quota, extras = divmod(partition_count, subscribers)
    blocks = []
    first = 0
    for number in range(subscribers if quota else extras):
        after = first + quota + (number < extras)
        blocks.append(tuple(range(first, after)))
        first = after
    return blocks + [()] * (subscribers - len(blocks))


def _record_capacity(topic_ids: Sequence[str], absent: int) -> int:
    """Return the buckets of the map that the record of a target is written from."""
    return capacity_at_least((len(topic_ids) + absent) * 4 // 3 + 1)
