"""The order in which Java walks a `HashMap` or `HashSet`: Kafka's clients let it decide, so a port must know it.

Source: `java.util.HashMap` of JDK 17. There the ninth entry of a bucket (the eighth by `computeIfAbsent`) turns the
bucket into a tree or, in a table of fewer than 64, doubles the table. Neither is modelled: a bucket stays a list, and
the table grows by its size alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from schemas.java_hash import HASH_MAP_CAPACITY, hash_map_bucket, is_overfull, java_string_hash

T = TypeVar("T")


class JavaHashSet(Generic[T]):
    """A set that iterates as a default `java.util.HashSet` with the same history does.

    `hash_code` gives the Java hash of an element. The table doubles when it is more than three quarters full and
    never shrinks, so the order depends on the largest size so far and, inside a bucket, on the order of insertion.
    """

    def __init__(self, hash_code: Callable[[T], int], elements: Iterable[T] = ()) -> None:
        self._hash_code = hash_code
        self._capacity = HASH_MAP_CAPACITY
        self._places: dict[T, int] = {}
        """Each element with the running number of its insertion."""
        self._insertions = 0
        self._heap: list[tuple[int, int, T]] | None = None
        """By bucket, then insertion; may hold elements that are gone. Made when `first` is asked for."""
        for element in elements:
            self.add(element)

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[T]:
        return iter(sorted(self._places, key=self._bucket))  # a stable sort keeps insertion order inside a bucket

    def add(self, element: T) -> None:
        """Insert `element`, unless it is there."""
        if element in self._places:
            return
        self._places[element] = self._insertions
        self._insertions += 1
        if is_overfull(len(self._places), self._capacity):
            self._capacity *= 2
            self._heap = None
        if self._heap is not None:
            heappush(self._heap, self._entry(element))

    def remove(self, element: T) -> None:
        """Take `element` out; KeyError when it is not there."""
        del self._places[element]

    def first(self) -> T:
        """Return the element that iteration meets first. Raises IndexError when there is none."""
        if self._heap is None:
            self._heap = [self._entry(element) for element in self._places]
            heapify(self._heap)
        while self._places.get(self._heap[0][2]) != self._heap[0][1]:
            heappop(self._heap)
        return self._heap[0][2]

    def _entry(self, element: T) -> tuple[int, int, T]:
        return (self._bucket(element), self._places[element], element)

    def _bucket(self, element: T) -> int:
        return hash_map_bucket(self._hash_code(element), self._capacity)


def java_map_order_computed(keys: Iterable[str]) -> list[str]:
    """Return the keys, put by `computeIfAbsent`: a new key stands before the others of its bucket, and a full table
    grows with the next call."""
    different: dict[str, None] = {}
    capacity = HASH_MAP_CAPACITY
    for key in keys:
        if is_overfull(len(different), capacity):
            capacity *= 2
        different[key] = None
    newest_first = list(different)[::-1]  # a stable sort keeps that inside a bucket
    return sorted(newest_first, key=lambda key: hash_map_bucket(java_string_hash(key), capacity))


def java_topic_partition_hash(topic_hash: int, partition: int) -> int:
    """Hash of Kafka's `TopicPartition`, from `java_string_hash` of its topic; not cut to 32 bits."""
    return 31 * (31 + partition) + topic_hash
