"""Reads the coordinator's topics in a thread and has their records counted.

It begins at the ends of the topics, before the queries start, so that everything which this process writes is counted;
the groups themselves it knows from the beginning of the compacted assignments topic. Where the process has a dashboard,
history is read for both: each record is decoded once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

import msgspec
from confluent_kafka import Message

from group_coordinator.coordinating.operations.group_log import GroupLog
from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.ground.kafka_topics.reader import headers_of, offset_of, partition_of
from group_coordinator.ground.monitoring.metrics import READER_LAG, Value
from group_coordinator.ground.settings.topic_names import Topics
from group_coordinator.watching.group_metrics.tally import Tally
from schemas.history import History, decode_history
from schemas.query_progress import GATEWAY_PREFIX, WRITER_HEADER

_log = logging.getLogger(__name__)


class HistoryListener(Protocol):
    """A dashboard's index: it gets all history, groups and dead letters, from the beginning of their topics."""

    unreadable: int
    """Values that are no history."""

    def add_record(self, record: History, value: bytes) -> bool:
        """Take a record that was decoded from this value."""

    def take_published(self, key: bytes | None, value: bytes | None) -> None:
        """Take a group as it is."""

    def add_dead_letter(
        self, key: bytes | None, value: bytes | None, headers: dict[str, str], timestamp_ms: int
    ) -> None:
        """Take a dead letter."""


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
        for_metrics: bool,
        listener: HistoryListener | None = None,
    ) -> None:
        """`for_metrics`: also read the topics that only metrics need. History and dead letters are always read, for the
        log."""
        self._listener = listener
        self._topics, self._tally, self._group_log = topics, tally, group_log
        self._shards = frozenset(shards)
        self._take: dict[str, Callable[[Message], None]] = {
            topics.history: self._history,
            topics.dead_letters: self._dead_letter,
        }
        if for_metrics:
            self._take |= {topics.events: self._event, topics.responses: self._answer}
        if for_metrics or listener is not None:
            self._take[topics.assignments] = self._group
        self._positions: dict[Partition, int] = {}
        self._ends: dict[Partition, int] = {}
        self.follower = TopicFollower(client_properties, "metrics", self._read, on_poll=self._note_ends)

    def start(self, partitions: Mapping[str, int]) -> None:
        """Begin, at the ends that the topics have now. `partitions`: how many each has. Raises TopicReadError."""
        all_partitions = [
            (topic, number)
            for topic in self._take
            for number in (sorted(self._shards) if topic == self._topics.events else range(partitions[topic]))
        ]
        shared = (self._topics.history, self._topics.dead_letters) if self._listener is not None else ()
        from_beginning = [
            partition for partition in all_partitions if partition[0] in (self._topics.assignments, *shared)
        ]
        positions = self.follower.start(
            from_beginning=from_beginning,
            from_end=[partition for partition in all_partitions if partition not in from_beginning],
        )
        ends = self.follower.ends_at_start
        self._positions = positions | {place: ends[place] for place in from_beginning if place[0] in shared}

    def stop(self) -> None:
        """Stop reading; returns when the thread has ended."""
        self.follower.stop()

    def end_offset(self, shard: int) -> int | None:
        """Return the end of a shard's events as of the last fetch; None while it is not known."""
        return self._ends.get((self._topics.events, shard))

    def values(self) -> Iterator[Value]:
        """Yield how far this reader is behind."""
        lags = dict.fromkeys(self._take, 0)
        for place, position in list(self._positions.items()):
            lags[place[0]] += max(0, self._ends.get(place, 0) - position)
        yield from (Value(READER_LAG, (topic,), lag) for topic, lag in lags.items())

    def _note_ends(self) -> None:
        """Note the ends that the last fetches reported, which costs no request."""
        for place in self._positions:
            end = self.follower.reader.last_known_end(*place)
            if end is not None:
                self._ends[place] = end

    def _read(self, messages: list[Message]) -> None:
        for message in messages:
            place, offset = partition_of(message), offset_of(message)
            self._positions[place] = max(self._positions.get(place, 0), offset + 1)
            try:
                self._take[place[0]](message)
            except (msgspec.DecodeError, ValueError):  # of a value; of a key or header
                _log.debug("%s, partition %d, offset %d is none of our records", *place, offset)

    def _event(self, message: Message) -> None:
        self._tally.event(
            message.partition() or 0, message.offset() or 0, message.timestamp()[1], message.key(), message.value()
        )

    def _answer(self, message: Message) -> None:
        if headers_of(message).get(WRITER_HEADER, "").startswith(GATEWAY_PREFIX):
            return  # it has no place in the order of answers
        self._tally.answer(message.partition() or 0, message.timestamp()[1], message.value() or b"")

    def _group(self, message: Message) -> None:
        if self._listener is not None:
            self._listener.take_published(message.key(), message.value())
        self._tally.group(message.key() or b"", message.value())

    def _history(self, message: Message) -> None:
        value = message.value()
        if value is None:
            return
        try:
            record = decode_history(value)
        except msgspec.DecodeError:
            if self._listener is not None:
                self._listener.unreadable += 1
            raise
        if self._listener is not None:
            self._listener.add_record(record, value)
        if self._is_counted(message) and self._tally.history(record):
            self._group_log.history(record)

    def _dead_letter(self, message: Message) -> None:
        headers = headers_of(message)
        if self._listener is not None:
            self._listener.add_dead_letter(message.key(), message.value(), headers, message.timestamp()[1])
        if not self._is_counted(message):
            return
        reason = self._tally.dead_letter(self._shards, message.key(), headers)
        if reason is not None:
            self._group_log.dead_letter(message.key(), reason, headers)

    def _is_counted(self, message: Message) -> bool:
        """Return whether the record was not yet there at the start."""
        return offset_of(message) >= self.follower.ends_at_start[partition_of(message)]
