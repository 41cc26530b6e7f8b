"""Committed offsets of one group, and those that wait for the end of a transaction.

They are kept apart from the group's membership: a heartbeat need not decode them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from schemas.transaction_messages import TransactionLogPosition


class CommittedOffset(Struct, array_like=True, frozen=True, gc=False):
    """One offset that is committed, or pending in a transaction."""

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


Committed = dict[str, dict[int, CommittedOffset]]
"""topic -> partition -> committed offset."""
Pending = dict[str, dict[int, dict[int, CommittedOffset]]]
"""topic -> partition -> producer id -> the last offset that its open transaction committed."""


class _WithTransactions(Struct, array_like=True, gc=False):
    """What is kept where transactions left something. Fields are only ever added at the end, each with a default."""

    topics: Committed
    pending: Pending
    log_offset: int
    log_id: str | None = None


_decode = msgspec.msgpack.Decoder(Committed).decode
_decode_with_transactions = msgspec.msgpack.Decoder(_WithTransactions).decode
_encode = msgspec.msgpack.Encoder().encode


class Offsets:
    """Committed offsets, and what transactions left, decoded from their blob when first looked at."""

    __slots__ = (
        "_has_transactions", "_packed", "_pending", "_topics", "_transaction_log_id", "_transaction_log_offset",
    )  # fmt: skip

    def __init__(self, packed: bytes = b"", *, has_transactions: bool = False) -> None:
        self._packed: bytes | None = packed
        self._has_transactions = has_transactions
        """What the blob has."""
        self._topics: Committed = {}
        self._pending: Pending = {}
        self._transaction_log_offset = -1
        self._transaction_log_id: str | UnsetType = UNSET

    @property
    def topics(self) -> Committed:
        """All committed offsets; no topic is empty. Only the methods below change them."""
        if self._packed is not None:
            if self._has_transactions:
                kept = _decode_with_transactions(self._packed)
                self._topics, self._pending = kept.topics, kept.pending
                self._transaction_log_offset, self._transaction_log_id = kept.log_offset, kept.log_id or UNSET
            elif self._packed:
                self._topics = _decode(self._packed)
            self._packed = None
        return self._topics

    @property
    def pending(self) -> Pending:
        """All pending offsets; nothing in it is empty. Only the methods below change them."""
        _ = self.topics
        return self._pending

    @property
    def has_transactions(self) -> bool:
        """There is more to keep than committed offsets. Nothing is decoded to know it."""
        if self._packed is not None:
            return self._has_transactions
        return bool(self._pending) or self._transaction_log_offset >= 0

    @property
    def has_pending(self) -> bool:
        if self._packed is not None and not self._has_transactions:
            return False  # which is known without decoding
        return bool(self.pending)

    def pack(self) -> bytes:
        """Return the offsets as a blob. It is the blob they were read from if nothing looked at them."""
        if self._packed is not None:
            return self._packed
        if self.has_transactions:
            kept = (self._topics, self._pending, self._transaction_log_offset)
            return _encode((*kept, self._transaction_log_id) if self._transaction_log_id else kept)
        return _encode(self._topics) if self._topics else b""

    def has_seen(self, log: TransactionLogPosition | None) -> bool:
        """Return whether what lies at this place in the log of transactions was handled before: then it is a repeat."""
        if log is None:
            return False
        _ = self.topics
        if self._transaction_log_id and log.topic_id and log.topic_id != self._transaction_log_id:
            return False  # it was made anew
        return log.offset <= self._transaction_log_offset

    def note_seen(self, log: TransactionLogPosition | None) -> None:
        """Note that what lies at this place in the log of transactions is handled."""
        if log is not None:
            _ = self.topics
            self._transaction_log_offset = log.offset
            self._transaction_log_id = log.topic_id or self._transaction_log_id

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

    def is_open(self, topic: str, partition: int) -> bool:
        """Return whether an offset of the partition is pending."""
        return self.has_pending and partition in self.pending.get(topic, ())

    def pending_of(self, topic: str, partition: int) -> dict[int, CommittedOffset]:
        """Return the pending offsets of a partition, by producer id; not to be changed."""
        return self.pending.get(topic, {}).get(partition, {})

    @property
    def pending_only(self) -> tuple[str, ...]:
        """The topics that have pending offsets and no committed ones."""
        return tuple(sorted(self.pending.keys() - self.topics.keys())) if self.has_pending else ()

    def put_pending(self, topic: str, partition: int, producer_id: int, pending: CommittedOffset) -> None:
        """Store what a producer's open transaction committed; it replaces what the transaction committed before."""
        self.pending.setdefault(topic, {}).setdefault(partition, {})[producer_id] = pending

    def remove_pending(self, topic: str, partition: int) -> dict[int, CommittedOffset]:
        """Forget what is pending for a partition; returns it by producer id."""
        partitions = self.pending.get(topic)
        if partitions is None:
            return {}
        removed = partitions.pop(partition, {})
        if not partitions:
            del self.pending[topic]
        return removed

    def take_pending(self, producer_id: int) -> list[tuple[str, int, CommittedOffset]]:
        """Forget what is pending of a producer; returns it by topic, then partition."""
        taken = [
            (topic, partition, by_producer[producer_id])
            for topic, partitions in self.pending.items()
            for partition, by_producer in partitions.items()
            if producer_id in by_producer
        ]
        for topic, partition, _ in taken:
            by_producer = self.pending[topic][partition]
            del by_producer[producer_id]
            if not by_producer:
                self.remove_pending(topic, partition)
        return sorted(taken, key=lambda entry: entry[:2])

    def move_time(self, by_ms: int) -> None:
        """Let all be committed later, and expire later, by so much."""
        for partitions in self.topics.values():
            for partition, committed in partitions.items():
                expire_ms = None if committed.expire_timestamp_ms is None else committed.expire_timestamp_ms + by_ms
                partitions[partition] = replace(
                    committed, committed_ms=committed.committed_ms + by_ms, expire_timestamp_ms=expire_ms
                )
        for by_partition in self.pending.values():
            for by_producer in by_partition.values():
                for producer_id, pending in by_producer.items():
                    by_producer[producer_id] = replace(pending, committed_ms=pending.committed_ms + by_ms)

    def count_bytes(self, group_id: str) -> int:
        """Return the bytes of all offsets, the pending ones among them."""
        total, of_group = 0, utf8_bytes(group_id)
        for topic, partitions in self.topics.items():
            key_bytes = of_group + utf8_bytes(topic)
            total += sum([offset_bytes(key_bytes, committed.metadata) for committed in partitions.values()])
        for topic, by_partition in self.pending.items():
            key_bytes = of_group + utf8_bytes(topic)
            for by_producer in by_partition.values():
                total += sum([offset_bytes(key_bytes, pending.metadata) for pending in by_producer.values()])
        return total

    def __iter__(self) -> Iterator[tuple[str, int, CommittedOffset]]:
        """Yields all committed offsets by topic, then partition."""
        for topic in sorted(self.topics):
            for partition in sorted(self.topics[topic]):
                yield topic, partition, self.topics[topic][partition]
