"""Two things of a Produce matter: whether it gets an answer, and the topics that it names. Source: Kafka's Produce, v0
to v12.

Records are never looked at. What is not yet here of a name is held back until it is, so a name can still be changed
before the broker sees it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

from group_coordinator.coordinating.gateway.frames import LENGTH, RequestHead
from group_coordinator.coordinating.gateway.topic_fields import unsigned_varint
from schemas.wire import INT16, INT32, STRING_SIZE_MAX, DecodeError, Reader

BEGINNING_BYTES_MAX = 10 + 2 * STRING_SIZE_MAX + 1_024
"""Enough for a request's header and for a Produce's transactional id."""
NO_ACKS = 0
_TRANSACTIONAL = 3
_FLEXIBLE = 9
_ALL = 2**62
_PARTITION_HEAD_MAX = 9
"""A partition's number and the size of its records."""
_SPARSE_BYTES = 32
"""So many bytes at least has a topic or partition on average: no batch of records is smaller."""
_DENSE_ITEMS_MAX = 1_000
"""Topics and partitions that may be denser than that."""
_MASKED_MAX = 2_000
"""Names that are changed in one request: in its answer each is put together again."""


class Opening(NamedTuple):
    """The first fields of a Produce."""

    acks: int
    """How many brokers must have it before it is answered, `NO_ACKS`: it is not."""
    topics_at: int
    """Where its topics begin."""


def opening_of(head: RequestHead, beginning: bytes) -> Opening | None:
    """Parse the beginning of a Produce; None if more of it is needed. Raises DecodeError."""
    flexible = head.api_version >= _FLEXIBLE
    reader = Reader(beginning)
    reader.position = head.size
    try:
        if flexible:
            reader.tagged_fields()
        if head.api_version >= _TRANSACTIONAL:
            reader.nullable_string(flexible)
        acks = reader.int16()
        reader.int32()
        return Opening(acks, reader.position)
    except DecodeError:
        if len(beginning) >= BEGINNING_BYTES_MAX:
            raise
        return None


class ProduceTopics:
    """Lets one Produce through in pieces, and changes the names of topics on the way."""

    def __init__(self, version: int, topics_at: int, mask: Callable[[bytes], bytes | None]) -> None:
        """`mask`: the name, of the same length, that is to stand for a name; None: it may stay."""
        self.masked: list[str] = []
        """The names that were changed, as they are now."""
        self.items = 0
        """Topics and partitions so far: what it costs to let them through."""
        self._bytes = 0
        self._flexible = version >= _FLEXIBLE
        self._mask = mask
        self._bytes_left = LENGTH.size + topics_at
        """Bytes to be let through unseen."""
        self._held_back = b""
        self._topics = 0
        self._partitions = 0
        self._tags = 0
        self._changes: list[tuple[int, bytes]] = []
        self._next: Callable[[bytes, int], int] = self._count_topics
        self._after_tags: Callable[[], None] = self._go_on

    def through(self, piece: bytes) -> bytes:
        """Return the bytes to send for the next piece. Raises DecodeError."""
        self._bytes += len(piece)
        if self._bytes_left >= len(piece) and not self._held_back:
            self._bytes_left -= len(piece)
            return piece
        data = self._held_back + piece
        at = self._bytes_left
        while at < len(data):
            try:
                at = self._next(data, at)
            except (IndexError, struct.error):
                break  # more of it is needed
            if self.items > _DENSE_ITEMS_MAX + self._bytes // _SPARSE_BYTES:
                raise DecodeError(
                    f"a Produce of {self.items} topics and partitions in its first {self._bytes} bytes", at
                )
        held_from = min(at, len(data)) if at < len(data) else len(data)
        self._held_back, self._bytes_left = data[held_from:], max(at - len(data), 0)
        return self._changed(data[:held_from])

    def end(self) -> None:
        """Check that the request is complete. Raises DecodeError if it ended too early."""
        if self._next != self._pass or self._held_back:
            raise DecodeError("a Produce that ends in its midst", 0)

    def _changed(self, data: bytes) -> bytes:
        if not self._changes:
            return data
        changed = bytearray(data)
        for at, name in self._changes:
            changed[at : at + len(name)] = name
            self.masked.append(name.decode("utf-8", "replace"))
            if len(self.masked) > _MASKED_MAX:
                raise DecodeError(f"more than {_MASKED_MAX} topics would have to be refused one by one", at)
        self._changes.clear()
        return bytes(changed)

    # Each of these reads what is next, changes nothing where that is not all here, and says what follows.

    def _count_topics(self, data: bytes, at: int) -> int:
        topics, at = self._count(data, at)
        self._topics = topics
        self._go_on()
        return at

    def _read_topic(self, data: bytes, at: int) -> int:
        if self._flexible:
            encoded, begin = unsigned_varint(data, at)
            size = encoded - 1
        else:
            size, begin = INT16.unpack_from(data, at)[0], at + INT16.size
        if not 0 <= size <= STRING_SIZE_MAX:
            raise DecodeError(f"a topic's name of {size} bytes", at)
        end = begin + size
        partitions, at = self._count(data, end)
        instead = self._mask(data[begin:end])
        if instead is not None:
            self._changes.append((begin, instead))
        self._topics -= 1
        self.items += 1
        self._partitions = partitions
        self._go_on_in_topic()
        return at

    def _read_partitions(self, data: bytes, at: int) -> int:
        """Read the partitions that have come; most have no tags."""
        while True:
            at += INT32.size
            if self._flexible:
                encoded, at = unsigned_varint(data, at)
                size = encoded - 1
            else:
                size, at = INT32.unpack_from(data, at)[0], at + INT32.size
            self._partitions -= 1
            self.items += 1
            at += max(size, 0)
            if self._flexible and (at >= len(data) or data[at]):
                self._behind_tags(self._go_on_in_topic)
                return at
            at += self._flexible
            if not self._partitions:
                self._go_on_in_topic()
                return at
            if at + _PARTITION_HEAD_MAX > len(data) or not self.items % _DENSE_ITEMS_MAX:
                return at

    def _count_tags(self, data: bytes, at: int) -> int:
        self._tags, at = unsigned_varint(data, at)
        self._go_on_in_tags()
        return at

    def _read_tag(self, data: bytes, at: int) -> int:
        _, at = unsigned_varint(data, at)
        size, at = unsigned_varint(data, at)
        self._tags -= 1
        self._go_on_in_tags()
        return at + size

    def _pass(self, data: bytes, at: int) -> int:
        return _ALL

    def _go_on(self) -> None:
        if self._topics:
            self._next = self._read_topic
        else:
            self._behind_tags(self._pass_all)

    def _go_on_in_topic(self) -> None:
        if self._partitions:
            self._next = self._read_partitions
        else:
            self._behind_tags(self._go_on)

    def _go_on_in_tags(self) -> None:
        if self._tags:
            self._next = self._read_tag
        else:
            self._after_tags()

    def _pass_all(self) -> None:
        self._next = self._pass

    def _behind_tags(self, go_on: Callable[[], None]) -> None:
        """Set the step that follows the end of a struct, after its tags if the version has any."""
        if self._flexible:
            self._next, self._after_tags = self._count_tags, go_on
        else:
            go_on()

    def _count(self, data: bytes, at: int) -> tuple[int, int]:
        if self._flexible:
            encoded, at = unsigned_varint(data, at)
            count = encoded - 1
        else:
            count, at = INT32.unpack_from(data, at)[0], at + INT32.size
        if count < 0:
            raise DecodeError("null array", at)
        return count, at
