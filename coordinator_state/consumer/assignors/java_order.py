"""The orders of Java's hash tables by which Kafka's server-side assignors and their records go.

A table that is filled by copying or by `put` walks its buckets, and inside a bucket goes by insertion.
`computeIfAbsent` puts a new key first in its bucket. A table grows by its size and never shrinks.

Source: `java.util.HashMap` and `HashSet` of JDK 17, `org.apache.kafka.common.Uuid`, `SnapshottableHashTable`
(Kafka 4.3). Buckets that become trees are not modelled, as in `schemas.java_hash`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from coordinator_state.consumer.member import TargetAssignment
from schemas.java_hash import HASH_MAP_CAPACITY, hash_map_bucket, is_overfull, java_map_order, java_string_hash

T = TypeVar("T")

_MASK = 0xFFFF_FFFF
_LONG_MASK = 0xFFFF_FFFF_FFFF_FFFF
_TIMELINE_MULTIPLIER = -7046029254386353131
_TIMELINE_SLOTS_MIN = 2
_SCRAMBLED_FROM = 1 << 16
"""Smaller numbers are their own hash after `h ^ h >>> 16`."""


@lru_cache(maxsize=65_536)
def topic_id_hash(topic_id: str) -> int:
    """Return Java's hash of a topic id, unsigned. `topic_id` is a uuid in hexadecimal with hyphens."""
    number = int(topic_id.replace("-", ""), 16)
    halves = (number >> 64) ^ number
    return ((halves >> 32) ^ halves) & _MASK


@lru_cache(maxsize=65_536)
def _spread_hash(topic_id: str) -> int:
    """Return the hash as a `HashMap` spreads it: its last bits are the bucket."""
    return hash_map_bucket(topic_id_hash(topic_id), 1 << 32)


@lru_cache(maxsize=65_536)
def topic_id_order(topic_id: str) -> tuple[int, int]:
    """Sort key that orders topic ids as Kafka's `Uuid.compareTo`: by their halves, which are signed."""
    number = int(topic_id.replace("-", ""), 16)
    return _signed(number >> 64), _signed(number & _LONG_MASK)


def capacity_at_least(count: int) -> int:
    """Return the buckets of `new HashMap(count)`: the smallest power of two that is at least `count`, from 1."""
    return 1 << max(count - 1, 0).bit_length()


def set_capacity(count: int) -> int:
    """Return the buckets of a `HashSet` that is made as a copy of `count` elements."""
    return capacity_at_least(max(count * 4 // 3 + 1, HASH_MAP_CAPACITY))


def grown_capacity(capacity: int, size: int) -> int:
    """Return the buckets of a table after `put` has made it so large."""
    while is_overfull(size, capacity):
        capacity *= 2
    return capacity


def partition_order(partitions: Sequence[int], capacity: int) -> Sequence[int]:
    """Return the order in which a `HashSet` of so many buckets iterates, from the order of insertion."""
    if max(partitions) >= _SCRAMBLED_FROM:
        return sorted(partitions, key=lambda partition: hash_map_bucket(partition, capacity))
    buckets = capacity - 1
    return sorted(partitions, key=buckets.__and__)


def partition_slice_order(numbers: tuple[int, ...], first: int, after: int, capacity: int) -> tuple[int, ...]:
    """Return `partition_order` of neighbours, which are no more than there are buckets; `numbers` counts from 0."""
    if after > _SCRAMBLED_FROM:
        return tuple(partition_order(numbers[first:after], capacity))
    bucket_0 = (first + capacity - 1) & -capacity
    if first < bucket_0 < after:
        return numbers[bucket_0:after] + numbers[first:bucket_0]
    return numbers[first:after]


def topic_order(topic_ids: Collection[str], capacity: int) -> list[str]:
    """Return the order in which a `HashMap` by topic id of so many buckets iterates, from the order in its buckets."""
    return sorted(topic_ids, key=topic_buckets(topic_ids, capacity).__getitem__)


def topic_buckets(topic_ids: Iterable[str], capacity: int) -> dict[str, int]:
    """Return the bucket of each topic id in a `HashMap` of so many."""
    last_bits = capacity - 1
    return {topic_id: _spread_hash(topic_id) & last_bits for topic_id in topic_ids}


def copied_set_order(elements: Iterable[T], hash_code: Callable[[T], int], count: int | None = None) -> list[T]:
    """Return the order of a `HashSet` that was made as a copy of a collection.

    `count` is the size that it was made for, where that is not the number of different elements.
    """
    different = list(dict.fromkeys(elements))
    capacity = set_capacity(len(different) if count is None else count)
    return sorted(different, key=lambda element: hash_map_bucket(hash_code(element), capacity))


def subscribed_topic_id_order(names: Iterable[str], topic_ids: Mapping[str, str]) -> tuple[str, ...]:
    """Return the ids of the subscribed topics in the order in which the `uniform` assignor goes through them.

    `names` are those of the first member: sorted if its record is in the log, as sent if it has just sent them.
    `topic_ids` has the topics that exist, by name.
    """
    walked = copied_set_order(names, java_string_hash)
    existing = [topic_ids[name] for name in walked if name in topic_ids]
    return tuple(copied_set_order(existing, topic_id_hash, len(walked)))


def target_map_order(target: TargetAssignment) -> list[tuple[str, tuple[int, ...]]]:
    """Return a target assignment, given in the order of its record, in the order of the map made from the record.

    Its partitions stay in the order of the record: `partition_order` of `set_capacity` of their number gives that of
    the set.
    """
    if len(target) < 2:
        return list(target)
    capacity = grown_capacity(HASH_MAP_CAPACITY, len(target))
    last_bits = capacity - 1
    return sorted(target, key=lambda entry: _spread_hash(entry[0]) & last_bits)


def assignor_member_order(members: Iterable[str], most: int, joining: str | None = None) -> list[str]:
    """Return the members in the order in which Kafka's assignors go through them.

    Kafka puts them into a `HashMap` in the order of the `TimelineHashMap` that holds the group's members, and one that
    joins behind them. `members` are in the order in which they joined; `most`: see `timeline_order`.
    """
    walked = timeline_order(members, most)
    return java_map_order(walked if joining is None else [*walked, joining])


def timeline_order(keys: Iterable[str], most: int) -> list[str]:
    """Return the order of a `TimelineHashMap` by strings, from the order of insertion, with room for `most` of them.

    It has the slots that these need, and each is walked from its newest key on: neither `put` of a key that is there
    nor growing changes the order inside a slot.
    """
    shift = 64 - (capacity_at_least(max(-(-most * 3 // 4), _TIMELINE_SLOTS_MIN)).bit_length() - 1)
    newest_first = list(keys)[::-1]
    return sorted(newest_first, key=lambda key: (java_string_hash(key) * _TIMELINE_MULTIPLIER & _LONG_MASK) >> shift)


def _signed(half: int) -> int:
    return half - (1 << 64) if half >> 63 else half
