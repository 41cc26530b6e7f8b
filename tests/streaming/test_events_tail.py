"""Where a log stands, read from its end: its clock, and the groups that were heard of lately."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, NamedTuple, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.kafka_topics.reader import TopicReader
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_tick
from schemas.query_progress import WRITER_HEADER
from streaming.events_tail import (
    TAIL_RECORDS,
    ClockPosition,
    RecentGroups,
    find_clock_position,
    open_reader,
    was_at_rest,
)


@pytest.fixture
def producer(kafka: EmbeddedKafka) -> Producer:
    return Producer({"bootstrap.servers": kafka.bootstrap_servers})


@pytest.fixture
def reader(kafka: EmbeddedKafka) -> Iterator[TopicReader]:
    with open_reader({"bootstrap.servers": kafka.bootstrap_servers}) as reader:
        yield reader


@pytest.fixture
def partition(admin: AdminClient, reader: TopicReader, topic_prefix: str) -> str:
    """A topic with one partition, which has its leader."""
    admin.create_topics([NewTopic(topic_prefix, 1, config={"message.timestamp.type": "LogAppendTime"})])[
        topic_prefix
    ].result()
    reader.bounds_when_led(topic_prefix, 0)
    return topic_prefix


def test_the_clock_of_a_log_is_its_last_tick(producer: Producer, reader: TopicReader, partition: str) -> None:
    assert find_clock_position(reader, partition, 0, 3_000) is None
    before_ms = time.time_ns() // 1_000_000
    producer.produce(partition, key="group", value=b"{}")
    producer.flush()
    first_ms = time.time_ns() // 1_000_000
    for _ in range(7_000):
        producer.produce(partition, key="group", value=encode_tick(10**12))
    producer.flush()
    position = find_clock_position(reader, partition, 0, 3_000)
    assert position is not None
    assert before_ms - 1_000 <= position.clock_ms <= first_ms, "the first record's time"
    assert (position.has_ticks, position.is_whole, position.end) == (False, True, 7_001)
    producer.produce(partition, value=encode_tick(7_000))
    producer.produce(partition, value=encode_tick(5_000))
    for _ in range(7_000):
        producer.produce(partition, key="group", value=b"{}")
    producer.flush()
    assert place_of(find_clock_position(reader, partition, 0, 3_000)) == (7_000, True, True, 14_003)
    since = find_clock_position(reader, partition, 0, 3_000, position.end)
    assert place_of(since) == (7_000, True, True, 14_003), "what has come since is read"
    producer.produce(partition, value=encode_tick(time.time_ns() // 1_000_000 + 86_400_000))
    producer.flush()
    position = find_clock_position(reader, partition, 0, 3_000)
    assert place_of(position) == (7_000, True, True, 14_004), "that was no valid tick"


def place_of(position: ClockPosition | None) -> tuple[int, bool, bool, int]:
    assert position is not None
    return position.clock_ms, position.has_ticks, position.is_whole, position.end


def test_who_has_set_the_clock_and_when(producer: Producer, reader: TopicReader, partition: str) -> None:
    producer.produce(partition, value=encode_tick(1_000))
    producer.produce(partition, value=encode_tick(2_000), headers={WRITER_HEADER: "responder-0-a"})
    producer.produce(partition, key="group", value=b"{}")
    producer.flush()
    moved = find_clock_position(reader, partition, 0, 3_000)
    assert moved is not None
    time.sleep(0.01)
    for clock_ms in (2_000, 1_500):  # which move nothing
        producer.produce(partition, value=encode_tick(clock_ms))
    producer.flush()
    position = find_clock_position(reader, partition, 0, 3_000)
    assert position is not None
    assert position.last_tick == moved.last_tick
    assert position.last_tick is not None
    assert (position.last_tick.clock_ms, position.last_tick.writer) == (2_000, "responder-0-a")
    assert position.last_tick.is_at_rest


@pytest.mark.parametrize(
    ("event_ms", "at_rest"), [(None, True), (0, True), (50_000, False), (100_000, False), (100_500, False)]
)
def test_a_log_is_at_rest_when_nobody_has_written_for_a_minute(event_ms: int | None, at_rest: bool) -> None:
    assert was_at_rest(event_ms, 100_000) == at_rest


def test_groups_that_were_heard_within_the_window(producer: Producer, reader: TopicReader, partition: str) -> None:
    seconds = 4 * TAIL_RECORDS // 10
    for second in range(seconds):
        producer.produce(partition, value=encode_tick(1_000 * (second + 1)))
        producer.produce(partition, key=f"group-{second}", value=b"{}")
        for _ in range(8):
            producer.produce(partition, key=f"group-{seconds}", value=b"{}")
    producer.produce(partition, key=b"\xff", value=b"no request")
    producer.produce(partition, value=b"no tick")
    producer.flush()
    groups = RecentGroups(partition, 0, 10_000, 3_000)
    recent = {f"group-{seconds}".encode(), *(f"group-{second}".encode() for second in range(seconds - 11, seconds))}
    groups_read = set(groups.read(reader, 1_000 * seconds))
    assert recent <= groups_read
    assert len(groups_read - recent) <= 1, "before the first tick that is read it is not known how late it was"
    producer.produce(partition, value=encode_tick(1_000 * (seconds + 5)))
    producer.produce(partition, key="new", value=b"{}")
    producer.flush()
    past = {f"group-{second}".encode() for second in range(seconds - 11, seconds - 6)}
    assert set(groups.read(reader, 1_000 * (seconds + 5))) - groups_read == {b"new"}
    assert not past & set(groups.read(reader, 1_000 * (seconds + 5)))
    assert groups.read(reader, 10**12) == []
    everybody = RecentGroups(partition, 0, None, 3_000)
    assert len(everybody.read(reader, 1_000 * seconds)) == seconds + 2, "a key that names no group has no sessions"
    assert RecentGroups(partition, 0, 10**12, 3_000).read(reader, 1_000 * seconds, lambda: False) == [], (
        "it is no more wanted"
    )


def test_a_tick_that_went_back_hides_no_group(producer: Producer, reader: TopicReader, partition: str) -> None:
    """Strangers can write such ticks; they change nothing."""
    records = 6 * TAIL_RECORDS
    for number in range(records):
        if number % 100 == 0:
            producer.produce(partition, value=encode_tick(1_000_000 + number))
        if number % 2_500 == 1:
            producer.produce(partition, value=encode_tick(1))
        producer.produce(partition, key=f"group-{number}", value=b"{}")
        producer.poll(0)
    producer.flush()
    groups = set(RecentGroups(partition, 0, records // 2, 3_000).read(reader, 1_000_000 + records))
    assert {f"group-{number}".encode() for number in range(records // 2 + 100, records)} <= groups


@pytest.mark.parametrize(("longest", "is_kept"), [(20, True), (32_000, False)])
def test_very_many_ids_are_not_kept_from_one_pause_to_the_next(longest: int, is_kept: bool) -> None:
    log = FakeLog([b"%d" % number + b"g" * longest for number in range(1_000)])
    groups = RecentGroups("events", 0, None, 3_000)
    assert len(groups.read(cast(TopicReader, log), 1)) == 1_000
    groups.rest()
    assert len(groups.read(cast(TopicReader, log), 1)) == 1_000
    assert log.starts == [0, 1_000 if is_kept else 0]


class FakeLog:
    """A reader of a partition with these keys; `starts`: where it was read from."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys
        self.starts: list[int] = []

    def bounds(self, topic: str, partition: int) -> Bounds:
        return Bounds(0, len(self._keys))

    def read(self, places: dict[tuple[str, int], Bounds]) -> list[Any]:
        (bounds,) = places.values()
        self.starts.append(bounds.begin)
        return [FakeMessage(key) for key in self._keys[bounds.begin : bounds.end]]


class FakeMessage(NamedTuple):
    raw_key: bytes

    def key(self) -> bytes:
        return self.raw_key

    def value(self) -> bytes:
        return b"{}"
