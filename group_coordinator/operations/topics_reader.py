"""The thread that reads the coordinator's topics and has their records counted.

It joins no group and commits nothing. It begins at the ends of the topics, before the queries start, so that everything
which this process writes is counted; the groups themselves it knows from the beginning of the compacted assignments topic.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from group_coordinator.operations.group_log import GroupLog
from group_coordinator.operations.metrics import READER_LAG, Value
from group_coordinator.operations.tally import Tally
from schemas.isolation import READER_PROPERTIES
from streaming.topics import Topics

TIMEOUT_S = 15.0
RETRY_S = 0.1
POLL_S = 0.5
BATCH = 2_000
_log = logging.getLogger(__name__)


class TopicsReader:
    """Reads from `start` until `stop`; survives every outage of Kafka."""

    def __init__(
        self,
        client_properties: Mapping[str, str],
        topics: Topics,
        shards: tuple[int, ...],
        tally: Tally,
        group_log: GroupLog,
        *,
        everything: bool,
    ) -> None:
        """`everything`: also what only metrics need. Without it history and dead letters are read, for the log."""
        self._topics, self._tally, self._group_log = topics, tally, group_log
        self._shards = frozenset(shards)
        self._take: dict[str, Callable[[Message], None]] = {
            topics.history: self._history,
            topics.dead_letters: self._dead_letter,
        }
        if everything:
            self._take |= {
                topics.events: self._event,
                topics.responses: self._answer,
                topics.assignments: self._assignment,
            }
        self._positions: dict[tuple[str, int], int] = {}
        self._ends: dict[tuple[str, int], int] = {}
        self._stopping = threading.Event()
        self._consumer = Consumer(
            {
                "group.id": "group-coordinator-metrics",  # librdkafka wants one; it is never joined
                "enable.auto.commit": False,
                "auto.offset.reset": "latest",
                "queued.max.messages.kbytes": 16_384,
                "reconnect.backoff.max.ms": 1_000,
                "log_level": 0,
                **client_properties,
                **READER_PROPERTIES,
            }
        )
        self._thread = threading.Thread(target=self._run, name="metrics-reader", daemon=True)

    def start(self, partitions: Mapping[str, int]) -> None:
        """Begin, at the ends that the topics have now. `partitions`: how many each has. Raises KafkaException."""
        try:
            for topic in self._take:
                numbers = sorted(self._shards) if topic == self._topics.events else range(partitions[topic])
                for number in numbers:
                    low, high = self._bounds(topic, number)
                    self._positions[topic, number] = low if topic == self._topics.assignments else high
            self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._positions.items()])
        except KafkaException:
            self._consumer.close()
            raise
        self._thread.start()

    def _bounds(self, topic: str, number: int) -> tuple[int, int]:
        give_up_at_s = time.monotonic() + TIMEOUT_S
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
                return int(low), int(high)
            except KafkaException:
                # A topic that has just been created has no leader for a moment.
                if time.monotonic() >= give_up_at_s:
                    raise
                time.sleep(RETRY_S)

    def stop(self) -> None:
        """Stop reading; returns when the thread has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def end_offset(self, shard: int) -> int | None:
        """The end of a shard's events, as of the last fetch; None while it is not known."""
        return self._ends.get((self._topics.events, shard))

    def values(self) -> Iterator[Value]:
        """How far behind this reader is."""
        lags = dict.fromkeys(self._take, 0)
        for place, position in list(self._positions.items()):
            lags[place[0]] += max(0, self._ends.get(place, 0) - position)
        yield from (Value(READER_LAG, (topic,), lag) for topic, lag in lags.items())

    def _run(self) -> None:
        while not self._stopping.is_set():
            first = self._consumer.poll(POLL_S)  # consume() alone would wait for a full batch
            for message in [] if first is None else [first, *self._consumer.consume(BATCH, 0.0)]:
                self._read(message)
            self._note_ends()
        self._consumer.close()

    def _note_ends(self) -> None:
        """From what the last fetches said, which costs no request. Only in this thread: calls of several threads deadlock."""
        for place in self._positions:
            with suppress(KafkaException):
                bounds = self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)
                if bounds is not None and bounds[1] >= 0:
                    self._ends[place] = int(bounds[1])

    def _read(self, message: Message) -> None:
        error, topic, number, offset = message.error(), message.topic(), message.partition(), message.offset()
        if error is not None or topic is None or number is None or offset is None:
            if error is not None and error.code() == KafkaError.OFFSET_OUT_OF_RANGE:
                _log.warning("%s: records were deleted before they were counted", error.str())
            return
        self._positions[topic, number] = offset + 1
        try:
            self._take[topic](message)
        except (msgspec.DecodeError, ValueError):  # of a value; of a key or header
            _log.debug("%s, partition %d, offset %d is none of our records", topic, number, offset)

    def _event(self, message: Message) -> None:
        self._tally.event(message.partition() or 0, message.offset() or 0, message.timestamp()[1], message.key(), message.value())

    def _answer(self, message: Message) -> None:
        self._tally.answer(message.partition() or 0, message.timestamp()[1], message.value() or b"")

    def _history(self, message: Message) -> None:
        record = self._tally.history(message.value() or b"")
        if record is not None:
            self._group_log.history(record)

    def _assignment(self, message: Message) -> None:
        self._tally.group(message.key() or b"", message.value())

    def _dead_letter(self, message: Message) -> None:
        pairs: list[tuple[str, bytes | None]] = list(message.headers() or [])  # type: ignore[arg-type]
        headers = {name: (text or b"").decode(errors="replace") for name, text in pairs}
        reason = self._tally.dead_letter(self._shards, message.key(), headers)
        if reason is not None:
            self._group_log.dead_letter(message.key(), reason, headers)
