"""The topics as they grow: history and dead letters followed, the ends of the groups' partitions polled."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any, cast

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from msgspec import Struct

from group_coordinator.dashboard.index import Index
from group_coordinator.dashboard.lag import Bounds, Place
from group_coordinator.dashboard.sources import SourceError, request_of_event
from schemas.isolation import READER_PROPERTIES

TIMEOUT_S = 15.0
_POLL_S = 0.25
_BATCH = 2_000
_UNKNOWN = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC)


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
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []
        self._behind: set[tuple[str, int]] = set()
        self._read = 0
        self._total = 0

    def start(self, index: Index) -> None:
        """Raises SourceError when Kafka does not answer, or there is no history topic."""
        consumer = self._consumer()
        try:
            starts = self._starts(consumer)
        except BaseException:
            consumer.close()
            raise
        consumer.assign(starts)
        for target in (lambda: self._follow(consumer, index), lambda: self._poll_ends(index)):
            thread = threading.Thread(target=target, daemon=True, name="dashboard-reader")
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(TIMEOUT_S)

    def progress(self) -> dict[str, Any]:
        caught_up = not self._behind
        return {"caught_up": caught_up, "detail": "" if caught_up else f"{self._read:,} of {self._total:,} records read"}

    def read_request(self, partition: int, offset: int) -> Any:
        """The event at a place of the events topic: the very request. None: it is not there (any more)."""
        if self._topics.events is None:
            return None
        consumer = self._consumer()
        try:
            consumer.assign([TopicPartition(self._topics.events, partition, offset)])
            message = consumer.poll(TIMEOUT_S)
            if message is None or message.error() is not None or message.offset() != offset:
                return None
            return {"timestamp_ms": message.timestamp()[1], "value": request_of_event(message.value())}
        finally:
            consumer.close()

    def _consumer(self) -> Consumer:
        return Consumer(
            {
                "group.id": "group-coordinator-dashboard",  # required by librdkafka; it never joins or commits
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 0,
                **self._properties,
                **READER_PROPERTIES,
            }
        )

    def _starts(self, consumer: Consumer) -> list[TopicPartition]:
        try:
            found = consumer.list_topics(timeout=TIMEOUT_S).topics
        except KafkaException as problem:
            raise SourceError(f"Kafka at {self.name} does not answer within {TIMEOUT_S:g} s: {problem.args[0].str()}. Check the bootstrap servers.") from problem
        if self._topics.history not in found:
            raise SourceError(f"There is no topic {self._topics.history}. Is the coordinator running there?")
        starts = []
        for topic in (self._topics.history, self._topics.dead_letters):
            if topic is None or topic not in found:
                continue
            for number in sorted(found[topic].partitions):
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
                starts.append(TopicPartition(topic, number, low))
                self._total += high - low
                if high > low:
                    self._behind.add((topic, number))
        return starts

    def _follow(self, consumer: Consumer, index: Index) -> None:
        while not self._stopping.is_set():
            first = consumer.poll(_POLL_S)
            messages = [] if first is None else [first]
            while messages and not self._stopping.is_set():
                for message in messages:
                    self._take(message, index)
                messages = consumer.consume(num_messages=_BATCH, timeout=0.0)
        consumer.close()

    def _take(self, message: Message, index: Index) -> None:
        error, topic, partition = message.error(), message.topic() or "", message.partition() or 0
        if error is not None:  # while Kafka is away nothing comes; that is no error here
            if error.code() == KafkaError._PARTITION_EOF:
                self._behind.discard((topic, partition))
            return
        self._read += 1
        value = message.value()
        if topic == self._topics.history:
            if value is not None:
                index.add(value)
            return
        pairs = cast("list[tuple[str, bytes | None]]", message.headers() or [])
        headers = {name: (text or b"").decode(errors="replace") for name, text in pairs}
        index.add_dead_letter(message.key(), value, headers, message.timestamp()[1])

    def _poll_ends(self, index: Index) -> None:
        admin = AdminClient({"log_level": "0", **self._properties})
        while not self._stopping.is_set():
            places = index.places()
            if places and not self._behind:
                index.poll_ends(time.time_ns() // 1_000_000, _bounds(admin, places))
            self._stopping.wait(self._interval_s if places else 1.0)


def _bounds(admin: AdminClient, places: set[Place]) -> dict[Place, Bounds]:
    """First and end offset of each partition; those that are not there, or do not answer, are left out."""
    partitions = [TopicPartition(topic, number) for topic, number in sorted(places)]
    found: dict[str, dict[Place, int]] = {}
    for name, spec in (("low", OffsetSpec.earliest()), ("high", OffsetSpec.latest())):  # type: ignore[no-untyped-call]
        futures = admin.list_offsets(
            dict.fromkeys(partitions, spec), isolation_level=IsolationLevel.READ_UNCOMMITTED, request_timeout=TIMEOUT_S
        )
        offsets = found[name] = {}
        for partition, future in futures.items():
            try:
                offsets[partition.topic, partition.partition] = future.result(TIMEOUT_S).offset
            except (KafkaException, TimeoutError):
                continue
    return {
        place: Bounds(found["low"][place], high) for place, high in found["high"].items() if place in found["low"]
    }
