"""The bytes that the sticky assignors put into a subscription's user data.

Sticky: an array of {topic string, array of int32 partitions}, then, since KIP-341, the int32 generation.
Cooperative sticky: the int32 generation. There is no version number in either.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from struct import error as StructError
from struct import pack, unpack_from

from group_coordinator.coordinating.assignors.java_hash_map import java_map_order_computed
from group_coordinator.coordinating.assignors.sticky_claims import NO_GENERATION, Claim
from schemas.consumer_protocol import TopicPartition


def encode_sticky_user_data(owned_partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    """Encode what a member of a sticky group last got, and in which generation. Topics are in the order of the Java
    `HashMap` in which `CollectionUtils.groupPartitionsByTopic` collects them."""
    owned = list(owned_partitions)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in owned:
        by_topic.setdefault(topic, []).append(partition)
    parts = [pack(">i", len(by_topic))]
    for topic in java_map_order_computed(owned_partition.topic for owned_partition in owned):
        name, partitions = topic.encode(), by_topic[topic]
        parts += (pack(">h", len(name)), name, pack(f">{len(partitions) + 1}i", len(partitions), *partitions))
    return b"".join((*parts, pack(">i", generation_id)))


def decode_sticky_user_data(user_data: bytes | None) -> Claim:
    """Return the claim in the user data; without a generation where they are empty or older than KIP-341.

    Bytes that nobody can read claim nothing, in generation -1. Bytes after the end are passed over, as in Kafka.
    """
    if not user_data:
        return Claim()
    try:
        topics, end = _decode_topics(user_data)
    except (StructError, ValueError):
        return Claim(generation_id=NO_GENERATION)
    partitions = chain.from_iterable(zip(repeat(topic), numbers) for topic, numbers in topics)
    return Claim(partitions=partitions, generation_id=_generation_at(user_data, end))


def encode_generation(generation_id: int) -> bytes:
    """Encode the user data of a cooperative sticky member."""
    return pack(">i", generation_id)


def decode_generation(user_data: bytes | None) -> int | None:
    """Return the generation in a cooperative sticky member's user data: None if there is none, -1 if they are too
    short."""
    if not user_data:
        return None
    generation_id = _generation_at(user_data, 0)
    return NO_GENERATION if generation_id is None else generation_id


def _generation_at(user_data: bytes, offset: int) -> int | None:
    return int(unpack_from(">i", user_data, offset)[0]) if len(user_data) >= offset + 4 else None


def _decode_topics(user_data: bytes) -> tuple[list[tuple[str, Sequence[int]]], int]:
    """The topics with their partitions, and where they end; struct.error or ValueError when that is beyond the end."""
    (count,) = unpack_from(">i", user_data)
    offset = 4
    topics: list[tuple[str, Sequence[int]]] = []
    for _ in range(_length(count, user_data)):
        (length,) = unpack_from(">h", user_data, offset)
        end_of_name = offset + 2 + _length(length, user_data)
        name = user_data[offset + 2 : end_of_name].decode(errors="replace")
        (count,) = unpack_from(">i", user_data, end_of_name)
        offset = end_of_name + 4 + 4 * _length(count, user_data)
        topics.append((name, unpack_from(f">{count}i", user_data, end_of_name + 4)))
    return topics, offset


def _length(length: int, user_data: bytes) -> int:
    if not 0 <= length <= len(user_data):
        raise ValueError("a length that cannot be")
    return length
