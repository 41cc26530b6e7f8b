"""How long an answer takes: from the producer's call to the record in a consumer's hand, against Spark's plain copy.

    python -m benchmarks.latency [--rates 2 50 1000] [--seconds 12] [--rounds 2] [--compiling 20]
        [--spark NAME=VALUE ...] [--shuffle-partitions 1] [--json FILE] [--write]

Heartbeats of stable groups, evenly spread over time, go through the running app (ticker, checkpoint, everything) and
through queries that only copy, in one Spark session and on one broker: one with Spark's own settings, and a tuned one,
which writes the files of its checkpoint and reads the end of a log as the app does. *With responder* is the app with a
responder ahead of it, *two hops* a plain loop between two topics, without Spark. First all run for a while
unmeasured, since an app that has just begun is slow, and so is a copy; then they take turns. Percentiles of
milliseconds, and ratios to the copies.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic
from msgspec import Struct
from pyspark.sql import SparkSession

from benchmarks import baselines, two_hops
from benchmarks.arguments import command_parser, write_figures
from benchmarks.document import Printed
from benchmarks.heartbeat_groups import beginnings, config, heartbeat
from group_coordinator.coordinating.commands.own_responders import TRIGGER_INTERVAL_MS
from group_coordinator.coordinating.responder.processes import ResponderProcesses
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.application import Application
from streaming.config import StreamingConfig
from streaming.session import open_session
from streaming.topics import ensure_topics

GROUPS = 50
WARM_UP_S = 3.0
"""Of each measurement."""
COMPILING_RATE = 100
TIMEOUT_S = 120.0


class Figure(Struct, frozen=True):
    """Milliseconds from request to answer."""

    query: str
    rate: int
    """Requests each second."""
    answers: int
    p50_ms: float
    p99_ms: float
    max_ms: float

    def ratios_to(self, base: Figure) -> tuple[float, float]:
        """Return the ratios of the median and of the p99."""
        return self.p50_ms / base.p50_ms, self.p99_ms / base.p99_ms


def measure(
    settings: StreamingConfig, events: str, answers: str, id_of: Callable[[Any], bytes], rate: int, seconds: float
) -> list[float]:
    """Milliseconds of each request, in order; the first ones, `WARM_UP_S` long, are left out."""
    consumer = Consumer({**settings.client_properties, "group.id": "benchmark", "fetch.wait.max.ms": 5})
    _, end = consumer.get_watermark_offsets(TopicPartition(answers, 0), timeout=TIMEOUT_S)
    consumer.assign([TopicPartition(answers, 0, end)])
    consumer.poll(0.5)
    producer = Producer({**settings.client_properties, "linger.ms": 0})
    total = int(rate * (WARM_UP_S + seconds))
    sent_s: dict[bytes, float] = {}
    took_ms: dict[bytes, float] = {}

    def send() -> None:
        began = time.perf_counter()
        for number in range(total):
            pause = began + number / rate - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            request_id = f"{rate}-{number:08d}"
            key, value = heartbeat(number % GROUPS, request_id)
            sent_s[request_id.encode()] = time.perf_counter()
            producer.produce(events, key=key, value=value, partition=0)
            producer.poll(0)
        producer.flush()

    sender = threading.Thread(target=send)
    sender.start()
    deadline = time.monotonic() + WARM_UP_S + seconds + TIMEOUT_S
    while len(took_ms) < total and time.monotonic() < deadline:
        message = consumer.poll(0.05)  # not `consume`, which gives nothing before its time is over
        now = time.perf_counter()
        request_id = id_of(message) if message is not None else b""
        if request_id in sent_s and request_id not in took_ms:
            took_ms[request_id] = (now - sent_s[request_id]) * 1_000
    sender.join()
    consumer.close()
    if len(took_ms) < total:
        raise RuntimeError(f"{total - len(took_ms)} of {total} requests were not answered")
    return [took_ms[request_id] for request_id in list(sent_s)[int(rate * WARM_UP_S) :]]


def figure(query: str, rate: int, times_ms: list[float]) -> Figure:
    ordered = sorted(times_ms)
    return Figure(query, rate, len(ordered), ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100], ordered[-1])


@contextmanager
def coordinating(settings: StreamingConfig, spark: SparkSession) -> Iterator[Application]:
    """The app at work in a thread."""
    stop, started = threading.Event(), threading.Event()
    app = Application(settings, spark=spark, on_progress=lambda _: started.set())
    thread = threading.Thread(target=app.run, args=(stop,))
    thread.start()
    try:
        if not started.wait(TIMEOUT_S):
            raise RuntimeError("the app has not begun")
        yield app
    finally:
        stop.set()
        thread.join()


@contextmanager
def responding(settings: StreamingConfig, app: Application) -> Iterator[None]:
    """A responder ahead of the app."""
    responders = ResponderProcesses(settings, {}, app.read_state)
    responders.start()
    try:
        deadline_s = time.monotonic() + TIMEOUT_S
        while responders.statuses[0] is None:
            if time.monotonic() > deadline_s:
                raise RuntimeError("the responder has not begun")
            time.sleep(0.1)
        yield
    finally:
        responders.stop()


@contextmanager
def copying(
    settings: StreamingConfig, spark: SparkSession, source: str, target: str, checkpoint: Path, *, tuned: bool
) -> Iterator[None]:
    query = (
        baselines.copy(spark, settings, source, target, tuned=tuned, begin="latest")
        .writeStream.format("kafka")
        .options(**settings.sink_options, checkpointLocation=str(checkpoint))
        .start()
    )
    try:
        while not query.recentProgress:
            time.sleep(0.2)
        yield
    finally:
        query.stop()


def copied_request_id(message: Any) -> bytes:
    return str(json.loads(message.value())["request_id"]).encode()


def _prepare(settings: StreamingConfig) -> None:
    """Create all topics, and let the groups begin."""
    admin = new_admin_client(settings.client_properties)
    ensure_topics(admin, settings.topic_settings)
    for future in admin.create_topics([NewTopic("copy.in", 1, 1), NewTopic("copy.out", 1, 1)]).values():
        future.result()
    producer = Producer(settings.client_properties)
    for key, value in beginnings(GROUPS):
        producer.produce(settings.topics.events, key=key, value=value, partition=0)
    producer.flush()


def figures(
    spark: SparkSession,
    settings: StreamingConfig,
    directory: Path,
    *,
    rates: list[int],
    seconds: float,
    rounds: int,
    compiling_s: float,
) -> Iterator[list[Figure]]:
    """Measure all queries at each rate."""
    topics = settings.topics
    _prepare(settings)
    number = 0

    def of_copy(rate: int, seconds: float, *, tuned: bool = False) -> list[float]:
        nonlocal number
        number += 1
        with copying(settings, spark, "copy.in", "copy.out", directory / f"copy-{number}", tuned=tuned):
            return measure(settings, "copy.in", "copy.out", copied_request_id, rate, seconds)

    def of_coordinator(rate: int, seconds: float) -> list[float]:
        with coordinating(settings, spark):
            return measure(settings, topics.events, topics.responses, lambda message: message.key(), rate, seconds)

    def of_responder(rate: int, seconds: float) -> list[float]:
        rarer = settings.changed(trigger_interval_ms=TRIGGER_INTERVAL_MS)
        with coordinating(rarer, spark) as app, responding(rarer, app):
            return measure(settings, topics.events, topics.responses, lambda message: message.key(), rate, seconds)

    def of_two_hops(rate: int, seconds: float) -> list[float]:
        with two_hops.relaying(settings.bootstrap_servers, "copy.in", "copy.out"):
            return measure(settings, "copy.in", "copy.out", copied_request_id, rate, seconds)

    queries: dict[str, Callable[[int, float], list[float]]] = {
        baselines.COPY: of_copy,
        baselines.TUNED_COPY: partial(of_copy, tuned=True),
        "coordinator": of_coordinator,
        "with responder": of_responder,
        "two hops": of_two_hops,
    }
    for run in queries.values():
        run(COMPILING_RATE, compiling_s)
    for rate in rates:
        times: dict[str, list[float]] = {name: [] for name in queries}
        for _ in range(rounds):
            for name, run in queries.items():
                times[name] += run(rate, seconds)
        yield [figure(name, rate, latencies_ms) for name, latencies_ms in times.items()]


def show(say: Printed, rows: list[Figure]) -> None:
    """All queries at one rate."""
    base = next(row for row in rows if row.query == baselines.COPY)
    for row in rows:
        p50, p99 = row.ratios_to(base)
        say(
            f"{row.query:26} {row.rate:10,} {row.p50_ms:6.1f} {row.p99_ms:6.1f} {row.max_ms:7.0f} {p50:8.2f} {p99:6.2f}"
        )


def main() -> None:
    parser = command_parser("latency", __doc__)
    parser.add_argument("--rates", type=int, nargs="+", default=[2, 50, 1_000], help="requests each second")
    parser.add_argument("--seconds", type=float, default=12.0, help="how long each is measured in a round")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--compiling", type=float, default=20.0, help="seconds that each runs unmeasured before")
    parser.add_argument("--spark", nargs="*", default=[], metavar="NAME=VALUE", help="settings of Spark to try")
    parser.add_argument("--shuffle-partitions", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--write", action="store_true", help="write the section of docs/performance.md")
    arguments = parser.parse_args()
    say, all_figures = Printed(), list[Figure]()
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as scratch:
        settings = config(
            bootstrap_servers=kafka.bootstrap_servers,
            responses_partitions=1,
            responders=True,
            shuffle_partitions=arguments.shuffle_partitions,
            checkpoint=f"{scratch}/checkpoint",
            spark=dict(option.split("=", 1) for option in arguments.spark),
        )
        spark = open_session(settings)
        try:
            say(f"{'':51} {'copy = 1':>14}")
            say(f"{'query':26} {'requests/s':>10} {'p50':>6} {'p99':>6} {'max ms':>7} {'p50':>7} {'p99':>6}")
            found_figures = figures(
                spark,
                settings,
                Path(scratch),
                rates=arguments.rates,
                seconds=arguments.seconds,
                rounds=arguments.rounds,
                compiling_s=arguments.compiling,
            )
            for of_rate in found_figures:
                all_figures += of_rate
                show(say, of_rate)
        finally:
            spark.stop()
    if arguments.json:
        write_figures(arguments.json, all_figures)
    if arguments.write:
        say.write_section("latency")


if __name__ == "__main__":
    main()
