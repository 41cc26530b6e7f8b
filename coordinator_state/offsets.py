"""Committed offsets of one group, kept apart from its membership: a heartbeat need not decode them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace


class CommittedOffset(Struct, array_like=True, frozen=True, gc=False):
    """One committed offset."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    """What the offsets log says (append time of the commit)."""
    committed_ms: int
    """The group's time of the commit: what retention counts from."""
    expire_timestamp_ms: int | None = None
    """Explicit expiry (OffsetCommit v2-4 with a retention of its own)."""
    topic_id: str | None = None
    log_offset: int | None = None
    """Offset of the event that wrote it; None: a state of version 1 or 2 had it."""


class OffsetExpirationCondition(NamedTuple):
    """The rule by which offsets of a group expire. Source: `OffsetExpirationConditionImpl` (Kafka 4.3)."""

    group_since_ms: int | None
    """Retention counts from here, for all offsets of the group; None: for each from its commit."""

    def base_ms(self, committed_ms: int) -> int:
        """Return the time from which the retention of an offset counts."""
        return committed_ms if self.group_since_ms is None else self.group_since_ms

    def is_expired(self, committed: CommittedOffset, now_ms: int, retention_ms: int) -> bool:
        if committed.expire_timestamp_ms is not None:
            return now_ms >= committed.expire_timestamp_ms
        return now_ms - self.base_ms(committed.committed_ms) >= retention_ms


OFFSET_OVERHEAD_BYTES = 100
"""What an offset takes beside names and metadata, at most: its numbers and the id of its topic. Their largest forms
take 85."""


def utf8_bytes(text: str) -> int:
    """Return the length of a text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def offset_bytes(key_bytes: int, metadata: str) -> int:
    """Return the most that one offset takes in state and in the offsets log; `key_bytes` counts the names of its group
    and topic.

    A larger offset or another time is no growth, so that whoever is at the bound can go on.
    """
    return OFFSET_OVERHEAD_BYTES + key_bytes + utf8_bytes(metadata)


_decode = msgspec.msgpack.Decoder(dict[str, dict[int, CommittedOffset]]).decode
_encode = msgspec.msgpack.Encoder().encode


class Offsets:
    """topic -> partition -> committed offset, decoded from its blob when first looked at."""

    __slots__ = ("_packed", "_topics")

    def __init__(self, packed: bytes = b"") -> None:
        self._packed: bytes | None = packed
        self._topics: dict[str, dict[int, CommittedOffset]] = {}

    @property
    def topics(self) -> dict[str, dict[int, CommittedOffset]]:
        """All offsets; no topic is empty. Only the methods below change them."""
        if self._packed is not None:
            self._topics = _decode(self._packed) if self._packed else {}
            self._packed = None
        return self._topics

    def pack(self) -> bytes:
        """Return the offsets as a blob. It is the blob they were read from if nothing looked at them."""
        if self._packed is not None:
            return self._packed
        return _encode(self._topics) if self._topics else b""

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        return self.topics.get(topic, {}).get(partition)

    def of_topic(self, topic: str) -> dict[int, CommittedOffset]:
        """Return the offsets of a topic, by partition; a new dict if there are none, which counts after `put_topic`."""
        return self.topics.get(topic, {})

    def put_topic(self, topic: str, offsets: dict[int, CommittedOffset]) -> None:
        """Store what `of_topic` gave, changed; it must not be empty."""
        self.topics[topic] = offsets

    def put(self, topic: str, partition: int, committed: CommittedOffset) -> None:
        self.topics.setdefault(topic, {})[partition] = committed

    def remove(self, topic: str, partition: int) -> CommittedOffset | None:
        """Forget one; returns it."""
        partitions = self.topics.get(topic)
        if partitions is None:
            return None
        removed = partitions.pop(partition, None)
        if not partitions:
            del self.topics[topic]
        return removed

    def move_time(self, by_ms: int) -> None:
        """Let all be committed later, and expire later, by so much."""
        for partitions in self.topics.values():
            for partition, committed in partitions.items():
                expire_ms = None if committed.expire_timestamp_ms is None else committed.expire_timestamp_ms + by_ms
                partitions[partition] = replace(
                    committed, committed_ms=committed.committed_ms + by_ms, expire_timestamp_ms=expire_ms
                )

    def count_bytes(self, group_id: str) -> int:
        """Return the bytes of all offsets."""
        total, of_group = 0, utf8_bytes(group_id)
        for topic, partitions in self.topics.items():
            key_bytes = of_group + utf8_bytes(topic)
            total += sum([offset_bytes(key_bytes, committed.metadata) for committed in partitions.values()])
        return total

    def __iter__(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Yields all offsets by topic, then partition."""
        for topic in sorted(self.topics):
            for partition in sorted(self.topics[topic]):
                yield topic, partition, self.topics[topic][partition]
