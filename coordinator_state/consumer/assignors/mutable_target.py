"""A member's target assignment while an assignor changes it: it ends in the order in which Kafka would record it.

Source: `AssignorHelpers.deepCopy` and the maps that the assignors make (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from coordinator_state.consumer.assignors.java_order import (
    capacity_at_least,
    grown_capacity,
    partition_order,
    set_capacity,
    target_map_order,
    topic_buckets,
    topic_order,
)
from coordinator_state.consumer.member import TargetAssignment
from schemas.java_hash import is_overfull

NewTarget = dict[str, tuple[int, ...]]
"""What is given to a member whose target is empty: topics in the order of giving, each with all its partitions at once,
in the order of their set."""


class MutableTarget:
    """A copy of a target assignment, as a Java map of sets. Iteration orders: `java_order`."""

    __slots__ = ("_capacity", "_partitions", "_set_capacities", "_set_capacities_of_new")

    def __init__(self, target: TargetAssignment) -> None:
        """`target` is in the order of its record."""
        self._partitions = dict(reversed(target_map_order(target)))
        """The partitions of each topic, in the order of insertion. The topics are backwards, so that a new one, which
        is put first in its bucket, comes last."""
        self._set_capacities: dict[str, int] = {}
        """The buckets of sets that have changed. The others were made for what is in them."""
        self._set_capacities_of_new: Mapping[str, int] | None = None
        self._capacity = grown_capacity(capacity_at_least(len(target)), len(target))

    @classmethod
    def of_new(cls, new: NewTarget, set_capacities: Mapping[str, int]) -> MutableTarget:
        """Return an empty target to which `new` was added, topic by topic; `set_capacities`: buckets of a new set."""
        target = cls(())
        target._partitions = new
        target._set_capacities_of_new = set_capacities
        target._capacity = grown_capacity(1, _size_at_last_look(new))
        return target

    def drop_topic(self, topic_id: str) -> None:
        """Take a topic out; KeyError when it is not there."""
        del self._partitions[topic_id]

    def remove(self, topic_id: str, partitions: Iterable[int]) -> None:
        """Take partitions out, and the topic with the last one; KeyError when one is not there."""
        before, lost = self._partitions[topic_id], frozenset(partitions)
        left = tuple([partition for partition in before if partition not in lost])
        if len(before) - len(left) < len(lost):
            raise KeyError(partitions)
        if left:
            self._set_capacities[topic_id] = self._set_capacity(topic_id)
            self._partitions[topic_id] = left
        else:
            self.drop_topic(topic_id)

    def add(self, topic_id: str, partitions: Sequence[int], new_set_capacity: int) -> None:
        """Add partitions that are not there. A topic that is new gets a set of `new_set_capacity` buckets."""
        # Kafka calls `computeIfAbsent` for each partition, which looks at the size of the map first, also for a topic
        # that is there. The second call sees the topic that the first has added; later ones see nothing new.
        topics = len(self._partitions)
        if is_overfull(topics, self._capacity):
            self._capacity *= 2
        if topic_id in self._partitions:
            capacity = self._set_capacity(topic_id)
            after = (*self._partitions[topic_id], *partitions)
        else:
            capacity = new_set_capacity
            after = tuple(partitions)
            if len(partitions) > 1 and is_overfull(topics + 1, self._capacity):
                self._capacity *= 2
        self._partitions[topic_id] = after
        self._set_capacities[topic_id] = grown_capacity(capacity, len(after))

    def in_record_order(self) -> TargetAssignment:
        """Return the target assignment as it is now."""
        topics = list(reversed(self._partitions))
        if len(topics) > 1:
            topics = topic_order(topics, self._capacity)
        return tuple([(topic_id, self._partitions_in_order(topic_id)) for topic_id in topics])

    def _partitions_in_order(self, topic_id: str) -> tuple[int, ...]:
        partitions = self._partitions[topic_id]
        is_new_and_unchanged = self._set_capacities_of_new is not None and topic_id not in self._set_capacities
        if len(partitions) == 1 or is_new_and_unchanged:
            return partitions
        return tuple(partition_order(partitions, self._set_capacity(topic_id)))

    def _set_capacity(self, topic_id: str) -> int:
        capacity = self._set_capacities.get(topic_id)
        if capacity is not None:
            return capacity
        size = len(self._partitions[topic_id])
        if self._set_capacities_of_new is not None:
            return grown_capacity(self._set_capacities_of_new[topic_id], size)
        return set_capacity(size)


class NewTargetOrder:
    """Brings new targets into the order of their records: what `MutableTarget.of_new` gives, quicker for many."""

    def __init__(self, topic_ids: Iterable[str]) -> None:
        """`topic_ids`: all that may be in a target."""
        self._topic_ids = topic_ids
        self._bucket_of: dict[int, Callable[[str], int]] = {}
        """The buckets of the topics, by the size that says how many buckets there are."""

    def __call__(self, new: NewTarget) -> TargetAssignment:
        if len(new) < 2:
            return tuple(new.items())
        size = _size_at_last_look(new)
        bucket_of = self._bucket_of.get(size)
        if bucket_of is None:
            buckets = topic_buckets(self._topic_ids, grown_capacity(1, size))
            bucket_of = self._bucket_of[size] = buckets.__getitem__
        newest_first = list(reversed(new))
        topic_ids = sorted(newest_first, key=bucket_of)
        return tuple(zip(topic_ids, map(new.__getitem__, topic_ids), strict=True))


def _size_at_last_look(new: NewTarget) -> int:
    """Return how many topics there were when `MutableTarget.add` last looked whether the map is too full.

    It looks before each topic, and once more if the topic gets several partitions. As each look comes before the map
    grows by more than one, the buckets depend on the last look alone.
    """
    if not new:
        return 0
    last = new[next(reversed(new))]
    return len(new) if len(last) > 1 else len(new) - 1
