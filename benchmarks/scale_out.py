"""What more executors and more shards bring: events/s of the whole query, Kafka to Kafka, for the same events.

    python -m benchmarks.scale_out [--shards 1 2 4] [--executors 1 2] [--touched 1000] [--heartbeats 10] [--batches 3]
        [--rounds 2]

Shards are partitions of the events topic with a query each, in one app (`local[*]`); the groups are divided among them.
Executors have one core each, of a standalone cluster on this machine, for one shard with two shuffle partitions. Rates
count from the first whole batch of heartbeats to the end of the last query; ratios are to the first line of each part.
The JVM and the brokers run on the same cores: on two of them both parts show what it costs to divide the work, and
little of what it brings. Before anything is measured the JVM does the same work once; the numbers of shards then take
turns.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark.sql import SparkSession

from benchmarks.arguments import command_parser
from benchmarks.heartbeat_groups import config
from benchmarks.query import fill
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.config import StreamingConfig
from streaming.job import coordinate_stream, start_query
from streaming.session import SMALL_BATCHES, open_session, prepare_session
from streaming.source import events_stream
from streaming.topics import ensure_topics
from streaming.tuning.hadoop import tune_hadoop
from tests.coordinating.operations.standalone_cluster import Cluster

ROOT = Path(__file__).parents[1]


class Rate(Struct, frozen=True):
    """The rate of all queries together."""

    events: int
    seconds: float

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds


def together(rates: Sequence[Rate]) -> Rate:
    """One after the other."""
    return Rate(sum(part.events for part in rates), sum(part.seconds for part in rates))


def rate(spark: SparkSession, settings: StreamingConfig, touched: int, heartbeats: int, batches: int) -> Rate:
    """Fill the topic, run a query for each shard to its end, and look at their reports."""
    report = ensure_topics(new_admin_client(settings.client_properties), settings.topic_settings)
    sizes = [
        fill(settings, touched // settings.shards, heartbeats, batches, partition=shard)
        for shard in range(settings.shards)
    ]
    prepare_session(spark, settings, SMALL_BATCHES)
    with tempfile.TemporaryDirectory() as scratch:
        queries = [
            start_query(
                coordinate_stream(
                    events_stream(
                        spark,
                        report.topics.events,
                        shard,
                        settings.source_options,
                        sizes[shard][0],
                        tick_ahead_max_ms=settings.group.tick_ahead_bound_ms,
                    ),
                    settings.operator_config(report.partitions, shard),
                ),
                f"{settings.topic_prefix}-{shard}",
                f"{scratch}/{shard}",
                settings.sink_options,
                available_now=True,
            )
            for shard in range(settings.shards)
        ]
        for query in queries:
            query.awaitTermination()
        spans = [
            _span([dict(progress) for progress in query.recentProgress], size, before)
            for query, (size, before) in zip(queries, sizes, strict=True)
        ]
    events, begins, ends = zip(*spans, strict=True)
    return Rate(sum(events), max(ends) - min(begins))


def _span(reports: list[dict[str, Any]], size: int, before: int) -> tuple[int, float, float]:
    """Events of the measured batches, when the first began and the last ended, in seconds."""
    measured = [report for report in reports if report["numInputRows"] == size][before:]
    times = [
        (_seconds(progress["timestamp"]), progress["durationMs"]["triggerExecution"] / 1_000) for progress in measured
    ]
    return size * len(measured), times[0][0], times[-1][0] + times[-1][1]


def _seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).timestamp()


@contextmanager
def session(settings: StreamingConfig) -> Iterator[SparkSession]:
    spark = open_session(settings)
    tune_hadoop(spark)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def cluster(executors: int) -> Iterator[dict[str, Any]]:
    """Settings for a cluster of so many executors, on which our packages are installed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "192m"}
    with (
        tempfile.TemporaryDirectory() as scratch,
        Cluster(Path(scratch), environment).running(workers=executors) as running,
    ):
        spark = {
            "spark.driver.host": "127.0.0.1",
            "spark.executor.cores": "1",
            "spark.executor.memory": "640m",
            "spark.python.daemon.module": "streaming.tuning.worker_daemon",
        }
        yield {"master": running.url, "spark": spark}


def show(label: str, measured: Rate, base: Rate) -> None:
    print(
        f"{label:24} {measured.events:8,} {measured.seconds:8.1f} {measured.events_per_second:10,.0f} "
        f"{measured.events_per_second / base.events_per_second:7.2f}"
    )


def main() -> None:
    parser = command_parser("scale_out", __doc__)
    parser.add_argument("--shards", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--executors", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--touched", type=int, default=1_000, help="groups that a batch of all shards touches")
    parser.add_argument("--heartbeats", type=int, default=10, help="heartbeats of each of them")
    parser.add_argument("--batches", type=int, default=3, help="that are measured in a round")
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    work = (arguments.touched, arguments.heartbeats, arguments.batches)
    print(f"{'':24} {'events':>8} {'seconds':>8} {'events/s':>10} {'ratio':>7}   {os.cpu_count()} cores")
    with EmbeddedKafka() as kafka:

        def settings(name: str, **own: Any) -> StreamingConfig:
            return config(bootstrap_servers=kafka.bootstrap_servers, responses_partitions=1, topic_prefix=name, **own)

        def compare(labels_and_rates: Iterator[tuple[str, Rate]]) -> None:
            base: Rate | None = None
            for label, measured in labels_and_rates:
                base = base or measured
                show(label, measured, base)

        def of_shards() -> Iterator[tuple[str, Rate]]:
            with session(settings("local")) as spark:
                rounds = []
                for number in range(arguments.rounds + 1):
                    rounds.append(
                        [
                            rate(spark, settings(f"shards-{shards}-{number}", shards=shards), *work)
                            for shards in arguments.shards
                        ]
                    )
                for shards, rates in zip(arguments.shards, zip(*rounds[1:], strict=True), strict=True):
                    yield f"{shards} shard{'s' * (shards > 1)}", together(rates)

        def of_executors() -> Iterator[tuple[str, Rate]]:
            for executors in arguments.executors:
                with cluster(executors) as own, session(settings("cluster", **own)) as spark:
                    rounds = [
                        rate(spark, settings(f"executors-{executors}-{number}", shuffle_partitions=2), *work)
                        for number in range(arguments.rounds + 1)
                    ]
                    yield f"{executors} executor{'s' * (executors > 1)} of one core", together(rounds[1:])

        compare(of_shards())
        compare(of_executors())


if __name__ == "__main__":
    main()
