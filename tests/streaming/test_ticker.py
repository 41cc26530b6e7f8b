"""The thread that writes the ticks: it goes on where the log stands, and survives a broker that goes away."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from schemas.events import SESSION_RENEWAL, decode_tick, encode_tick
from streaming.embedded_kafka import EmbeddedKafka
from streaming.ticker import Ticker


def read_log(bootstrap_servers: str, topic: str) -> list[Message]:
    """What lies in the log at this moment."""
    reader = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "test"})
    _, high = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30.0)
    reader.assign([TopicPartition(topic, 0, 0)])
    messages = [reader.poll(30.0) for _ in range(high)]
    reader.close()
    return [message for message in messages if message is not None]


def read_ticks(bootstrap_servers: str, topic: str) -> list[int]:
    return [decode_tick(each.value() or b"").clock_ms for each in read_log(bootstrap_servers, topic) if each.key() is None]


def ticker_of(bootstrap_servers: str, topic: str, session_max_ms: int = 5_000) -> Ticker:
    properties = {"bootstrap.servers": bootstrap_servers, "log_level": "0"}
    return Ticker(topic, 0, properties, interval_ms=100, lead_ms=10**9, pause_ms=1_000, session_max_ms=session_max_ms, ahead_max_ms=3_000)


def test_a_ticker_that_comes_back_renews_the_sessions_of_groups_that_were_heard_lately(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    admin.create_topics([NewTopic(topic_prefix, 1)])[topic_prefix].result()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for clock_ms, key in ((1_000, "long ago"), (20_000, "lately"), (25_000, "just now"), (25_000, "lately")):
        producer.produce(topic_prefix, value=encode_tick(clock_ms))
        producer.produce(topic_prefix, key=key, value=b"{}")
    producer.flush()
    ticker = ticker_of(kafka.bootstrap_servers, topic_prefix)
    ticker.start()
    wait_until(lambda: ticker.clock_ms)
    time.sleep(0.3)
    assert ticker.clock_ms == 25_000, "the query must show first where it is"
    ticker.handled(25_000)
    wait_until(lambda: (ticker.clock_ms or 0) > 25_200)
    ticker.stop()
    written = read_log(kafka.bootstrap_servers, topic_prefix)[8:]
    renewals, ticks = written[:2], written[2:]
    assert {(each.key(), each.value()) for each in renewals} == {(b"lately", SESSION_RENEWAL), (b"just now", SESSION_RENEWAL)}
    assert all(each.key() is None for each in ticks), "sessions are renewed once"
    clocks = [decode_tick(each.value() or b"").clock_ms for each in ticks]
    assert clocks[0] == 25_000
    assert 25_000 < next(clock_ms for clock_ms in clocks if clock_ms != 25_000) <= 25_110


@pytest.mark.kafka
def test_a_ticker_that_cannot_go_on_says_so(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> None:
    admin.create_topics([NewTopic(topic_prefix, 1)])[topic_prefix].result()
    ticker = Ticker(
        topic_prefix, 0, {"bootstrap.servers": kafka.bootstrap_servers}, interval_ms=100, lead_ms=10**9, pause_ms=1_000,
        session_max_ms=5_000, ahead_max_ms=3_000, on_tick=lambda: 1 / 0,
    )  # fmt: skip
    ticker.start()

    def is_dead() -> bool:
        try:
            ticker.require_alive()
        except ZeroDivisionError:
            return True
        return False

    wait_until(is_dead)
    ticker.stop()


@pytest.mark.kafka
def test_an_outage_of_the_broker_is_survived_and_not_jumped_over(kafka_jars: object) -> None:
    with EmbeddedKafka() as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic("events", 1)])["events"].result()
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        ticker = ticker_of(broker.bootstrap_servers, "events")
        ticker.start()
        wait_until(lambda: read_ticks(broker.bootstrap_servers, "events"))
        producer.produce("events", key="group", value=b"{}")
        producer.flush()
        wait_until(lambda: len(read_ticks(broker.bootstrap_servers, "events")) >= 3)
        broker.kill()
        time.sleep(6)
        broker.start()
        before = ticker.clock_ms or 0
        wait_until(lambda: (ticker.clock_ms or 0) >= before + 1_000)
        ticker.stop()
        log = read_log(broker.bootstrap_servers, "events")
        ticks = read_ticks(broker.bootstrap_servers, "events")
    assert ticks == sorted(set(ticks))
    assert max(b - a for a, b in pairwise(ticks)) <= 220  # one unacknowledged tick may lie between
    assert time.time_ns() // 1_000_000 - ticks[-1] >= 4_000
    renewed = [each.offset() or 0 for each in log if each.value() == SESSION_RENEWAL]
    assert renewed, "the outage was a pause"
    before_ms, after_ms = log[renewed[0] - 1].timestamp()[1], log[renewed[0]].timestamp()[1]
    assert after_ms - before_ms >= 900, "sessions begin anew when the log is back, not before"


def wait_until(condition: object, timeout_s: float = 60.0) -> None:
    assert callable(condition)
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.1)
