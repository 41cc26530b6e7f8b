"""The ticker: its arithmetic, how it finds where the log stands, and a broker that goes away."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from hypothesis import given
from hypothesis import strategies as st

from schemas.events import decode_tick, encode_tick
from streaming.clock import TickClock, Ticker, find_clock_ms, next_clock_ms
from streaming.embedded_kafka import EmbeddedKafka
from tests.coordinator_state.harness import GroupHarness

INTERVAL_MS = 500
times = st.integers(1_000, 10**13)


@given(times, st.integers(-10_000, 10**9), times)
def test_a_step_is_never_back_and_never_longer_than_a_tenth_above_an_interval(clock_ms: int, elapsed_ms: int, wall_ms: int) -> None:
    step_ms = next_clock_ms(clock_ms, elapsed_ms, wall_ms, INTERVAL_MS) - clock_ms
    assert 0 <= step_ms <= 1.1 * min(max(elapsed_ms, 0), INTERVAL_MS)


@given(times, st.integers(0, INTERVAL_MS))
def test_a_clock_on_time_is_wall_time(clock_ms: int, elapsed_ms: int) -> None:
    assert next_clock_ms(clock_ms, elapsed_ms, clock_ms + elapsed_ms, INTERVAL_MS) == clock_ms + elapsed_ms


@given(times, st.integers(-600_000, 600_000))
def test_it_approaches_wall_time_from_both_sides_at_a_tenth_of_real_speed(wall_ms: int, ahead_ms: int) -> None:
    clock_ms, real_ms = wall_ms + ahead_ms, 0
    while clock_ms != wall_ms + real_ms:
        clock_ms = next_clock_ms(clock_ms, INTERVAL_MS, wall_ms + real_ms + INTERVAL_MS, INTERVAL_MS)
        real_ms += INTERVAL_MS
        assert real_ms <= abs(ahead_ms) * 10 + 2 * INTERVAL_MS


def clock(start_ms: int = 100_000, lead_ms: int = 3_000) -> TickClock:
    return TickClock(start_ms, 0, interval_ms=INTERVAL_MS, lead_ms=lead_ms)


def test_a_pause_is_not_jumped_over() -> None:
    ticker = clock()
    assert ticker.next_tick_ms(wall_ms=9_000_000, monotonic_ms=8_900_000) == 100_550


@pytest.mark.parametrize("silent_ms", [0, 2_000, 9_000])
def test_after_a_pause_a_member_has_the_rest_of_its_session(silent_ms: int) -> None:
    """No more, and no less in real time than a tenth: it is the clock that goes on, whatever the length of the pause."""
    session_ms, pause_ms, real_ms = 10_000, 3_600_000, silent_ms
    group = GroupHarness(now_ms=100_000)
    group.stable("m")
    group.heartbeat("m", 1)
    ticker = TickClock(100_000 + silent_ms, silent_ms, interval_ms=INTERVAL_MS, lead_ms=3_000)
    while group.state == "Stable":
        real_ms += INTERVAL_MS
        tick_ms = ticker.next_tick_ms(100_000 + pause_ms + real_ms, pause_ms + real_ms)
        assert tick_ms is not None
        ticker.acknowledge(tick_ms, real_ms, pause_ms + real_ms)
        ticker.handled(real_ms + 1, tick_ms)
        group.sleep(tick_ms - group.now_ms)
    left_ms = session_ms - silent_ms
    assert left_ms / 1.1 <= real_ms - silent_ms <= left_ms / 1.1 + 2 * INTERVAL_MS


def test_a_tick_counts_only_when_it_is_acknowledged() -> None:
    ticker = clock()
    for attempt in (500, 2_500, 60_000):
        assert ticker.next_tick_ms(100_000 + attempt, attempt) in (100_500, 100_550)
    ticker.acknowledge(100_550, 7, 60_100)
    assert ticker.clock_ms == 100_550
    assert ticker.next_tick_ms(160_600, 60_600) == 101_100


def test_the_clock_waits_for_a_query_that_does_not_answer() -> None:
    ticker, real_ms = clock(lead_ms=1_000), 0
    for offset in range(10):
        real_ms += INTERVAL_MS
        tick_ms = ticker.next_tick_ms(100_000 + real_ms, real_ms)
        if tick_ms is not None:
            ticker.acknowledge(tick_ms, offset, real_ms)
    assert ticker.clock_ms == 101_000
    assert ticker.next_tick_ms(100_000 + real_ms, real_ms) is None
    ticker.handled(1, 0)  # the tick at offset 0 is handled, that at 1 is not
    assert ticker.next_tick_ms(100_000 + real_ms, real_ms) == 101_500


def test_it_goes_on_from_a_tick_that_somebody_else_wrote() -> None:
    ticker = clock()
    ticker.handled(5, 500_000)
    tick_ms = ticker.next_tick_ms(100_500, 500)
    assert tick_ms == 500_450  # ahead of wall time: nine tenths of real speed until that has caught up


@pytest.fixture
def partition(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> str:
    admin.create_topics([NewTopic(topic_prefix, 1)])[topic_prefix].result()
    return topic_prefix


def consumer(kafka: EmbeddedKafka) -> Consumer:
    return Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "test", "enable.partition.eof": True})


def test_the_clock_of_a_log_is_its_last_tick(kafka: EmbeddedKafka, partition: str) -> None:
    producer, reader = Producer({"bootstrap.servers": kafka.bootstrap_servers}), consumer(kafka)
    assert find_clock_ms(reader, partition, 0) is None
    before_ms = time.time_ns() // 1_000_000
    for _ in range(7_000):
        producer.produce(partition, key="group", value=encode_tick(10**12))
    producer.flush()
    found_ms = find_clock_ms(reader, partition, 0)
    assert found_ms is not None
    assert before_ms - 1_000 <= found_ms <= time.time_ns() // 1_000_000
    producer.produce(partition, value=encode_tick(7_000))
    producer.produce(partition, value=encode_tick(5_000))
    for _ in range(7_000):
        producer.produce(partition, key="group", value=b"{}")
    producer.flush()
    assert find_clock_ms(reader, partition, 0) == 7_000
    reader.close()


def read_ticks(bootstrap_servers: str, topic: str) -> list[int]:
    """The ticks that lie in the log at this moment."""
    reader = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "test"})
    _, high = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30.0)
    reader.assign([TopicPartition(topic, 0, 0)])
    messages = [reader.poll(30.0) for _ in range(high)]
    reader.close()
    return [decode_tick(message.value() or b"").clock_ms for message in messages if message is not None]


@pytest.mark.kafka
def test_an_outage_of_the_broker_is_survived_and_not_jumped_over(kafka_jars: object) -> None:
    with EmbeddedKafka() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("events", 1)])["events"].result()
        properties = {"bootstrap.servers": broker.bootstrap_servers, "log_level": "0"}
        ticker = Ticker("events", 0, properties, interval_ms=100, lead_ms=10**9)
        ticker.start()
        wait_until(lambda: len(read_ticks(broker.bootstrap_servers, "events")) >= 3)
        broker.kill()
        time.sleep(6)
        broker.start()
        before = ticker.clock_ms or 0
        wait_until(lambda: (ticker.clock_ms or 0) >= before + 1_000)
        ticker.stop()
        ticks = read_ticks(broker.bootstrap_servers, "events")
    assert ticks == sorted(set(ticks))
    assert max(b - a for a, b in pairwise(ticks)) <= 220  # one unacknowledged tick may lie between
    assert time.time_ns() // 1_000_000 - ticks[-1] >= 4_000


def wait_until(condition: object, timeout_s: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
