"""The thread that writes the ticks: it goes on where the log stands, and survives a broker that goes away."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import RENEWAL_AT_PRESENT, SESSION_RENEWAL, decode_tick, encode_tick
from streaming.clock import REST_STEP_INTERVALS
from streaming.ticker import Ticker
from streaming.topics import TopicError
from tests.waiting import wait_until


def make_log(admin: AdminClient, topic: str, timestamp_type: str = "LogAppendTime") -> None:
    admin.create_topics([NewTopic(topic, 1, config={"message.timestamp.type": timestamp_type})])[topic].result()


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def read_log(bootstrap_servers: str, topic: str) -> list[Message]:
    """What lies in the log at this moment."""
    reader = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "test"})
    _, high = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=30.0)
    reader.assign([TopicPartition(topic, 0, 0)])
    messages = [reader.poll(30.0) for _ in range(high)]
    reader.close()
    return [message for message in messages if message is not None]


def read_ticks(bootstrap_servers: str, topic: str) -> list[int]:
    return [
        decode_tick(message.value() or b"").clock_ms
        for message in read_log(bootstrap_servers, topic)
        if message.key() is None
    ]


class Wall:
    """A wall clock that can be wrong, and knows how often it was read."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self._reads = 0

    def __call__(self) -> int:
        self._reads += 1
        return now_ms() + self.ahead_ms

    def wait_for_rounds(self, rounds: int) -> None:
        """Until a ticker has thought so often about its next tick: it reads the clock once or twice each time."""
        enough = self._reads + 2 * rounds
        wait_until(lambda: self._reads >= enough)


def ticker_of(
    bootstrap_servers: str, topic: str, session_max_ms: int = 5_000, wall: Callable[[], int] = now_ms
) -> Ticker:
    properties = {"bootstrap.servers": bootstrap_servers, "log_level": "0"}
    return Ticker(
        topic, 0, properties, interval_ms=100, lead_ms=10**9, pause_ms=1_000, session_max_ms=session_max_ms,
        ahead_max_ms=3_000, wall_ms=wall,
    )  # fmt: skip


def test_a_ticker_that_comes_back_renews_the_sessions_of_groups_that_were_heard_lately(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    make_log(admin, topic_prefix)
    stands_ms = now_ms() - 60_000
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for before_ms, key in ((24_000, "long ago"), (5_000, "lately"), (0, "just now"), (0, "lately")):
        producer.produce(topic_prefix, value=encode_tick(stands_ms - before_ms))
        producer.produce(topic_prefix, key=key, value=b"{}")
    producer.produce(topic_prefix, value=encode_tick(now_ms() + 86_400_000))  # a stranger's, which counts for nothing
    producer.flush()
    wall = Wall()
    ticker = ticker_of(kafka.bootstrap_servers, topic_prefix, wall=wall)
    ticker.start()
    wait_until(lambda: ticker.clock_ms)
    wall.wait_for_rounds(3)
    assert ticker.clock_ms == stands_ms, "the query must show first where it is"
    ticker.handled(stands_ms)
    wait_until(lambda: (ticker.clock_ms or 0) > stands_ms + 200)
    ticker.stop()
    first_tick, *written = read_log(kafka.bootstrap_servers, topic_prefix)[9:]
    assert (first_tick.key(), first_tick.value()) == (None, encode_tick(stands_ms)), "which moves nothing"
    renewals, ticks = written[:2], written[2:]
    assert {(renewal.key(), renewal.value()) for renewal in renewals} == {
        (b"lately", SESSION_RENEWAL),
        (b"just now", SESSION_RENEWAL),
    }
    assert all(tick.key() is None for tick in ticks), "sessions are renewed once"
    clocks = [decode_tick(tick.value() or b"").clock_ms for tick in ticks]
    assert stands_ms < next(clock_ms for clock_ms in clocks if clock_ms != stands_ms) <= stands_ms + 110
    assert ticker.status.foreign_ticks == 0


@pytest.mark.parametrize("first_tick", [encode_tick(1), None], ids=["a tick of 1970", "no tick"])
def test_a_clock_of_long_ago_goes_on_at_the_present_and_all_groups_with_it(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, first_tick: bytes | None
) -> None:
    make_log(admin, topic_prefix)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    if first_tick is not None:
        producer.produce(topic_prefix, value=first_tick)
    for key in ("one", "other", "one"):
        producer.produce(topic_prefix, key=key, value=b"{}")
    producer.flush()
    ticker = ticker_of(kafka.bootstrap_servers, topic_prefix)
    ticker.start()

    def renewals_and_after() -> tuple[list[Message], list[Message]]:
        log = read_log(kafka.bootstrap_servers, topic_prefix)
        last = max(
            (number for number, message in enumerate(log) if message.value() == RENEWAL_AT_PRESENT), default=len(log)
        )
        return [message for message in log if message.value() == RENEWAL_AT_PRESENT], log[last + 1 :]

    wait_until(lambda: renewals_and_after()[1])
    ticker.stop()
    renewals, (after, *_) = renewals_and_after()
    assert {renewal.key() for renewal in renewals} == {b"one", b"other"}
    assert after.key() is None
    assert decode_tick(after.value() or b"").clock_ms == min(renewal.timestamp()[1] for renewal in renewals)


def test_the_clock_of_a_log_at_rest_stands_and_catches_up_until_somebody_comes(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streaming.clock.REST_AFTER_MS", 1_000)
    make_log(admin, topic_prefix)
    ticker = ticker_of(kafka.bootstrap_servers, topic_prefix)
    ticker.start()

    def steps_ms() -> list[int]:
        clocks = [
            decode_tick(message.value() or b"").clock_ms
            for message in read_log(kafka.bootstrap_servers, topic_prefix)
            if message.key() is None
        ]
        return [after - before for before, after in pairwise(clocks)]

    def rests() -> bool:
        return len(steps_ms()) > 5 and min(steps_ms()[-3:]) > 1.1 * 100

    wait_until(rests)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce(topic_prefix, key="g", value=b"{}")
    producer.flush()
    wait_until(lambda: read_log(kafka.bootstrap_servers, topic_prefix)[-1].key() is None)
    ticker.stop()
    log = read_log(kafka.bootstrap_servers, topic_prefix)
    request_number = next(number for number, record in enumerate(log) if record.key() == b"g")
    before, after = (
        decode_tick(log[number].value() or b"").clock_ms for number in (request_number - 1, request_number + 1)
    )
    assert after - before <= 1.1 * 100 * REST_STEP_INTERVALS, "he may come while it catches up"


def test_a_machine_whose_clock_is_wrong_writes_no_ticks_until_it_is_right(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    make_log(admin, topic_prefix)
    wall = Wall()
    ticker = ticker_of(kafka.bootstrap_servers, topic_prefix, wall=wall)
    ticker.start()
    wait_until(lambda: len(read_ticks(kafka.bootstrap_servers, topic_prefix)) >= 3)
    wall.ahead_ms = 3_600_000
    wait_until(lambda: ticker.status.standstill is not None)
    assert "stands still" in caplog.text
    stands_ms = ticker.clock_ms
    assert stands_ms is not None
    wall.wait_for_rounds(5)
    assert ticker.clock_ms == stands_ms
    wall.ahead_ms = 0
    wait_until(lambda: ticker.status.standstill is None and (ticker.clock_ms or 0) > stands_ms)
    ticker.stop()
    assert "goes on again" in caplog.text
    log = [message for message in read_log(kafka.bootstrap_servers, topic_prefix) if message.key() is None]
    assert all(decode_tick(record.value() or b"").clock_ms <= record.timestamp()[1] + 3_000 for record in log)


def test_senders_times_while_it_runs_end_it(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> None:
    make_log(admin, topic_prefix, "CreateTime")
    ticker = ticker_of(kafka.bootstrap_servers, topic_prefix)
    ticker.start()

    def is_refused() -> bool:
        try:
            ticker.require_alive()
        except TopicError as problem:
            return "message.timestamp.type=CreateTime" in str(problem)
        return False

    wait_until(is_refused)
    ticker.stop()


@pytest.mark.kafka
def test_a_ticker_that_cannot_go_on_says_so(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> None:
    make_log(admin, topic_prefix)

    def fail() -> None:
        raise ZeroDivisionError

    ticker = Ticker(
        topic_prefix, 0, {"bootstrap.servers": kafka.bootstrap_servers}, interval_ms=100, lead_ms=10**9, pause_ms=1_000,
        session_max_ms=5_000, ahead_max_ms=3_000, on_tick=fail,
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
        make_log(admin, "events")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        ticker = ticker_of(broker.bootstrap_servers, "events")
        ticker.start()
        wait_until(lambda: read_ticks(broker.bootstrap_servers, "events"))
        producer.produce("events", key="group", value=b"{}")
        producer.flush()
        wait_until(lambda: len(read_ticks(broker.bootstrap_servers, "events")) >= 3)
        broker.kill()
        time.sleep(6)  # longer than a tick waits for the broker (5 s): one is given up
        broker.start()
        before = ticker.clock_ms or 0
        wait_until(lambda: (ticker.clock_ms or 0) >= before + 1_000)
        ticker.stop()
        log = read_log(broker.bootstrap_servers, "events")
        ticks = read_ticks(broker.bootstrap_servers, "events")
    assert ticks == sorted(ticks)  # one whose answer was lost is written again
    assert max(b - a for a, b in pairwise(ticks)) <= 220  # one unacknowledged tick may lie between
    assert time.time_ns() // 1_000_000 - ticks[-1] >= 4_000
    renewed = [message.offset() or 0 for message in log if message.value() == SESSION_RENEWAL]
    assert renewed, "the outage was a pause"
    before_ms, after_ms = log[renewed[0] - 1].timestamp()[1], log[renewed[0]].timestamp()[1]
    assert after_ms - before_ms >= 900, "sessions begin anew when the log is back, not before"
