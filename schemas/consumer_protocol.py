"""The consumer protocol: the subscription and assignment blobs inside JoinGroup and SyncGroup, versions 0-3.

A version above 3 is read as 3 and what follows is ignored: the versions exist so that fields can only be appended.
Encoders write what Kafka's Java client writes. Decoders raise `DecodeError` and nothing else, unless they say so.

Source: Kafka's ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json; KIP-429, KIP-792, KIP-881.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct

from schemas.java_hash import java_string_order
from schemas.small_cache import small_cache
from schemas.wire import (
    INT16,
    INT32,
    DecodeError,
    EncodeError,
    Reader,
    encode_count,
    encode_int32_array,
    encode_nullable_blob,
    encode_nullable_string,
    encode_string,
    pack,
)

VERSION_MAX = 3
NO_GENERATION = -1
_STRING_SIZE_MIN = 2
_TOPIC_SIZE_MIN = 6
"""An empty name and no partitions."""


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Subscription(Struct, frozen=True, kw_only=True):
    """A member's subscription for the leader: JoinGroup's metadata of a protocol of type `consumer`."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    """Version 1: what a cooperative member holds while it joins (KIP-429)."""
    generation_id: int = NO_GENERATION
    """Version 2: the generation in which it held them; -1 for none (KIP-792)."""
    rack_id: str | None = None
    """Version 3: the member's rack (KIP-881)."""


class Assignment(Struct, frozen=True, kw_only=True):
    """The leader's assignment for a member: the partitions, in the assignor's order."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None


def decode_subscription(data: bytes) -> Subscription:
    """Read a subscription. Negative generations read as -1 and an empty rack as none, as in Java's client."""
    reader = Reader(data)
    version = _read_version(reader)
    topics = tuple(reader.array(reader.string, _STRING_SIZE_MIN))
    user_data = reader.nullable_blob()
    return Subscription(
        topics=topics,
        user_data=user_data,
        owned_partitions=_read_partitions(reader) if version >= 1 else (),
        generation_id=max(reader.int32(), NO_GENERATION) if version >= 2 else NO_GENERATION,
        rack_id=reader.nullable_string() or None if version >= 3 else None,
    )


def encode_subscription(subscription: Subscription, version: int = VERSION_MAX) -> bytes:
    """Write a subscription of version 0-3: topics and owned partitions sorted; fields that the version lacks are
    dropped."""
    topics = sorted(subscription.topics, key=java_string_order)
    parts = [_encode_version(version), encode_count(len(topics)), *map(encode_string, topics)]
    parts.append(encode_nullable_blob(subscription.user_data))
    if version >= 1:
        owned = sorted(subscription.owned_partitions, key=lambda part: (java_string_order(part.topic), part.partition))
        parts.append(_encode_partitions(owned))
    if version >= 2:
        parts.append(pack(INT32, subscription.generation_id))
    if version >= 3:
        parts.append(encode_nullable_string(subscription.rack_id))
    return b"".join(parts)


@small_cache(entries=256, longest=65_536)
def subscribed_topics(metadata: bytes) -> tuple[str, ...] | None:
    """Return the topics of a subscription as the coordinator reads it; None if they cannot be read.

    The coordinator parses the body of version 0, whatever the version says, and ignores what follows
    (Kafka's `ClassicGroup.computeSubscribedTopics`). Never raises.
    """
    reader = Reader(metadata)
    try:
        reader.int16()
        topics = tuple(reader.array(reader.string, _STRING_SIZE_MIN))
        reader.nullable_blob()
    except DecodeError:
        return None
    return topics


def says_that_it_owns(metadata: bytes) -> bool | None:
    """Return whether a subscription says that its member has partitions while it joins; None where it cannot say so,
    as in version 0, or cannot be read. Never raises."""
    try:
        if _read_version(Reader(metadata)) < 1:
            return None
        return bool(decode_subscription(metadata).owned_partitions)
    except DecodeError:
        return None


def decode_assignment(data: bytes) -> Assignment:
    """Read an assignment; versions 0-3 differ in nothing but the number."""
    reader = Reader(data)
    _read_version(reader)
    return Assignment(partitions=_read_partitions(reader), user_data=reader.nullable_blob())


def assigned_partitions(data: bytes) -> dict[str, list[int]]:
    """Return the partitions of an assignment by topic, in order of first appearance. Raises as `decode_assignment`."""
    reader = Reader(data)
    _read_version(reader)
    by_topic: dict[str, list[int]] = {}
    for topic, partitions in reader.array(lambda: (reader.string(), reader.int32_array()), _TOPIC_SIZE_MIN):
        if partitions:
            by_topic.setdefault(topic, []).extend(partitions)
    reader.nullable_blob()
    return by_topic


def encode_assignment(assignment: Assignment, version: int = VERSION_MAX) -> bytes:
    """Write an assignment of version 0-3: topics in order of first appearance, partitions in the order of the list."""
    parts = (
        _encode_version(version),
        _encode_partitions(assignment.partitions),
        encode_nullable_blob(assignment.user_data),
    )
    return b"".join(parts)


def _read_version(reader: Reader) -> int:
    version = reader.int16()
    if version < 0:
        raise DecodeError(f"version {version} of the consumer protocol", reader.position)
    return version


def _encode_version(version: int) -> bytes:
    if not 0 <= version <= VERSION_MAX:
        raise EncodeError(f"version {version} of the consumer protocol")
    return INT16.pack(version)


def _read_partitions(reader: Reader) -> tuple[TopicPartition, ...]:
    def topic() -> list[TopicPartition]:
        name = reader.string()
        return [TopicPartition(name, partition) for partition in reader.int32_array()]

    return tuple(partition for group in reader.array(topic, _TOPIC_SIZE_MIN) for partition in group)


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in partitions:
        by_topic.setdefault(topic, []).append(partition)
    parts = [encode_count(len(by_topic))]
    for topic, numbers in by_topic.items():
        parts += (encode_string(topic), encode_int32_array(numbers))
    return b"".join(parts)
