"""What the relay writes to a Kafka that is slow, without one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import cast

import pytest
from confluent_kafka import KafkaError, Message, Producer

from group_coordinator.coordinating.transactions.fold import GroupEventBytes
from group_coordinator.coordinating.transactions.log_topic import TransactionLogError
from group_coordinator.coordinating.transactions.relay import write_events


class SlowProducer:
    """It delivers so many events in a second of a time that passes in `flush` alone."""

    def __init__(self, events_per_second: float) -> None:
        self.now_s = 0.0
        self.delivered: list[bytes] = []
        self._events_per_second = events_per_second
        self._waiting: list[tuple[bytes, Callable[[KafkaError | None, Message | None], None]]] = []

    def produce(
        self,
        _: str,
        value: bytes,
        __: bytes,
        ___: int,
        on_delivery: Callable[[KafkaError | None, Message | None], None],
    ) -> None:
        self._waiting.append((value, on_delivery))

    def flush(self, timeout_s: float) -> int:
        count = min(len(self._waiting), int(timeout_s * self._events_per_second))
        self.now_s += count / self._events_per_second if count == len(self._waiting) else timeout_s
        for value, on_delivery in self._waiting[:count]:
            self.delivered.append(value)
            on_delivery(None, None)
        del self._waiting[:count]
        return len(self._waiting)


def write(monkeypatch: pytest.MonkeyPatch, producer: SlowProducer, count: int) -> list[bytes]:
    """Write so many events; returns them."""
    monkeypatch.setattr(time, "monotonic", lambda: producer.now_s)
    events = [GroupEventBytes("g", str(number).encode()) for number in range(count)]
    write_events(cast(Producer, producer), "events", 0, events)
    return [event.value for event in events]


def test_very_many_events_take_their_time_where_kafka_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that end at once may be some hundred thousand: begun again from the position they would never be written."""
    producer = SlowProducer(events_per_second=2_000)
    written = write(monkeypatch, producer, 100_000)
    assert producer.delivered == written


def test_events_are_given_up_where_kafka_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TransactionLogError):
        write(monkeypatch, SlowProducer(events_per_second=0.1), 100)
