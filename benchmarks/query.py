"""Sustained throughput of the whole query, Kafka to Kafka, against queries that decide nothing.

    python -m benchmarks.query [--touched 20 1000 10000] [--heartbeats 10] [--batches 4] [--rounds 2]
        [--buckets 1024] [--json FILE] [--write]

Every batch brings `--heartbeats` heartbeats of each of the touched groups. Compared are, on the same topic and in one
Spark session: the coordinator with a group as the key of the state, the coordinator with buckets of groups, the same
topology around a function that passes rows on (called as Spark calls it, with pandas frames; and as it calls ours, see
`streaming.tuning.state_worker`), and Spark's plain copy without Python (`baselines.copy`), as it is and with the files
of its checkpoint written as ours are. They take turns, forwards and backwards, but for the one round with ten thousand
groups. Figures are the medians of whole triggers, and the shares of their phases. All but the copies must write one
record for each request; a copy writes the ticks, too.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from benchmarks import baselines
from benchmarks.arguments import command_parser, write_figures
from benchmarks.batches import PHASES, Report, median_ms, start, whole_batches
from benchmarks.document import Printed
from benchmarks.heartbeat_groups import Event, beginnings, config, heartbeat
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import encode_tick
from streaming.config import StreamingConfig
from streaming.job import coordinate_stream, producer_records
from streaming.session import SMALL_BATCHES, open_session, prepare_session
from streaming.source import events_stream
from streaming.topics import ensure_topics
from streaming.tuning.hadoop import tune_hadoop

START_MS = 1_700_000_000_000


class Figure(Struct, frozen=True):
    """The figures of one query for the same batches."""

    query: str
    touched: int
    events: int
    """Of one batch."""
    batches: int
    """That the medians are of."""
    trigger_ms: float
    phases_ms: dict[str, float]

    @property
    def events_per_second(self) -> float:
        return self.events * 1_000 / self.trigger_ms


def fill(settings: StreamingConfig, touched: int, heartbeats: int, batches: int, partition: int = 0) -> tuple[int, int]:
    """Write the log. Returns the events of a batch and how many batches come before the measured ones."""
    producer = Producer({**settings.client_properties, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000})
    size = touched * heartbeats + 1
    log = _log(touched, heartbeats, batches, size)
    count = 0
    for key, value in log:
        producer.produce(settings.topics.events, key=key, value=value, partition=partition)
        count += 1
        if count % 10_000 == 0:
            producer.poll(0)
    producer.flush()
    return size, count // size - batches


def _log(touched: int, heartbeats: int, batches: int, size: int) -> Iterator[tuple[bytes | None, bytes]]:
    """Whole batches of `size` events, each with one tick; the first ones bring the groups to life."""
    events: list[Event] = list(beginnings(touched))
    while len(events) % (size - 1):
        events.append(heartbeat(len(events) % touched, f"fill-{len(events)}"))
    clock_ms = START_MS
    for first in range(0, len(events), size - 1):
        yield None, encode_tick(clock_ms := clock_ms + 500)
        yield from events[first : first + size - 1]
    for batch in range(batches):
        yield None, encode_tick(clock_ms := clock_ms + 500)
        for round_number in range(heartbeats):
            for number in range(touched):
                yield heartbeat(number, f"{batch:04d}-{round_number:04d}-{number:06d}-0123456789abcdef")


def figures(spark: SparkSession, kafka: EmbeddedKafka, arguments: argparse.Namespace, touched: int) -> Iterator[Figure]:
    settings = config(
        bootstrap_servers=kafka.bootstrap_servers, topic_prefix=f"touched-{touched}", responses_partitions=1
    )
    admin = new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})
    report = ensure_topics(admin, settings.topic_settings)
    copied = f"{settings.topic_prefix}.copied"
    admin.create_topics([NewTopic(copied, 1, 1)])[copied].result()
    # Small batches are soon done; one of ten thousand groups takes Spark's own way half a minute.
    many = touched >= 10_000
    batches = arguments.batches * 5 if touched < 100 else max(1, arguments.batches // 2) if many else arguments.batches
    size, before = fill(settings, touched, max(1, arguments.heartbeats // 2) if many else arguments.heartbeats, batches)
    events_topic = report.topics.events

    def events() -> DataFrame:
        ahead_ms = settings.group.tick_ahead_bound_ms
        return events_stream(spark, events_topic, 0, settings.source_options, size, tick_ahead_max_ms=ahead_ms)

    def coordinator(buckets: int) -> Callable[[], DataFrame]:
        operator_config = settings.changed(group_buckets=buckets).operator_config(report.partitions, 0)
        return lambda: producer_records(coordinate_stream(events(), operator_config))

    queries: dict[str, Callable[[], DataFrame]] = {
        "coordinator": coordinator(0),
        **{f"coordinator, {buckets:,} buckets": coordinator(buckets) for buckets in arguments.buckets},
        "identity": lambda: producer_records(baselines.identity(events(), copied)),
        "identity, state worker": lambda: producer_records(baselines.patched_identity(events(), copied)),
        baselines.COPY: lambda: baselines.copy(spark, settings, events_topic, copied, at_once=size),
        baselines.TUNED_COPY: lambda: baselines.copy(spark, settings, events_topic, copied, tuned=True, at_once=size),
    }
    reports: dict[str, list[Report]] = {name: [] for name in queries}
    for number in range(1 if many else arguments.rounds):
        for name in list(queries)[:: -1 if number % 2 else 1]:
            prepare_session(spark, settings, SMALL_BATCHES)
            with tempfile.TemporaryDirectory() as scratch:
                query = start(queries[name](), settings.sink_options, scratch)
                query.awaitTermination()
            measured = whole_batches(query, size)[before:]
            expected = size if name in (baselines.COPY, baselines.TUNED_COPY) else size - 1
            written = [progress["sink"]["numOutputRows"] for progress in measured]
            if set(written) != {expected}:
                raise RuntimeError(f"{name} wrote {written} records in its batches, not {expected} in each")
            reports[name] += measured
    for name, measured in reports.items():
        phases_ms = {phase: median_ms(measured, phase) for phase in PHASES}
        yield Figure(
            query=name, touched=touched, events=size, batches=len(measured), trigger_ms=median_ms(measured),
            phases_ms=phases_ms,
        )  # fmt: skip


def show(say: Printed, rows: list[Figure]) -> None:
    """Print all queries of one number of touched groups. The phases of a trigger are for the terminal alone."""
    say(f"\n{rows[0].touched:,} groups touched by each of {rows[0].batches} batches")
    say(f"{'query':27} {'trigger ms':>11} {'events/s':>9} {'time, identity = 1':>19} {'copy = 1':>9}")
    baselines_ms = [
        next(row.trigger_ms for row in rows if row.query == name) for name in ("identity", baselines.COPY)
    ]
    for row in rows:
        to_identity, to_copy = (row.trigger_ms / ms for ms in baselines_ms)
        say(
            f"{row.query:27} {row.trigger_ms:11,.0f} {row.events_per_second:9,.0f} "
            f"{to_identity:19.2f} {to_copy:9.2f}"
        )
        shares = {phase: ms / row.trigger_ms for phase, ms in row.phases_ms.items()}
        print("  " + ", ".join(f"{phase} {share:.0%}" for phase, share in shares.items() if share >= 0.005), flush=True)


def main() -> None:
    parser = command_parser("query", __doc__)
    parser.add_argument(
        "--touched", type=int, nargs="+", default=[20, 1_000, 10_000], help="groups that each batch touches"
    )
    parser.add_argument(
        "--heartbeats", type=int, default=10, help="heartbeats of each group in a batch (half of it at 10,000 groups)"
    )
    parser.add_argument(
        "--batches",
        type=int,
        default=4,
        help="that are measured in a round (half of them at 10,000 groups, five times as many below 100)",
    )
    parser.add_argument("--rounds", type=int, default=2, help="of all queries (one at 10,000 groups)")
    parser.add_argument("--buckets", type=int, nargs="*", default=[1_024], help="bucket counts to try")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--write", action="store_true", help="write the section of docs/performance.md")
    arguments = parser.parse_args()
    say, all_figures = Printed(), list[Figure]()
    with EmbeddedKafka() as kafka:
        spark = open_session(config())
        tune_hadoop(spark)
        try:
            # Warm up: code is compiled, workers are there.
            warm = argparse.Namespace(**{**vars(arguments), "heartbeats": 2, "rounds": 1})
            list(figures(spark, kafka, warm, 21))
            for touched in arguments.touched:
                rows = list(figures(spark, kafka, arguments, touched))
                show(say, rows)
                all_figures += rows
        finally:
            spark.stop()
    if arguments.json:
        write_figures(arguments.json, all_figures)
    if arguments.write:
        say.write_section("query")


if __name__ == "__main__":
    main()
