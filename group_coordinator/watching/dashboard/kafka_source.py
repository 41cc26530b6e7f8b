"""The topics as they grow: history, groups and dead letters followed, the ends of the groups' partitions polled."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, suppress
from typing import Any

from confluent_kafka import KafkaException, Message
from msgspec import Struct

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.ground.kafka_topics.errors import NoSuchTopicError, TopicReadError, explaining
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.ground.kafka_topics.reader import TopicReader, headers_of
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.dashboard.api_types import Request
from group_coordinator.watching.dashboard.end_poller import EndPoller
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import SourceError, request_of_event


class TopicNames(Struct, frozen=True, kw_only=True):
    """The topics that are read. All but the first are None where they are not to be had."""

    history: str
    assignments: str | None = None
    dead_letters: str | None = None
    events: str | None = None


class KafkaSource:
    """Reads as no member of any group, and commits nothing."""

    is_live = True

    def __init__(
        self,
        properties: Mapping[str, str],
        topics: TopicNames,
        *,
        follower: TopicFollower | None = None,
    ) -> None:
        """`properties` are librdkafka's: at least `bootstrap.servers`.

        `follower`: reads them already, all but events, and gives them to the index; None: the source reads them.
        """
        self.name = properties.get("bootstrap.servers", "")
        self._properties = dict(properties)
        self._topics = topics
        self._follower = follower
        self._stack = ExitStack()

    def start(self, index: Index) -> None:
        """Start to read. Raises SourceError when Kafka does not answer, or there is no history topic."""
        self._follower = self._follower or self._follow(index)
        end_poller = EndPoller(self._properties, index, self.progress)
        end_poller.start()
        self._stack.callback(end_poller.stop)

    def stop(self) -> None:
        self._stack.close()

    def progress(self) -> dict[str, Any]:
        follower = self._follower
        if follower is None:
            return {"caught_up": False, "detail": ""}
        detail = f"{follower.taken_of_unread:,} of {follower.unread_at_start:,} records read"
        return {"caught_up": follower.has_caught_up, "detail": "" if follower.has_caught_up else detail}

    def read_request(self, partition: int, offset: int) -> Request | None:
        """Return the event at a place of the events topic: the very request. None: it is not there (any more)."""
        if self._topics.events is None:
            return None
        place = (self._topics.events, partition)
        try:
            with TopicReader(self._properties, "dashboard") as reader:
                begin, end = reader.bounds(*place)
                stretch = Bounds(offset, offset + 1) if begin <= offset < end else Bounds(end, end)
                for message in reader.read({place: stretch}):
                    return Request(timestamp_ms=message.timestamp()[1], value=request_of_event(message.value()))
        except KafkaException:
            pass
        return None

    def _follow(self, index: Index) -> TopicFollower:
        follower = TopicFollower(self._properties, "dashboard", lambda messages: self._take(messages, index))
        try:
            with explaining(self._properties):
                partitions = self._partitions(follower.reader)
            follower.start(from_beginning=partitions)
        except TopicReadError as problem:
            raise SourceError(str(problem)) from problem
        self._stack.callback(follower.stop)
        return follower

    def _partitions(self, reader: TopicReader) -> list[Partition]:
        partitions = reader.partitions(self._topics.history)
        for topic in filter(None, (self._topics.assignments, self._topics.dead_letters)):
            with suppress(NoSuchTopicError):
                partitions += reader.partitions(topic)
        return partitions

    def _take(self, messages: list[Message], index: Index) -> None:
        for message in messages:
            value = message.value()
            if message.topic() == self._topics.history:
                if value is not None:
                    index.add(value)
            elif message.topic() == self._topics.assignments:
                index.take_published(message.key(), value)
            else:
                index.add_dead_letter(message.key(), value, headers_of(message), message.timestamp()[1])


def source_of_coordinator(config: ReaderSettings, follower: TopicFollower | None = None) -> KafkaSource:
    """Return the topics of a coordinator. `follower`: as of `KafkaSource`."""
    topics = config.topics
    names = TopicNames(
        history=topics.history, assignments=topics.assignments, dead_letters=topics.dead_letters, events=topics.events
    )
    return KafkaSource(config.client_properties, names, follower=follower)
