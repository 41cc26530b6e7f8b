"""The hash of the topics that a group subscribes to: another hash means that something must be assigned anew.

It is in the group's record, so it must be Kafka's to the bit. Integers are little-endian; a string is its UTF-16 code
units, followed by their number.

Source: `org.apache.kafka.coordinator.group.Utils.computeTopicHash`, `computeGroupHash` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct as Layout
from typing import Protocol

from xxhash import xxh3_64_intdigest

from schemas.java_hash import java_string_order
from schemas.wire import encode_uuid

NO_TOPICS_HASH = 0
"""The hash of a group none of whose topics exists."""

_MAGIC = b"\x00"
"""The version of the form, of which there is one so far."""
_INT32 = Layout("<i")
_INT64 = Layout("<q")
_SIGN = 1 << 63


class HashedTopic(Protocol):
    """What goes into the hash of a topic."""

    @property
    def name(self) -> str: ...

    @property
    def topic_id(self) -> str:
        """A uuid as text with hyphens."""

    @property
    def racks(self) -> tuple[tuple[str, ...], ...]:
        """For each partition the racks of its replicas; a broker without a rack has none."""


def group_metadata_hash(topics: Iterable[HashedTopic]) -> int:
    """Return the hash of a group that subscribes to these topics, which exist: a signed number of 64 bits."""
    return hash_of_hashes({
        topic.name: topic_metadata_hash(topic.topic_id, topic.name, topic.racks) for topic in topics
    })


def hash_of_hashes(hashes_by_name: Mapping[str, int]) -> int:
    """Return the hash of a group that subscribes to topics with these names and hashes."""
    if not hashes_by_name:
        return NO_TOPICS_HASH
    hashes = [hashes_by_name[name] for name in sorted(hashes_by_name, key=java_string_order)]
    return _signed(xxh3_64_intdigest(b"".join(map(_INT64.pack, hashes))))


@lru_cache(maxsize=1_024)
def topic_metadata_hash(topic_id: str, name: str, racks: tuple[tuple[str, ...], ...]) -> int:
    """Return the hash of a topic: a signed number of 64 bits.

    The order of a partition's racks does not matter; that several replicas are in one rack does.
    """
    uuid = encode_uuid(topic_id)
    parts = [_MAGIC, uuid[7::-1], uuid[:7:-1], _string(name), _INT32.pack(len(racks))]
    for partition, replica_racks in enumerate(racks):
        parts += (_INT32.pack(partition), _racks(replica_racks))
    return _signed(xxh3_64_intdigest(b"".join(parts)))


@lru_cache(maxsize=1_024)
def _racks(replica_racks: tuple[str, ...]) -> bytes:
    """Return the racks of one partition. Most partitions have the same few, also where topics are too many to keep."""
    encoded = [_string(rack) for rack in sorted(replica_racks, key=java_string_order)]
    return b"".join([rack[-4:] + rack for rack in encoded])


@lru_cache(maxsize=1_024)
def _string(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + _INT32.pack(len(units) // 2)


def _signed(hashed: int) -> int:
    return hashed - 2 * _SIGN if hashed & _SIGN else hashed
