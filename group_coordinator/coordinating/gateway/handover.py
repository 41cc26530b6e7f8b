"""A reader's thread hands records over to the event loop's thread."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from confluent_kafka import Message

from group_coordinator.ground.kafka_topics.reader import offset_of

_POLL_S = 0.5
_HANDED_OVER_BYTES_MAX = 8_388_608
"""What the event loop may not have taken yet, after which no more is read."""
_SLICE_BYTES = 262_144
_SLICE_RECORDS = 100
"""What the event loop takes in one go, before it looks what else there is to do."""


class TopicRecord(NamedTuple):
    """One record, as far as it matters here."""

    key: bytes
    value: bytes | None
    timestamp_ms: int
    partition: int = 0
    offset: int = -1


def topic_records(messages: list[Message]) -> list[TopicRecord]:
    """Return the needed fields of a topic's records."""
    return [
        TopicRecord(
            message.key() or b"", message.value(), message.timestamp()[1], message.partition() or 0, offset_of(message)
        )
        for message in messages
    ]


class Handover:
    """Records pass from a reader's thread to the event loop's in slices; the reader waits while the loop lags behind.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[list[TopicRecord]], None]) -> None:
        """`take` is called in the loop's thread."""
        self._loop = loop
        self._take = take
        self._pieces: deque[tuple[int, Callable[[], None]]] = deque()
        """How large, and what is done with it."""
        self._bytes = 0
        self._changed = threading.Condition()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of the records that were given and not taken yet."""
        return self._bytes

    def give(self, records: list[TopicRecord], is_over: Callable[[], bool]) -> None:
        """Hand over items from the reader's thread; return early when `is_over`."""
        for size, piece in _slices(records):
            with self._changed:
                while self._bytes and self._bytes + size > _HANDED_OVER_BYTES_MAX:
                    if is_over():
                        return
                    self._changed.wait(_POLL_S)
            self._append(size, partial(self._take, piece))

    def when_taken(self, call: Callable[[], None]) -> None:
        """Let this be called in the loop's thread when all items up to here have been taken."""
        self._append(0, call)

    def _append(self, size: int, call: Callable[[], None]) -> None:
        with self._changed:
            self._bytes += size
            self._pieces.append((size, call))
            is_first = len(self._pieces) == 1
        if is_first:
            self._loop.call_soon_threadsafe(self._next)

    def _next(self) -> None:
        """One piece; the next when the loop has looked what else there is to do."""
        size, call = self._pieces[0]
        try:
            call()
        finally:
            with self._changed:
                self._pieces.popleft()
                self._bytes -= size
                self._changed.notify()
                are_more = bool(self._pieces)
            if are_more:
                self._loop.call_soon(self._next)


def _slices(records: list[TopicRecord]) -> Iterator[tuple[int, list[TopicRecord]]]:
    """(bytes, records)."""
    piece: list[TopicRecord] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.key) + len(record.value or b"")
        if size >= _SLICE_BYTES or len(piece) >= _SLICE_RECORDS:
            yield size, piece
            piece, size = [], 0
    if piece:
        yield size, piece
