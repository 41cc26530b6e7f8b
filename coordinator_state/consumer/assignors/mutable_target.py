"""A member's target assignment while an assignor changes it: it ends in the order in which Kafka would record it.

Source: `AssignorHelpers.deepCopy` and the maps that the assignors make (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Sequence

from coordinator_state.consumer.assignors.java_order import (
    capacity_at_least,
    grown_capacity,
    partition_order,
    set_capacity,
    target_map_order,
    topic_order,
)
from coordinator_state.consumer.member import TargetAssignment
from schemas.java_hash import is_overfull


class MutableTarget:
    """A copy of a target assignment, as a Java map of sets. Iteration orders: `java_order`."""

    __slots__ = ("_capacity", "_partitions", "_set_capacities", "_topics")

    def __init__(self, target: TargetAssignment) -> None:
        """`target` is in the order of its record."""
        in_map_order = target_map_order(target)
        self._partitions = {topic_id: dict.fromkeys(partitions) for topic_id, partitions in in_map_order}
        """The partitions of each topic, in the order of insertion."""
        self._set_capacities = {topic_id: set_capacity(len(partitions)) for topic_id, partitions in in_map_order}
        self._topics = [topic_id for topic_id, _ in in_map_order]
        """In the order in which they lie in the buckets: a new one is put first."""
        self._capacity = grown_capacity(capacity_at_least(len(target)), len(target))

    def drop_topic(self, topic_id: str) -> None:
        """Take a topic out; KeyError when it is not there."""
        del self._partitions[topic_id]
        self._topics.remove(topic_id)

    def remove(self, topic_id: str, partitions: Sequence[int]) -> None:
        """Take partitions out, and the topic with the last one; KeyError when one is not there."""
        left = self._partitions[topic_id]
        for partition in partitions:
            del left[partition]
        if not left:
            self.drop_topic(topic_id)

    def add(self, topic_id: str, partitions: Sequence[int], new_set_capacity: int) -> None:
        """Add partitions that are not there. A topic that is new gets a set of `new_set_capacity` buckets."""
        # Kafka calls `computeIfAbsent` for each partition, which looks at the size of the map first, also for a topic
        # that is there. The second call sees the topic that the first has added; later ones see nothing new.
        topics = self._topics
        if is_overfull(len(topics), self._capacity):
            self._capacity *= 2
        present = self._partitions.get(topic_id)
        if present is None:
            topics.insert(0, topic_id)
            self._partitions[topic_id] = present = dict.fromkeys(partitions)
            self._set_capacities[topic_id] = grown_capacity(new_set_capacity, len(present))
            if len(partitions) > 1 and is_overfull(len(topics), self._capacity):
                self._capacity *= 2
        else:
            present.update(dict.fromkeys(partitions))
            self._set_capacities[topic_id] = grown_capacity(self._set_capacities[topic_id], len(present))

    def in_record_order(self) -> TargetAssignment:
        """Return the target assignment as it is now."""
        partitions, capacities = self._partitions, self._set_capacities
        topics = self._topics if len(self._topics) < 2 else topic_order(self._topics, self._capacity)
        return tuple([
            (
                topic_id,
                tuple(partitions[topic_id])
                if len(partitions[topic_id]) == 1
                else tuple(partition_order(tuple(partitions[topic_id]), capacities[topic_id])),
            )
            for topic_id in topics
        ])
