"""A thread that reads partitions of a topic, without a consumer group, and hands over what there is."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from group_coordinator.gateway.config import GatewayError
from schemas.isolation import READER_PROPERTIES

_POLL_S = 0.5
_BATCH_MAX = 1_000
_TIMEOUT_S = 15.0
_RETRY_S = 0.1
_QUEUED_KBYTES = 16_384
"""What librdkafka reads ahead, at most; so much may be handed over in one go."""
_HANDED_OVER_BYTES_MAX = 8_388_608
"""What the event loop may not have taken yet, after which no more is read."""
_SLICE_BYTES = 262_144
_SLICE_RECORDS = 100
"""What the event loop takes in one go, before it looks what else there is to do."""
_log = logging.getLogger(__name__)


class TopicRecord(NamedTuple):
    """One record, as far as it matters here."""

    key: bytes
    value: bytes | None
    timestamp_ms: int


class Handover:
    """From a reader's thread to the event loop's: in slices, and the reader waits while the loop does not follow."""

    def __init__(self, loop: asyncio.AbstractEventLoop, take: Callable[[list[TopicRecord]], None]) -> None:
        """`take` is called in the loop's thread."""
        self._loop = loop
        self._take = take
        self._pieces: deque[tuple[int, Callable[[], None]]] = deque()
        """How large, and what is done with it."""
        self._bytes = 0
        self._changed = threading.Condition()

    def give(self, records: list[TopicRecord], is_over: Callable[[], bool]) -> None:
        """In the reader's thread; returns without having handed over everything when `is_over`."""
        for size, piece in _slices(records):
            with self._changed:
                while self._bytes and self._bytes + size > _HANDED_OVER_BYTES_MAX:
                    if is_over():
                        return
                    self._changed.wait(_POLL_S)
            self._append(size, partial(self._take, piece))

    def when_taken(self, call: Callable[[], None]) -> None:
        """Have it called in the loop's thread when everything up to here was taken."""
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


class TopicReader:
    """Reads from now on, or from the beginning. `on_records` is called in the reader's thread."""

    def __init__(
        self,
        properties: Mapping[str, str],
        topic: str,
        partitions: list[int],
        on_records: Callable[[list[TopicRecord]], None],
        *,
        from_beginning: bool = False,
        on_caught_up: Callable[[], None] = lambda: None,
        on_failure: Callable[[GatewayError], None] = lambda failure: None,
    ) -> None:
        """`on_caught_up`: called once, when everything that was there at the start has been handed over.

        `on_failure`: called, in the reader's thread, when it ends without having been asked to.
        """
        self._on_failure = on_failure
        self._topic = topic
        self._partitions = partitions
        self._on_records = on_records
        self._on_caught_up = on_caught_up
        self._from_beginning = from_beginning
        self._stopping = threading.Event()
        self._behind: dict[int, int] = {}
        """Partitions of which not all has been handed over that was there at the start -> their end then."""
        self._consumer = Consumer(
            {
                **properties,
                "group.id": "group-coordinator-gateway",  # never joined: partitions are assigned by hand and nothing is committed
                "enable.auto.commit": "false",
                "enable.partition.eof": "true" if from_beginning else "false",  # compaction may have taken the last records
                "auto.offset.reset": "earliest" if from_beginning else "latest",
                "fetch.error.backoff.ms": "50",
                "queued.max.messages.kbytes": str(_QUEUED_KBYTES),
                "reconnect.backoff.max.ms": "1000",
                **READER_PROPERTIES,
            }
        )
        self._thread = threading.Thread(target=self._run, name=f"read-{topic}", daemon=True)

    def start(self) -> None:
        """Find the place to read from, and begin. Raises GatewayError when Kafka or the topic is not there."""
        try:
            begin = [self._place(partition) for partition in self._partitions]
            self._consumer.assign(begin)
        except KafkaException as problem:
            self._consumer.close()
            raise GatewayError(f"{self._topic} cannot be read: {problem.args[0].str()}.") from problem
        self._thread.start()

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to end."""
        return self._stopping.is_set()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _place(self, partition: int) -> TopicPartition:
        """Where to begin: named by number, for what is written from now on must not be missed."""
        give_up_at = time.monotonic() + _TIMEOUT_S
        while True:
            try:
                begin, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, partition), timeout=_TIMEOUT_S)
                break
            except KafkaException:
                # A topic that has just been created has no leader for a moment.
                if time.monotonic() >= give_up_at:
                    raise
                time.sleep(_RETRY_S)
        if not self._from_beginning:
            return TopicPartition(self._topic, partition, end)
        if begin < end:
            self._behind[partition] = end
        return TopicPartition(self._topic, partition, begin)

    def _run(self) -> None:
        try:
            self._read()
        except Exception as problem:
            _log.exception("reading %s", self._topic)
            self._on_failure(GatewayError(f"{self._topic} is read no more: {problem!r}. Start the gateway again."))
        finally:
            self._consumer.close()

    def _read(self) -> None:
        if self._from_beginning and not self._behind:
            self._on_caught_up()
        while not self._stopping.is_set():
            first = self._consumer.poll(_POLL_S)
            if first is not None:
                # What else is here, without waiting for more.
                self._take([first, *self._consumer.consume(_BATCH_MAX, 0)])

    def _take(self, messages: list[Message]) -> None:
        records = []
        reached: dict[int, float] = {}
        for message in messages:
            error, partition = message.error(), message.partition() or 0
            if error is None:
                records.append(TopicRecord(message.key() or b"", message.value(), message.timestamp()[1]))
                reached[partition] = (message.offset() or 0) + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                reached[partition] = float("inf")
            else:
                _log.warning("reading %s: %s", self._topic, error.str())
        if records:
            self._on_records(records)
        if self._behind:
            self._behind = {partition: end for partition, end in self._behind.items() if reached.get(partition, 0) < end}
            if not self._behind:
                self._on_caught_up()
