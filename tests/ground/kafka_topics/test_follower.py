"""A thread that reads on and on: from the beginning, from the end, and when it cannot go on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.errors import TopicReadError
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from tests.making_topics import make_topic

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
WAIT_S = 30.0


class Values:
    """The values that have come, and a way to wait for some."""

    def __init__(self) -> None:
        self.received: list[bytes | None] = []
        self._changed = threading.Condition()

    def take(self, messages: list[Message]) -> None:
        with self._changed:
            self.received += [message.value() for message in messages]
            self._changed.notify_all()

    def await_count(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.received) >= count, WAIT_S)


@pytest.fixture
def write(kafka: EmbeddedKafka) -> Callable[[str, bytes], None]:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})

    def write(topic: str, value: bytes) -> None:
        producer.produce(topic, value, partition=0)
        producer.flush()

    return write


def test_from_the_beginning_and_from_the_end(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, write: Callable[[str, bytes], None]
) -> None:
    complete, new = f"{topic_prefix}.whole", f"{topic_prefix}.new"
    for topic in (complete, new):
        make_topic(admin, topic)
        write(topic, b"before")
    values, caught_up = Values(), threading.Event()
    follower = TopicFollower(
        {"bootstrap.servers": kafka.bootstrap_servers}, "test", values.take, on_caught_up=caught_up.set
    )
    assert follower.start(from_beginning=[(complete, 0)], from_end=[(new, 0)]) == {(complete, 0): 0, (new, 0): 1}
    assert caught_up.wait(WAIT_S)
    assert (values.received, follower.unread_at_start) == ([b"before"], 1)
    write(new, b"after")
    values.await_count(2)
    follower.stop()
    assert values.received == [b"before", b"after"]
    assert follower.is_stopping


def test_an_empty_topic_is_caught_up_at_once(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> None:
    make_topic(admin, topic_prefix)
    caught_up = threading.Event()
    follower = TopicFollower(
        {"bootstrap.servers": kafka.bootstrap_servers}, "test", lambda messages: None, on_caught_up=caught_up.set
    )
    follower.start(from_beginning=[(topic_prefix, 0)])
    assert caught_up.wait(WAIT_S)
    follower.stop()


def test_a_start_without_kafka_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("group_coordinator.ground.kafka_topics.errors.TIMEOUT_S", 0.2)
    follower = TopicFollower(NOWHERE, "test", lambda messages: None)
    with pytest.raises(TopicReadError, match="does not answer within"):
        follower.start(from_end=[("t", 0)])
    follower.stop()


def test_a_thread_that_ends_by_itself_says_so() -> None:
    class Broken:
        def bounds_when_led(self, topic: str, number: int) -> Bounds:
            return Bounds(0, 0)

        def assign(self, positions: object) -> None: ...

        def poll(self, timeout_s: float) -> list[Message]:
            raise RuntimeError("no more")

        def close(self) -> None: ...

    failures: list[TopicReadError] = []
    has_failed = threading.Event()

    def on_failure(problem: TopicReadError) -> None:
        failures.append(problem)
        has_failed.set()

    follower = TopicFollower(NOWHERE, "test", lambda messages: None, on_failure=on_failure)
    follower.reader.close()
    follower.reader = Broken()  # type: ignore[assignment]
    follower.start(from_end=[("t", 0)])
    assert has_failed.wait(WAIT_S)
    follower.stop()
    assert [str(failure) for failure in failures] == ["t is read no more: RuntimeError('no more')."]
