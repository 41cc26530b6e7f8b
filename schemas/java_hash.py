"""Java's `String.hashCode` and `compareTo`, the order of its `HashMap`, and the partition of a group."""

from __future__ import annotations

from collections.abc import Iterable
from struct import unpack

from schemas.small_cache import small_cache

_MASK = 0xFFFF_FFFF
_SIGN = 0x8000_0000
HASH_MAP_CAPACITY = 16
"""The buckets of a new `HashMap`."""


@small_cache(entries=8_192, longest=1_024)
def java_string_hash(text: str) -> int:
    """Return Java's hash of `text`, a signed number of 32 bits.

    Java hashes UTF-16 code units, so a character beyond U+FFFF counts as its two surrogates. Java keeps the hash in the
    string; here the last few thousand are kept: a group's members and topics come again in every rebalance.
    """
    hashed = 0
    for unit in _utf16_units(text):
        hashed = (31 * hashed + unit) & _MASK
    return hashed - 2 * _SIGN if hashed & _SIGN else hashed


def group_partition(group_id: str, partition_count: int) -> int:
    """Return the partition of the offsets topic that holds a group (Kafka's `GroupCoordinatorService.partitionFor`).

    `partition_count` is the topic's number of partitions, at least 1. It must never change once groups exist.
    """
    hashed = java_string_hash(group_id)
    # Kafka's Utils.abs: the one value whose absolute value does not fit in 32 bits counts as 0.
    return (0 if hashed == -_SIGN else abs(hashed)) % partition_count


def java_string_order(text: str) -> bytes:
    """Sort key that orders strings as Java's `String.compareTo`: by UTF-16 code unit.

    It differs from Python's order where a character beyond U+FFFF meets one of U+E000 to U+FFFF.
    """
    return text.encode("utf-16-be", "surrogatepass")


def java_map_order(keys: Iterable[str]) -> list[str]:
    """Return the keys in the order in which an empty `HashMap<String, ...>` iterates after they are `put` in the given
    order."""
    different = dict.fromkeys(keys)
    capacity = HASH_MAP_CAPACITY
    while is_overfull(len(different), capacity):
        capacity *= 2
    return sorted(different, key=lambda key: hash_map_bucket(java_string_hash(key), capacity))


def is_overfull(size: int, capacity: int) -> bool:
    """Return whether a `HashMap` of so many entries doubles its buckets."""
    return size > capacity * 3 // 4


def hash_map_bucket(hash_code: int, capacity: int) -> int:
    """Return the bucket of a `HashMap` in which a key with this hash lies."""
    hashed = hash_code & _MASK
    return (hashed ^ hashed >> 16) & (capacity - 1)


def _utf16_units(text: str) -> Iterable[int]:
    if text.isascii():
        return text.encode("ascii")
    encoded = java_string_order(text)
    units: tuple[int, ...] = unpack(f">{len(encoded) // 2}H", encoded)
    return units
