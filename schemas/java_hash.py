"""Java's `String.hashCode` and `compareTo`, and the partition of `__consumer_offsets` in which a group lives."""

from __future__ import annotations

from collections.abc import Iterable
from struct import unpack

from schemas.small_cache import small_cache

_MASK = 0xFFFF_FFFF
_SIGN = 0x8000_0000


@small_cache(entries=8_192, longest=1_024)
def java_string_hash(text: str) -> int:
    """Java's hash of `text`, signed 32 bits.

    Java hashes UTF-16 code units, so a character beyond U+FFFF counts as its two surrogates. Java keeps the hash in the
    string; here the last few thousand are kept: a group's members and topics come again in every rebalance.
    """
    hashed = 0
    for unit in _utf16_units(text):
        hashed = (31 * hashed + unit) & _MASK
    return hashed - 2 * _SIGN if hashed & _SIGN else hashed


def group_partition(group_id: str, partition_count: int) -> int:
    """The partition of the offsets topic that holds a group (Kafka's `GroupCoordinatorService.partitionFor`).

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


def _utf16_units(text: str) -> Iterable[int]:
    if text.isascii():
        return text.encode("ascii")
    encoded = java_string_order(text)
    units: tuple[int, ...] = unpack(f">{len(encoded) // 2}H", encoded)
    return units
