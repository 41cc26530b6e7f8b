"""Assignments, decoded for people: history records and the assignments topic have them."""

from __future__ import annotations

from schemas.consumer_protocol import assigned_partitions
from schemas.history import AssignedTopic
from schemas.small_cache import small_cache
from schemas.wire import DecodeError


def assigned_topics(is_consumer: bool, assignment: bytes) -> tuple[AssignedTopic, ...] | None:
    """Return the topics and partitions of an assignment blob; None if it is not one of the consumer protocol."""
    if not is_consumer:
        return None
    return _decoded(assignment) if assignment else ()


@small_cache(entries=1_024, longest=4_096)
def _decoded(assignment: bytes) -> tuple[AssignedTopic, ...] | None:
    """Every snapshot of a group has all assignments, and most are those of the last one."""
    try:
        by_topic = assigned_partitions(assignment)
    except DecodeError:
        return None
    return tuple(AssignedTopic(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items())
