"""How often a large group is published: the assignments topic gets the whole group, so its rate has a bound in bytes.

A small group is published at the end of each step that changes it. A large one is published at most once in the time
that its size takes at a fixed rate, by the group's own clock; what changes in between is published by a timer, as it is
then. So 1,000 members that reconcile one by one are not published a thousand times.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET

from schemas.history import AssignedTopic, GroupSnapshot

AT_ONCE_BYTES_MAX = 65_536
"""A group of this size, or a smaller one, is published at each change."""
BYTES_PER_S = 262_144
"""How fast a larger one is published."""
_MEMBER_BYTES = 200
_CONSUMER_MEMBER_BYTES = 200
_TOPIC_BYTES = 40
_PARTITION_BYTES = 4
"""About what the record has of each, besides the bytes that a member has brought."""


def publication_interval_ms(snapshot: GroupSnapshot) -> int:
    """Return how long after this publication of a group the next one may come; 0: at once."""
    size = estimated_bytes(snapshot)
    return 0 if size <= AT_ONCE_BYTES_MAX else size * 1_000 // BYTES_PER_S


def estimated_bytes(snapshot: GroupSnapshot) -> int:
    """Return about how large the record of a published group is. It depends on nothing but the group."""
    size = 0
    for member in snapshot.members:
        size += _MEMBER_BYTES + len(member.metadata) + len(member.assignment) + _size(member.partitions)
        if member.consumer is not UNSET:
            size += _CONSUMER_MEMBER_BYTES + _size(member.consumer.target) + _size(member.consumer.pending_revocation)
            size += sum(map(len, member.consumer.subscribed_topics))
    return size


def _size(topics: Iterable[AssignedTopic] | None) -> int:
    return sum([_TOPIC_BYTES + _PARTITION_BYTES * len(topic.partitions) for topic in topics or ()])
