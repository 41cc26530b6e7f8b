"""A plain consumer of topics: it joins no group, commits nothing, and sees what lies in the log
(`schemas.isolation`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self, cast

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from group_coordinator.ground.kafka_topics import errors
from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.ground.kafka_topics.clients import new_consumer
from group_coordinator.ground.kafka_topics.errors import NoSuchTopicError, explaining
from schemas.isolation import READER_PROPERTIES

_POLL_S = 0.1
_RETRY_S = 0.1
_RECORDS_MAX = 1_000
"""The most records that one `poll` returns."""
_READ_AHEAD_KBYTES = 16_384
"""The most that librdkafka fetches ahead of `poll`."""


class TopicReader:
    """Reads partitions from given offsets on. A context manager.

    It belongs to one thread: a consumer deadlocks when one thread asks for bounds while another one polls. Methods
    raise `KafkaException` when Kafka refuses, or is silent for too long; `explaining` makes a sentence of it.
    """

    def __init__(
        self,
        client_properties: Mapping[str, str],
        name: str,
        *,
        timeout_s: float | None = None,
        reports_ends: bool = True,
        waits_at_the_end: bool = False,
    ) -> None:
        """`name`: the group id is `group-coordinator-NAME`. `reports_ends`: `poll` reports when a partition's end is
        reached.

        `waits_at_the_end`: a fetch may wait at the end of the log for what comes next, which is cheaper; but a broker
        answers a connection's requests one after the other, so whatever is asked meanwhile waits as long.
        """
        self.timeout_s = errors.TIMEOUT_S if timeout_s is None else timeout_s
        fetch_wait = {} if waits_at_the_end else {"fetch.wait.max.ms": 10}
        self._consumer = new_consumer(
            client_properties,
            {
                "auto.offset.reset": "earliest",
                "queued.max.messages.kbytes": _READ_AHEAD_KBYTES,
                "fetch.error.backoff.ms": 50,
                **fetch_wait,
                "group.id": f"group-coordinator-{name}",  # librdkafka requires one; it is never joined
                "enable.auto.commit": False,
                "enable.partition.eof": reports_ends,
                **READER_PROPERTIES,
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    # ---------------------------------------------------------------------------------------------------- what is there

    def partitions(self, topic: str) -> list[Partition]:
        """Return the partitions of a topic. Raises NoSuchTopicError."""
        found = self._consumer.list_topics(topic, timeout=self.timeout_s).topics[topic]
        if found.error is not None and found.error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise KafkaException(found.error)
        if not found.partitions:
            raise NoSuchTopicError(topic)
        return [(topic, number) for number in sorted(found.partitions)]

    def bounds(self, topic: str, number: int, timeout_s: float | None = None) -> Bounds:
        """Return the present bounds of a partition's log."""
        timeout_s = self.timeout_s if timeout_s is None else timeout_s
        begin, end = self._consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=timeout_s)
        return Bounds(begin, end)

    def bounds_when_led(self, topic: str, number: int) -> Bounds:
        """Return `bounds` of a partition that may have been made just now: it has no leader for a moment."""
        give_up_at_s = time.monotonic() + self.timeout_s
        while True:
            try:
                return self.bounds(topic, number)
            except KafkaException:
                if time.monotonic() >= give_up_at_s:
                    raise
                time.sleep(_RETRY_S)

    def offset_since(self, topic: str, number: int, timestamp_ms: int) -> int:
        """Return the offset of a partition's first record with this timestamp or a later one; its end if there is
        none."""
        place = TopicPartition(topic, number, timestamp_ms)
        (found,) = self._consumer.offsets_for_times([place], timeout=self.timeout_s)
        if found.error is not None:
            raise KafkaException(found.error)
        return found.offset if found.offset >= 0 else self.bounds(topic, number).end

    def last_known_end(self, topic: str, number: int) -> int | None:
        """Return an assigned partition's end as of the last fetch, without asking Kafka; None if it is not known."""
        try:
            bounds = self._consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)
        except KafkaException:
            return None
        return None if bounds is None or bounds[1] < 0 else int(bounds[1])

    # ---------------------------------------------------------------------------------------------------------- reading

    def assign(self, positions: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on, and no others."""
        self._consumer.assign([TopicPartition(*partition, offset) for partition, offset in positions.items()])

    def poll(self, timeout_s: float) -> list[Message]:
        """Return the new messages, errors and reached ends among them; the time is the longest wait for the first.

        While Kafka is away nothing comes; that is no error.
        """
        first = self._consumer.poll(timeout_s)  # consume() alone would wait for a full batch
        return [] if first is None else [first, *self._consumer.consume(_RECORDS_MAX, 0)]

    def read(
        self, stretches: Mapping[Partition, Bounds], is_wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[Message]:
        """Yield the records of these stretches, each partition's in its order.

        Raises KafkaException, also when `is_wanted` says that the rest is not wanted any more.
        """
        ends = {partition: stretch.end for partition, stretch in stretches.items() if stretch.begin < stretch.end}
        if not ends:
            return
        self.assign({partition: stretches[partition].begin for partition in ends})
        heard_s = time.monotonic()
        try:
            while ends:
                messages = self.poll(_POLL_S)
                if messages:
                    heard_s = time.monotonic()
                if not is_wanted() or time.monotonic() - heard_s > self.timeout_s:
                    raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                for message in messages:
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    partition = partition_of(message)
                    end = ends.get(partition)
                    if end is None:
                        continue
                    # Compaction may have taken the last records, so the end of the log counts as well as the offset.
                    offset = end if error is not None else offset_of(message)
                    if offset < end:
                        yield message
                    if offset + 1 >= end:
                        del ends[partition]
        finally:
            self._consumer.unassign()


def read_topic(
    client_properties: Mapping[str, str], topic: str, numbers: Iterable[int] | None = None
) -> Iterator[Message]:
    """Yield the records that a topic (or some of its partitions) has now, each partition's in its order. Raises
    TopicReadError."""
    with explaining(client_properties), TopicReader(client_properties, "reader") as reader:
        partitions = reader.partitions(topic) if numbers is None else [(topic, number) for number in numbers]
        yield from reader.read({partition: reader.bounds(*partition) for partition in partitions})


def partition_count(client_properties: Mapping[str, str], topic: str) -> int:
    """Return the number of partitions of a topic. Raises TopicReadError."""
    with explaining(client_properties), TopicReader(client_properties, "reader") as reader:
        return len(reader.partitions(topic))


def partition_of(message: Message) -> Partition:
    """Return the partition of a record."""
    topic, number = message.topic(), message.partition()
    assert topic is not None
    assert number is not None
    return topic, number


def headers_of(message: Message) -> dict[str, str]:
    """Return the headers of a record as text; what is no UTF-8 in them is marked."""
    pairs = cast("list[tuple[str, bytes | None]]", message.headers() or [])
    return {name: (text or b"").decode(errors="replace") for name, text in pairs}


def offset_of(message: Message) -> int:
    """Return the offset of a record."""
    offset = message.offset()
    assert offset is not None
    return offset
