"""A Kafka in memory, as far as a responder's loop needs one. A topic may stop taking records."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Self

from confluent_kafka import TIMESTAMP_CREATE_TIME, KafkaError

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition


class FakeRecord:
    """A record as a consumer gets it."""

    def __init__(
        self,
        place: Partition,
        offset: int,
        key: bytes | None,
        value: bytes | None,
        at_ms: int,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self._place, self._offset, self._key, self._value, self._at_ms = place, offset, key, value, at_ms
        self._headers = [(name, text.encode()) for name, text in (headers or {}).items()]

    def error(self) -> None:
        return None

    def topic(self) -> str:
        return self._place[0]

    def partition(self) -> int:
        return self._place[1]

    def offset(self) -> int:
        return self._offset

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes | None:
        return self._value

    def headers(self) -> list[tuple[str, bytes]]:
        return self._headers

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_CREATE_TIME, self._at_ms


class FakeKafka:
    """The logs, and what they do not take."""

    def __init__(self) -> None:
        self.logs: defaultdict[Partition, list[FakeRecord]] = defaultdict(list)
        self.begins: dict[Partition, int] = {}
        """Where the logs begin of which something is deleted."""
        self.takes_nothing: set[str] = set()
        self.refuses: set[str] = set()
        """Topics whose records are given up."""
        self.before: Callable[[str, bytes | None, bytes | None], None] = lambda topic, key, value: None
        """Called before a record is appended, with its topic, key and value: what others do in that moment."""
        self.is_full = False
        """The producers' queues have no room."""

    def append(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int = 0,
        at_ms: int = 0,
        headers: Mapping[str, str] | None = None,
    ) -> FakeRecord:
        self.before(topic, key, value)
        place = topic, partition
        at_ms = at_ms or time.time_ns() // 1_000_000
        record = FakeRecord(place, len(self.logs[place]), key, value, at_ms, headers)
        self.logs[place].append(record)
        return record

    def reader(self, *_: object, **__: object) -> FakeReader:
        return FakeReader(self)

    def producer(self, *_: object) -> FakeProducer:
        return FakeProducer(self)


class FakeReader:
    """Reads what there is, and never waits."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._logs, self._begins = kafka.logs, kafka.begins
        self._positions: dict[Partition, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def bounds(self, topic: str, number: int) -> Bounds:
        return self.bounds_when_led(topic, number)

    def bounds_when_led(self, topic: str, number: int) -> Bounds:
        return Bounds(self._begins.get((topic, number), 0), len(self._logs[topic, number]))

    def partitions(self, topic: str) -> list[int]:
        return [0]

    def last_known_end(self, topic: str, number: int) -> int:
        return len(self._logs[topic, number])

    def read(self, stretches: Mapping[Partition, Bounds]) -> Iterator[FakeRecord]:
        for place, (begin, end) in stretches.items():
            yield from self._logs[place][begin:end]

    def assign(self, positions: Mapping[Partition, int]) -> None:
        self._positions = dict(positions)

    def poll(self, timeout_s: float) -> list[FakeRecord]:
        new = [record for place, position in self._positions.items() for record in self._logs[place][position:]]
        self._positions = {place: len(self._logs[place]) for place in self._positions}
        return new


class FakeProducer:
    """Keeps what a topic does not take until it does."""

    def __init__(self, kafka: FakeKafka) -> None:
        self._kafka = kafka
        self._waiting: list[tuple[str, Callable[[], None]]] = []

    def produce(
        self, topic: str, value: bytes | None = None, key: bytes | None = None, partition: int = 0,
        on_delivery: Callable[[Any, Any], None] = lambda error, message: None, timestamp: int = 0,
        headers: Any = (),
    ) -> None:  # fmt: skip
        if self._kafka.is_full:
            raise BufferError

        def deliver() -> None:
            if topic in self._kafka.refuses:
                on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), None)
                return
            on_delivery(None, self._kafka.append(topic, key, value, partition, timestamp, dict(headers)))

        self._waiting.append((topic, deliver))

    def poll(self, timeout_s: float) -> None:
        self.flush(timeout_s)

    def flush(self, timeout_s: float) -> int:
        waiting, self._waiting = self._waiting, []
        for topic, deliver in waiting:
            if topic in self._kafka.takes_nothing:
                self._waiting.append((topic, deliver))
            else:
                deliver()
        return len(self._waiting)
