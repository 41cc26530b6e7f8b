"""Java's `HashMap` and `HashSet` with real buckets, as assignors fill them: slow, and without a rule of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from coordinator_state.consumer.assignors.java_order import topic_id_hash
from coordinator_state.consumer.member import TargetAssignment

Key = TypeVar("Key")
Value = TypeVar("Value")


class JavaMap(Generic[Key, Value]):
    """`HashMap` of JDK 17 without trees."""

    def __init__(self, initial_capacity: int, hash_code: Callable[[Key], int]) -> None:
        """`initial_capacity`: as in `new HashMap<>(initialCapacity)`."""
        capacity = 1
        while capacity < initial_capacity:
            capacity *= 2
        self._hash_code = hash_code
        self._buckets: list[list[tuple[Key, Value]]] = [[] for _ in range(capacity)]

    def __len__(self) -> int:
        return sum(map(len, self._buckets))

    def items(self) -> Iterator[tuple[Key, Value]]:
        for bucket in self._buckets:
            yield from bucket

    def get(self, key: Key) -> Value | None:
        return dict(self._bucket(key)).get(key)

    def put(self, key: Key, value: Value) -> None:
        """Put in a key that is not there."""
        self._bucket(key).append((key, value))
        if self._is_overfull():
            self._double()

    def compute_if_absent(self, key: Key, make: Callable[[], Value]) -> Value:
        if self._is_overfull():
            self._double()
        present = self.get(key)
        if present is not None:
            return present
        made = make()
        self._bucket(key).insert(0, (key, made))
        return made

    def remove(self, key: Key) -> None:
        """Take out a key that is there."""
        bucket = self._bucket(key)
        [found] = [entry for entry in bucket if entry[0] == key]
        bucket.remove(found)

    def _bucket(self, key: Key) -> list[tuple[Key, Value]]:
        hash_code = self._hash_code(key)
        return self._buckets[(hash_code ^ hash_code >> 16) % len(self._buckets)]

    def _is_overfull(self) -> bool:
        return len(self) > int(len(self._buckets) * 0.75)

    def _double(self) -> None:
        entries = list(self.items())
        self._buckets = [[] for _ in range(2 * len(self._buckets))]
        for key, value in entries:
            self._bucket(key).append((key, value))


class JavaSet:
    """`HashSet` of partitions."""

    def __init__(self, initial_capacity: int, partitions: Iterable[int] = ()) -> None:
        self._map: JavaMap[int, bool] = JavaMap(initial_capacity, int)
        for partition in partitions:
            self.add(partition)

    @classmethod
    def copy_of(cls, partitions: Iterable[int]) -> JavaSet:
        """`new HashSet<>(collection)`."""
        copied = list(partitions)
        return cls(max(int(len(copied) / 0.75) + 1, 16), copied)

    def __iter__(self) -> Iterator[int]:
        return iter([partition for partition, _ in self._map.items()])

    def __len__(self) -> int:
        return len(self._map)

    def add(self, partition: int) -> None:
        self._map.put(partition, True)

    def remove(self, partition: int) -> None:
        self._map.remove(partition)


class JavaTarget:
    """A target assignment in the hands of an assignor: `AssignorHelpers.deepCopy` of what a broker has read."""

    def __init__(self, target: TargetAssignment) -> None:
        """`target` is in the order of its record."""
        read: JavaMap[str, JavaSet] = JavaMap(16, topic_id_hash)
        for topic_id, partitions in target:
            read.put(topic_id, JavaSet.copy_of(partitions))
        self._map: JavaMap[str, JavaSet] = JavaMap(len(target), topic_id_hash)
        for topic_id, present in read.items():
            self._map.put(topic_id, JavaSet.copy_of(present))

    def drop_topic(self, topic_id: str) -> None:
        self._map.remove(topic_id)

    def add(self, topic_id: str, partition: int, new_set_capacity: int) -> None:
        self._map.compute_if_absent(topic_id, lambda: JavaSet(new_set_capacity)).add(partition)

    def remove(self, topic_id: str, partition: int) -> None:
        """Take a partition out, and its topic if it was the last one."""
        present = self._map.get(topic_id)
        assert present is not None
        present.remove(partition)
        if not present:
            self.drop_topic(topic_id)

    def in_record_order(self) -> TargetAssignment:
        return tuple((topic_id, tuple(partitions)) for topic_id, partitions in self._map.items())
