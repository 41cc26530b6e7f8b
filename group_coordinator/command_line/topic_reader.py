"""Reading our topics: all that is there now (`read_topic`), or on and on from there (`TopicFollower`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from group_coordinator.command_line.errors import CommandError
from group_coordinator.dashboard.lag import Bounds
from schemas.isolation import READER_PROPERTIES

TIMEOUT_S = 15.0
_BATCH = 1_000
_NO_ANSWER = (KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError.REQUEST_TIMED_OUT)


@contextmanager
def asking(properties: Mapping[str, str]) -> Iterator[None]:
    """What Kafka refuses or does not answer in here is told with its address, by a CommandError."""
    try:
        yield
    except KafkaException as problem:
        error = problem.args[0]
        where = f"Kafka at {properties['bootstrap.servers']}"
        text = error.str().rstrip(".") if isinstance(error, KafkaError) else str(error)
        if isinstance(error, KafkaError) and error.code() in _NO_ANSWER:
            raise CommandError(f"{where} does not answer within {TIMEOUT_S:g} s: {text}. Check --bootstrap-servers.") from problem
        raise CommandError(f"{where}: {text}.") from problem


def read_topic(properties: Mapping[str, str], topic: str, partitions: Iterable[int] | None = None) -> Iterator[Message]:
    """The records that a topic (or some of its partitions) has now, each partition in its order.

    Raises CommandError when there is no such topic, or when it cannot be read.
    """
    with asking(properties):
        yield from _read(_consumer(properties), topic, partitions)


def _read(consumer: Consumer, topic: str, partitions: Iterable[int] | None) -> Iterator[Message]:
    try:
        ends = _bounds(consumer, topic, partitions)
        consumer.assign([TopicPartition(topic, number, low) for number, (low, _) in ends.items()])
        unread = {number for number, (low, high) in ends.items() if high > low}
        while unread:
            first = consumer.poll(TIMEOUT_S)  # consume() alone would wait for a full batch
            if first is None:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            for message in (first, *consumer.consume(num_messages=_BATCH, timeout=0.0)):
                error, number, offset = message.error(), message.partition(), message.offset()
                assert number is not None
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    unread.discard(number)
                elif error is not None:
                    raise KafkaException(error)
                elif number in unread and offset is not None:
                    if offset < ends[number][1]:
                        yield message
                    if offset + 1 >= ends[number][1]:
                        unread.discard(number)
    finally:
        consumer.close()


def partition_count(properties: Mapping[str, str], topic: str) -> int:
    """How many partitions a topic has. Raises CommandError when there is none of this name."""
    consumer = _consumer(properties)
    try:
        with asking(properties):
            return len(_partitions(consumer, topic))
    finally:
        consumer.close()


def log_bounds(properties: Mapping[str, str], partitions: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Bounds]:
    """Where the log of each partition begins and ends; those that do not exist are left out."""
    consumer = _consumer(properties)
    found = {}
    try:
        with asking(properties):
            for place in partitions:
                bounds = _bounds_of(consumer, *place)
                if bounds is not None:
                    found[place] = bounds
    finally:
        consumer.close()
    return found


def _bounds_of(consumer: Consumer, topic: str, number: int) -> Bounds | None:
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S)
    except KafkaException as problem:
        if problem.args[0].code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC, KafkaError.UNKNOWN_TOPIC_OR_PART):
            return None
        raise
    return Bounds(low, high)


class TopicFollower:
    """Hands every record of some topics to `handle`, from their beginning or their end on; `poll` it."""

    def __init__(
        self,
        properties: Mapping[str, str],
        topics: Iterable[str],
        handle: Callable[[Message], None],
        *,
        from_beginning: bool,
    ) -> None:
        """Raises CommandError for a topic that does not exist."""
        self._handle = handle
        self._consumer = _consumer(properties)
        starts = []
        with asking(properties):
            for topic in topics:
                for number, (low, high) in _bounds(self._consumer, topic, None).items():
                    starts.append(TopicPartition(topic, number, low if from_beginning else high))
        self._consumer.assign(starts)

    def poll(self, timeout_s: float = 0.0) -> None:
        """Handle what has come since the last call, waiting for the first record at most this long.

        While Kafka is away nothing comes; it is not an error here.
        """
        message = self._consumer.poll(timeout_s)
        messages = [] if message is None else [message]
        while messages:
            for message in messages:
                if message.error() is None:
                    self._handle(message)
            messages = self._consumer.consume(num_messages=_BATCH, timeout=0.0)

    def close(self) -> None:
        self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _consumer(properties: Mapping[str, str]) -> Consumer:
    return Consumer(
        {
            "group.id": "group-coordinator-reader",  # required by librdkafka; it never joins or commits
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 0,
            **properties,
            **READER_PROPERTIES,
        }
    )


def _partitions(consumer: Consumer, topic: str) -> list[int]:
    found = consumer.list_topics(timeout=TIMEOUT_S).topics.get(topic)
    if found is None:
        raise CommandError(f"There is no topic {topic}. Is the coordinator running there, and with this --topic-prefix?")
    return sorted(found.partitions)


def _bounds(consumer: Consumer, topic: str, partitions: Iterable[int] | None) -> dict[int, tuple[int, int]]:
    numbers = _partitions(consumer, topic) if partitions is None else partitions
    return {
        number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=TIMEOUT_S) for number in numbers
    }
