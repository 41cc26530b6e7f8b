"""Topics that are gone take their committed offsets with them.

Source: `OffsetMetadataManager.onPartitionsDeleted` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.retention import record_deleted_offsets, remove_offset
from coordinator_state.step import Step
from schemas.events import DeletedTopic
from schemas.history import OffsetChange


def forget_topics(step: Step, topics: tuple[DeletedTopic, ...]) -> None:
    """Drop the offsets of topics that are gone: those stored with the id of the one that is gone, or without an id.

    An offset that was stored with another id belongs to another topic of the same name. Whether the group is subscribed
    does not matter. A group that has nothing left is no exception: the next retention check removes it if it is Empty.
    """
    group = step.require_group()
    # The summary for retention names the topics, so offsets are decoded only where some may go.
    deleted_ids: dict[str, set[str | None]] = {topic.name: {None} for topic in topics if topic.name in group.retention}
    for topic in topics:
        if topic.name in deleted_ids:
            deleted_ids[topic.name].add(topic.topic_id)
    changes = []
    for name in sorted(deleted_ids):
        stored = group.offsets.of_topic(name)
        for partition in sorted(
            number for number, committed in stored.items() if committed.topic_id in deleted_ids[name]
        ):
            removed = remove_offset(step, name, partition)
            assert removed is not None
            changes.append(OffsetChange(topic=name, partition=partition, offset=None, previous_offset=removed.offset))
    record_deleted_offsets(step, changes)
