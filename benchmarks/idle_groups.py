"""What idle groups cost: the time of a batch that touches 100 groups, with few and with many groups in state.

    python -m benchmarks.idle_groups [--groups 100 100000] [--touched 100] [--batches 55] [--rounds 2]
        [--buckets 0 1024 8192] [--write]
    python -m benchmarks.idle_groups --groups 100 1000000 --buckets 16384 --batches 30 --rounds 1

The real query, Kafka to Kafka, in the app's session. Every group has a commit of one partition. The numbers of groups
take turns: in each round every one of them gets the same batches, after a start on its checkpoint with nothing in
memory. Ratios are to the first number of groups. The batches are enough for a snapshot of the whole state in each
round, which is uploaded while they run (Spark does so once a minute; here every `MAINTENANCE`): what that costs is in
the worst batch, and so is what else happened on the machine. The start: from the query's start to the end of its first
batch, the median of the rounds. Bytes of state are those of the two blobs of a group, as the core encodes them.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from msgspec import Struct
from pyspark.sql import SparkSession

from benchmarks.arguments import command_parser
from benchmarks.batches import KEEP_REPORTS, Report, start
from benchmarks.document import Printed
from benchmarks.heartbeat_groups import beginnings, config
from benchmarks.process_times import cpu_times
from coordinator_state import GroupConfig, GroupCoordinator, RequestEvent, encode_group
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import decode_request_event, encode_request_event, encode_tick
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from streaming.config import StreamingConfig
from streaming.job import coordinate_stream, producer_records
from streaming.session import SMALL_BATCHES, open_session, prepare_session
from streaming.source import events_stream
from streaming.topics import ensure_topics
from streaming.tuning.hadoop import tune_hadoop

START_MS = 1_700_000_000_000
TICK_MS = 500
MAINTENANCE = "5s"


class Figure(Struct, frozen=True):
    """The figures of one number of groups."""

    fill_s: float
    batch_ms: float
    """The median."""
    cpu_ms: float
    """Of the JVM and of Python, by batch: it hardly depends on who else uses the machine."""
    worst_ms: float
    start_ms: float
    checkpoint_bytes: int
    """Of the state, compressed, as it lies on the disk at the end."""


class IdleGroups:
    """Groups in state: their topics and the checkpoint of their query."""

    def __init__(self, spark: SparkSession, settings: StreamingConfig, groups: int, checkpoint: Path) -> None:
        self._spark, self._settings, self._checkpoint = spark, settings, checkpoint
        self._report = ensure_topics(new_admin_client(settings.client_properties), settings.topic_settings)
        self._producer = Producer(
            {**settings.client_properties, "linger.ms": 20, "log_level": 0, "queue.buffering.max.messages": 1_000_000}
        )
        self._batches = 0
        self._times_ms: list[float] = []
        self._cpu_ms: list[float] = []
        self._starts_ms: list[float] = []
        self._append(range(groups))
        (filled,), _, _ = self._run(groups + 1)
        self._fill_s = filled["durationMs"]["triggerExecution"] / 1_000

    def turn(self, touched: int, batches: int) -> None:
        """A start from the checkpoint, and batches that touch some of the groups."""
        for _ in range(batches + 1):
            self._append(range(touched))
        _forget_state(self._spark)
        (_, *reports), start_ms, cpu_ms = self._run(touched + 1)
        assert len(reports) == batches
        self._cpu_ms.append(cpu_ms / batches)
        self._times_ms += [report["durationMs"]["triggerExecution"] for report in reports]
        self._starts_ms.append(start_ms)

    def figure(self) -> Figure:
        files = (file for file in (self._checkpoint / "state").rglob("*") if file.is_file())
        return Figure(
            self._fill_s,
            statistics.median(self._times_ms),
            statistics.median(self._cpu_ms),
            max(self._times_ms),
            statistics.median(self._starts_ms),
            sum(file.stat().st_size for file in files),
        )

    def _append(self, numbers: Iterable[int]) -> None:
        """A batch: time goes on, and each of the groups commits."""
        events = self._report.topics.events
        self._batches += 1
        self._producer.produce(events, value=encode_tick(START_MS + self._batches * TICK_MS), partition=0)
        for number in numbers:
            group_id = f"group-{number}"
            self._producer.produce(events, key=group_id, value=commit(group_id, self._batches), partition=0)
            if number % 100_000 == 0:
                self._producer.flush()  # its queue holds a million
        self._producer.flush()

    def _run(self, size: int) -> tuple[list[Report], float, float]:
        """Take what there is, so many events a batch.

        The reports of batches with events, the time until the first had ended, and the CPU time of the others.
        """
        settings = self._settings
        ahead_ms = settings.group.tick_ahead_bound_ms
        events = events_stream(
            self._spark, self._report.topics.events, 0, settings.source_options, size, tick_ahead_max_ms=ahead_ms
        )
        outputs = coordinate_stream(events, self._settings.operator_config(self._report.partitions, 0))
        began = time.perf_counter()
        query = start(producer_records(outputs), self._settings.sink_options, str(self._checkpoint))
        while query.isActive and not query.recentProgress:
            time.sleep(0.01)
        first_ms = (time.perf_counter() - began) * 1_000
        jvm = self._spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
        before = cpu_times(jvm)
        query.awaitTermination()
        used = cpu_times(jvm).since(before)
        reports = [dict(progress) for progress in query.recentProgress if progress["numInputRows"]]
        return reports, first_ms, used.own_ms + used.descendants_ms


def commit(group_id: str, number: int, partitions: int = 1) -> bytes:
    """Return a commit of a group, as an event."""
    topic = OffsetCommitRequestTopic(
        name="orders",
        partitions=tuple(
            OffsetCommitRequestPartition(partition_index=partition, committed_offset=number)
            for partition in range(partitions)
        ),
    )
    return encode_request_event(
        "OffsetCommit",
        9,
        OffsetCommitRequest(group_id=group_id, topics=(topic,)),
        request_id=f"{group_id}-{number}",
        reply_partition=0,
        client_id="benchmark",
    )


def _forget_state(spark: SparkSession) -> None:
    """Unload every state store of this process, so that the next query reads its own from the checkpoint."""
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


def state_bytes(values: list[bytes]) -> int:
    """Return the size of a group's state after these events."""
    coordinator = GroupCoordinator(
        "group-000000", GroupConfig(group_initial_rebalance_delay_ms=0), partition=0, group=None
    )
    for offset, value in enumerate(values):
        coordinator.handle(RequestEvent(offset, START_MS, START_MS, *decode_request_event("group-000000", value)))
    group = coordinator.group
    assert group is not None
    return sum(map(len, encode_group(group)))


def show(say: Printed, buckets: int, groups: int, figure: Figure, first: Figure) -> None:
    def with_ratio(of: Callable[[Figure], float]) -> str:
        return f"{of(figure):9,.0f} {of(figure) / of(first):6.2f}"

    times = " ".join(
        map(
            with_ratio,
            (
                lambda figure: figure.batch_ms,
                lambda figure: figure.cpu_ms,
                lambda figure: figure.worst_ms,
                lambda figure: figure.start_ms,
            ),
        )
    )
    say(f"{buckets:8,} {groups:16,} {times} {figure.checkpoint_bytes / 1e6:11.1f} {figure.fill_s:12.1f}")


def say_state_sizes(say: Printed) -> None:
    small_bytes, large_bytes = (
        state_bytes([commit("group-000000", 1_000_000, partitions)]) for partitions in (1, 101)
    )
    with_member = state_bytes([value for _, value in beginnings(1)])
    further_bytes = (large_bytes - small_bytes) / 100
    say(
        f"state of a group: {small_bytes} bytes with a committed partition, {further_bytes:.0f} more for each further "
        f"one; {with_member} with a member"
    )


def main() -> None:
    parser = command_parser("idle_groups", __doc__)
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 100_000], help="groups in state")
    parser.add_argument("--touched", type=int, default=100, help="groups that each batch touches")
    parser.add_argument("--batches", type=int, default=55, help="of each number of groups in a round")
    parser.add_argument("--rounds", type=int, default=2, help="that are measured; before them there is one more")
    parser.add_argument(
        "--buckets", type=int, nargs="+", default=[0, 1_024, 8_192], help="bucket counts to try; 0: a group is a key"
    )
    parser.add_argument("--write", action="store_true", help="write the section of docs/performance.md")
    arguments = parser.parse_args()
    say = Printed()
    say_state_sizes(say)
    options = {**KEEP_REPORTS, "spark.sql.streaming.stateStore.maintenanceInterval": MAINTENANCE}
    with EmbeddedKafka() as kafka, tempfile.TemporaryDirectory() as scratch:

        def fill_groups(name: str, groups: int, buckets: int) -> IdleGroups:
            settings = config(
                bootstrap_servers=kafka.bootstrap_servers,
                topic_prefix=name,
                responses_partitions=1,
                group_buckets=buckets,
                spark=options,
            )
            prepare_session(spark, settings, SMALL_BATCHES)
            return IdleGroups(spark, settings, groups, Path(scratch) / name)

        spark = open_session(config(spark=options))
        try:
            tune_hadoop(spark)
            times = " ".join(f"{name:>9} {'ratio':>6}" for name in ("median ms", "CPU ms", "worst ms", "start ms"))
            fill_groups("compiled", arguments.touched, 0).turn(arguments.touched, arguments.batches)
            say(f"{'buckets':>8} {'groups in state':>16} {times} {'on disk MB':>11} {'filled in s':>12}")
            for buckets in arguments.buckets:
                all_held = {
                    groups: fill_groups(f"groups-{groups}-{buckets}", groups, buckets) for groups in arguments.groups
                }
                for _ in range(arguments.rounds):
                    for memory in all_held.values():
                        memory.turn(arguments.touched, arguments.batches)
                figures = {groups: memory.figure() for groups, memory in all_held.items()}
                first = figures[arguments.groups[0]]
                for groups, figure in figures.items():
                    show(say, buckets, groups, figure, first)
        finally:
            spark.stop()
    if arguments.write:
        say.write_section("idle_groups")


if __name__ == "__main__":
    main()
