"""Topics that are gone take their committed offsets with them.

Source: `OffsetMetadataManager.onPartitionsDeleted` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state.offset_log import append_offset_tombstone
from coordinator_state.retention import drop_pending, record_deleted_offsets, remove_offset
from coordinator_state.step import Step
from schemas.events import DeletedTopic
from schemas.history import OffsetChange


def forget_topics(step: Step, topics: tuple[DeletedTopic, ...]) -> None:
    """Drop the offsets of topics that are gone: those stored with the id of the one that is gone, or without an id.

    An offset that was stored with another id belongs to another topic of the same name. Whether the group is subscribed
    does not matter. A group that has nothing left is no exception: the next retention check removes it if it is Empty.
    """
    group = step.require_group()
    pending = group.offsets.pending if group.offsets.has_pending else {}
    # The summary for retention names the topics, so offsets are decoded only where some may go.
    deleted_ids: dict[str, set[str | None]] = {
        topic.name: {None} for topic in topics if topic.name in group.retention or topic.name in pending
    }
    for topic in topics:
        if topic.name in deleted_ids:
            deleted_ids[topic.name].add(topic.topic_id)
    open_partitions = sorted(
        (producer_id, name, partition)
        for name in deleted_ids.keys() & pending.keys()
        for partition, by_producer in pending[name].items()
        for producer_id in by_producer
    )
    changes = []
    for name in sorted(deleted_ids):
        stored = group.offsets.of_topic(name)
        for partition in sorted(
            number for number, committed in stored.items() if committed.topic_id in deleted_ids[name]
        ):
            change = remove_offset(step, name, partition)
            assert change is not None
            changes.append(change)
    for _, name, partition in open_partitions:
        changes += _forget_pending(step, name, partition)
    record_deleted_offsets(step, changes)


def _forget_pending(step: Step, topic: str, partition: int) -> list[OffsetChange]:
    """Drop what is pending: it names no id, so the name decides. As in Kafka, each producer's leaves a tombstone.

    Where an offset of another topic of this name is committed, nothing is written: a tombstone would delete that one.
    """
    dropped = drop_pending(step, topic, partition)
    if step.require_group().offsets.get(topic, partition) is not None:
        return []
    append_offset_tombstone(step, topic, partition)
    change = OffsetChange(topic=topic, partition=partition, offset=None, previous_offset=None)
    return [change] if dropped else []
