"""The server-side assignor `range`: each topic is cut into one block for each subscriber.

It does not look at what members have. Static members come first, by instance id, so they keep their place when they
come back under another id.

Source: `RangeAssignor` of the package `group.assignor` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import repeat

from coordinator_state.consumer.assignors.contract import AssignorGroup, AssignorMember, SubscriptionType
from coordinator_state.consumer.assignors.java_order import capacity_at_least, topic_order
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
    topic_ids = _in_record_order(members[0].subscribed_topic_ids, members[0].absent_topics)
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
    subscribers: dict[str, list[int]] = {}
    same: dict[tuple[tuple[str, ...], int], list[int]] = {}
    for number, member in enumerate(members):
        same.setdefault((member.subscribed_topic_ids, member.absent_topics), []).append(number)
    for (topic_ids, _), numbers in same.items():
        for topic_id in topic_ids:
            subscribers.setdefault(topic_id, []).extend(numbers)
    blocks_of: dict[tuple[int, int], list[tuple[int, ...]]] = {}
    member_blocks: list[dict[str, tuple[int, ...]]] = [{} for _ in members]
    for topic_id, numbers in subscribers.items():
        numbers.sort()
        size = group.topics[topic_id].partition_count, len(numbers)
        if size not in blocks_of:
            blocks_of[size] = _blocks(*size)
        for number, block in zip(numbers, blocks_of[size], strict=True):
            if not block:
                break
            member_blocks[number][topic_id] = block
    assignment: dict[str, TargetAssignment] = {}
    for (topic_ids, absent), numbers in same.items():
        in_order = _in_record_order(topic_ids, absent)
        for number in numbers:
            blocks = member_blocks[number]
            target = tuple([(topic_id, blocks[topic_id]) for topic_id in in_order if topic_id in blocks])
            assignment[members[number].member_id] = target
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


def _in_record_order(topic_ids: Sequence[str], absent: int) -> list[str]:
    return topic_order(topic_ids, capacity_at_least((len(topic_ids) + absent) * 4 // 3 + 1))
