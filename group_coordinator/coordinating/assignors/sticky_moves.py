"""Moves of single partitions between members, such that no two members swap partitions of one topic."""

from __future__ import annotations

from collections.abc import Callable

from group_coordinator.coordinating.assignors.java_hash_map import JavaHashSet, java_topic_partition_hash
from group_coordinator.coordinating.assignors.layout import GroupLayout
from group_coordinator.coordinating.assignors.least_loaded import Loads
from schemas.java_hash import java_string_hash


class PartitionMoves:
    """The present owner of each partition, and all moves so far.

    Source: `AbstractStickyAssignor.PartitionMovements`. A partition that moves on counts as moved from where it was at
    first; back there, as not moved.
    """

    def __init__(self, layout: GroupLayout, owner: list[int], loads: Loads) -> None:
        self._layout = layout
        self._loads = loads
        self.owner = owner
        self.moved: dict[int, None] = {}
        """Partitions that have changed hands at least once, by their last move."""
        self._way_of: dict[int, tuple[int, int]] = {}
        """Of each partition that is not where it was: from whom, to whom."""
        self._on_way: dict[tuple[int, int, int], JavaHashSet[int]] = {}
        """Partitions by topic, from whom, to whom."""
        self._hash_codes: dict[int, Callable[[int], int]] = {}

    def move(self, partition: int, taker: int) -> None:
        """Give `taker` one partition of this topic: a partition that went the other way, if there is one, else this.

        Kafka takes the first such partition in the order of a Java `HashSet`.
        """
        topic = self._layout.topic_of_partition[partition]
        source, _ = self._way_of.get(partition, (self.owner[partition], taker))
        opposite = self._on_way.get((topic, taker, source))
        self._hand_over(opposite.first() if opposite else partition, topic, taker)

    def _hand_over(self, partition: int, topic: int, taker: int) -> None:
        giver = self.owner[partition]
        self.owner[partition] = taker
        self._loads.move_one(giver, taker)
        self.moved.pop(partition, None)
        self.moved[partition] = None
        source, before = self._way_of.pop(partition, (giver, giver))
        if before != source:
            self._leave_way(partition, (topic, source, before))
        if source != taker:
            self._way_of[partition] = (source, taker)
            self._partitions_on_way(topic, source, taker).add(partition)

    def _leave_way(self, partition: int, way: tuple[int, int, int]) -> None:
        self._on_way[way].remove(partition)
        if not self._on_way[way]:
            del self._on_way[way]  # as in Kafka: the next set begins small again, which shows in its order

    def _partitions_on_way(self, topic: int, source: int, taker: int) -> JavaHashSet[int]:
        way = (topic, source, taker)
        if way not in self._on_way:
            self._on_way[way] = JavaHashSet(self._hash_code_in(topic))
        return self._on_way[way]

    def _hash_code_in(self, topic: int) -> Callable[[int], int]:
        if topic not in self._hash_codes:
            topic_hash = java_string_hash(self._layout.topic_names[topic])
            first = self._layout.first_partition[topic]
            self._hash_codes[topic] = lambda number: java_topic_partition_hash(topic_hash, number - first)
        return self._hash_codes[topic]
