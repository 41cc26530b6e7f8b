"""What a small batch costs, by settings: CPU of the JVM and of Python, whole triggers and their phases.

    python -m benchmarks.batch_cost [--variants NAME ...] [--touched 20] [--rounds 2] [--batches 55]
        [--java-options OPTIONS] [--each]

The same log for all: batches of five heartbeats of each of 20 groups and a tick, Kafka to Kafka, in one Spark session.
The variants take turns, backwards and forwards, so that the JVM's compiler and other users of the machine touch all
alike. CPU is the figure to look at: of the JVM, and of Python together with the `chmod` that Hadoop starts for each
file of a *copy* with Spark's own files. A snapshot of all of the state every 50 batches, as the app has it, falls once
into the default's 55, one every 10 five times, one every 100 never. `--each` prints every round, for long runs: what
the JVM's compiler brings in time.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pandas as pd
from confluent_kafka.admin import NewTopic
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from benchmarks import baselines, with_state
from benchmarks.arguments import command_parser
from benchmarks.batches import KEEP_REPORTS, PHASES, median_ms, start_live, whole_batches
from benchmarks.heartbeat_groups import config
from benchmarks.process_times import CpuTimes, cpu_times
from benchmarks.query import fill
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from streaming.config import StreamingConfig
from streaming.job import coordinate_stream, producer_records, requests_of
from streaming.operator import streaming_operator
from streaming.rows import OUTPUT_SCHEMA, STATE_SCHEMA
from streaming.session import SMALL_BATCHES, TICKS_GO_ON, open_session, prepare_session
from streaming.source import events_stream
from streaming.topics import TopicReport, ensure_topics
from streaming.tuning.hadoop import tune_hadoop

BEATS = 5
POLL_S = 0.02
_STATE = "org.apache.spark.sql.execution.streaming.state"


class Log(Struct, frozen=True):
    """All variants read and write these topics."""

    spark: SparkSession
    settings: StreamingConfig
    report: TopicReport
    size: int
    """Events of a batch."""
    before: int
    """Batches before the measured ones."""

    def events(self) -> DataFrame:
        settings = self.settings
        ahead_ms = settings.group.tick_ahead_bound_ms
        return events_stream(
            self.spark, self.report.topics.events, 0, settings.source_options, self.size, tick_ahead_max_ms=ahead_ms
        )


class Variant(Struct, frozen=True):
    """A query, and settings of Spark's session that differ from ours."""

    build: Callable[[Log], DataFrame]
    settings: dict[str, str] = {}


class Cost(Struct, frozen=True):
    """The cost of a batch, in milliseconds."""

    jvm_ms: float
    python_ms: float
    trigger_ms: float
    phases_ms: dict[str, float]


def coordinator(log: Log) -> DataFrame:
    return producer_records(coordinate_stream(log.events(), log.settings.operator_config(log.report.partitions, 0)))


def frames(log: Log) -> DataFrame:
    """The same operator, called as Spark's own worker calls functions."""
    operate = streaming_operator(log.settings.operator_config(log.report.partitions, 0))

    def of_frames(key: Any, rows: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        yield from operate(key, rows, state)

    grouped = requests_of(log.events()).groupBy("key")
    return producer_records(
        grouped.applyInPandasWithState(
            of_frames, OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
        )
    )


def copy(log: Log, *, tuned: bool = False) -> DataFrame:
    return baselines.copy(log.spark, log.settings, log.report.topics.events, "copied", tuned=tuned, at_once=log.size)


_SPARKS_WAY = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
_SNAPSHOT_EVERY = "spark.sql.streaming.stateStore.minDeltasForSnapshot"
_TWO = {"spark.sql.shuffle.partitions": "2"}
VARIANTS = {
    baselines.COPY: Variant(copy),
    baselines.TUNED_COPY: Variant(partial(copy, tuned=True)),
    "coordinator": Variant(coordinator),
    "with two shuffle partitions": Variant(coordinator, _TWO),
    "with generated code": Variant(coordinator, _SPARKS_WAY),
    "with both, and pandas frames": Variant(frames, _TWO | _SPARKS_WAY),
    "state in HDFSBackedStateStoreProvider": Variant(
        coordinator, {"spark.sql.streaming.stateStore.providerClass": f"{_STATE}.HDFSBackedStateStoreProvider"}
    ),
    "a snapshot every 10 batches": Variant(coordinator, {_SNAPSHOT_EVERY: "10"}),
    "a snapshot every 100 batches": Variant(coordinator, {_SNAPSHOT_EVERY: "100"}),
    "identity": Variant(lambda log: producer_records(baselines.identity(log.events(), "copied"))),
    "identity, state worker": Variant(lambda log: producer_records(baselines.patched_identity(log.events(), "copied"))),
    "identity, transformWithState": Variant(
        lambda log: producer_records(with_state.identity_of_rows(log.events(), "copied"))
    ),
    "identity, transformWithStateInPandas": Variant(
        lambda log: producer_records(with_state.identity_of_frames(log.events(), "copied"))
    ),
}


def measure(log: Log, variant: Variant, jvm: int) -> Cost:
    """Run a query over the log, from nothing to its end."""
    prepare_session(log.spark, log.settings, {**SMALL_BATCHES, **TICKS_GO_ON, **variant.settings})
    with tempfile.TemporaryDirectory() as checkpoint:
        query = start_live(variant.build(log), log.settings.sink_options, checkpoint)
        first, begin = _after(query, log.before, jvm)
        query.processAllAvailable()
        cpu_used = cpu_times(jvm).since(begin)
        query.stop()
        reports = [batch for batch in whole_batches(query, log.size) if batch["batchId"] > first]
    return Cost(
        jvm_ms=cpu_used.own_ms / len(reports),
        python_ms=cpu_used.descendants_ms / len(reports),
        trigger_ms=median_ms(reports),
        phases_ms={phase: median_ms(reports, phase) for phase in PHASES},
    )


def _after(query: StreamingQuery, batches: int, jvm: int) -> tuple[int, CpuTimes]:
    """The batch that has just ended, some after `batches`, and the CPU time used by then."""
    while True:
        last = query.lastProgress
        if last is not None and last["batchId"] > batches:
            return int(last["batchId"]), cpu_times(jvm)
        if not query.isActive:
            raise RuntimeError(f"the query ended after too few batches: {query.exception()}")
        time.sleep(POLL_S)


def median_of(costs: list[Cost]) -> Cost:
    def median(of: Callable[[Cost], float]) -> float:
        return statistics.median(map(of, costs))

    return Cost(
        jvm_ms=median(lambda cost: cost.jvm_ms),
        python_ms=median(lambda cost: cost.python_ms),
        trigger_ms=median(lambda cost: cost.trigger_ms),
        phases_ms={
            phase: median(lambda cost, phase=phase: cost.phases_ms[phase])  # type: ignore[misc]
            for phase in PHASES
        },
    )


def show(name: str, cost: Cost) -> None:
    phases = ", ".join(f"{phase} {ms:,.0f}" for phase, ms in cost.phases_ms.items() if ms >= 0.5)
    print(f"{name:38} {cost.jvm_ms:8.0f} {cost.python_ms:11.0f} {cost.trigger_ms:10.0f}   {phases}")


def main() -> None:
    parser = command_parser("batch_cost", __doc__)
    parser.add_argument(
        "--variants",
        nargs="+",
        choices=VARIANTS,
        default=list(VARIANTS),
        metavar="NAME",
        help=f"of {', '.join(VARIANTS)}",
    )
    parser.add_argument("--touched", type=int, default=20, help="groups that a batch touches")
    parser.add_argument(
        "--rounds", type=int, default=2, help="how often each is run, after a first time that is left out"
    )
    parser.add_argument("--batches", type=int, default=55)
    parser.add_argument("--java-options", default="", help="of the driver's JVM")
    parser.add_argument("--each", action="store_true", help="print every round")
    arguments = parser.parse_args()
    with EmbeddedKafka() as kafka:
        options = dict(KEEP_REPORTS)
        if arguments.java_options:
            options["spark.driver.extraJavaOptions"] = arguments.java_options
        settings = config(bootstrap_servers=kafka.bootstrap_servers, responses_partitions=1, spark=options)
        admin = new_admin_client({"bootstrap.servers": kafka.bootstrap_servers})
        report = ensure_topics(admin, settings.topic_settings)
        admin.create_topics([NewTopic("copied", 1, 1)])["copied"].result()
        size, before = fill(settings, arguments.touched, BEATS, arguments.batches)
        spark = open_session(settings)
        tune_hadoop(spark)
        try:
            log = Log(spark, settings, report, size, before)
            jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
            print(f"{'by batch, ms':38} {'JVM, CPU':>8} {'Python, CPU':>11} {'trigger':>10}   phases of the trigger")
            rounds = []
            for number in range(arguments.rounds + 1):
                order = arguments.variants[:: -1 if number % 2 else 1]
                costs = {name: measure(log, VARIANTS[name], jvm) for name in order}
                rounds.append(costs)
                for name, cost in costs.items() if arguments.each else ():
                    show(f"{name}, round {number}", cost)
            for name in arguments.variants:
                show(name, median_of([costs[name] for costs in rounds[1:]]))
        finally:
            spark.stop()


if __name__ == "__main__":
    main()
