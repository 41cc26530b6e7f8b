"""The topics as they grow: history and dead letters followed, the ends of the groups' partitions polled."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaException, Message
from msgspec import Struct

from group_coordinator.dashboard.end_poller import EndPoller
from group_coordinator.dashboard.index import Index
from group_coordinator.dashboard.sources import SourceError, request_of_event
from group_coordinator.kafka_topics.bounds import Bounds, Partition
from group_coordinator.kafka_topics.errors import NoSuchTopicError, TopicReadError, explaining
from group_coordinator.kafka_topics.follower import TopicFollower
from group_coordinator.kafka_topics.reader import TopicReader, headers_of


class TopicNames(Struct, frozen=True, kw_only=True):
    """The topics that are read. The last two are None where they are not to be had."""

    history: str
    dead_letters: str | None = None
    events: str | None = None


class KafkaSource:
    """Reads as no member of any group, and commits nothing."""

    is_live = True

    def __init__(
        self, properties: Mapping[str, str], topics: TopicNames, *, end_offsets_interval_s: float = 15.0
    ) -> None:
        """`properties` are librdkafka's: at least `bootstrap.servers`."""
        self.name = properties.get("bootstrap.servers", "")
        self._properties = dict(properties)
        self._topics = topics
        self._interval_s = end_offsets_interval_s
        self._follower: TopicFollower | None = None
        self._end_poller: EndPoller | None = None
        self._caught_up = threading.Event()
        self._read = 0

    def start(self, index: Index) -> None:
        """Start to read. Raises SourceError when Kafka does not answer, or there is no history topic."""
        follower = TopicFollower(
            self._properties,
            "dashboard",
            lambda messages: self._take(messages, index),
            on_caught_up=self._caught_up.set,
        )
        try:
            with explaining(self._properties):
                partitions = self._partitions(follower.reader)
            follower.start(from_beginning=partitions)
        except TopicReadError as problem:
            raise SourceError(str(problem)) from problem
        self._follower = follower
        self._end_poller = EndPoller(self._properties, index, self._caught_up.is_set, self._interval_s)
        self._end_poller.start()

    def stop(self) -> None:
        if self._follower is not None:
            self._follower.stop()
        if self._end_poller is not None:
            self._end_poller.stop()

    def progress(self) -> dict[str, Any]:
        caught_up = self._caught_up.is_set()
        total = 0 if self._follower is None else self._follower.unread_at_start
        return {"caught_up": caught_up, "detail": "" if caught_up else f"{self._read:,} of {total:,} records read"}

    def read_request(self, partition: int, offset: int) -> Any:
        """Return the event at a place of the events topic: the very request. None: it is not there (any more)."""
        if self._topics.events is None:
            return None
        place = (self._topics.events, partition)
        try:
            with TopicReader(self._properties, "dashboard") as reader:
                begin, end = reader.bounds(*place)
                stretch = Bounds(offset, offset + 1) if begin <= offset < end else Bounds(end, end)
                for message in reader.read({place: stretch}):
                    return {"timestamp_ms": message.timestamp()[1], "value": request_of_event(message.value())}
        except KafkaException:
            pass
        return None

    def _partitions(self, reader: TopicReader) -> list[Partition]:
        partitions = reader.partitions(self._topics.history)
        if self._topics.dead_letters is not None:
            with suppress(NoSuchTopicError):
                partitions += reader.partitions(self._topics.dead_letters)
        return partitions

    def _take(self, messages: list[Message], index: Index) -> None:
        for message in messages:
            self._read += 1
            value = message.value()
            if message.topic() == self._topics.history:
                if value is not None:
                    index.add(value)
            else:
                index.add_dead_letter(message.key(), value, headers_of(message), message.timestamp()[1])
