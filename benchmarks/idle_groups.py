"""What idle groups cost: the time of a batch that touches 100 groups, with few and with many groups in state.

    python -m benchmarks.idle_groups [--groups 100 100000] [--touched 100] [--batches 110] [--buckets 0 1024] [--write]

The real streaming query (RocksDB state, event-time timeouts, the app's session) over a log laid out as files, written to a noop
sink, so that neither Kafka nor a sink blurs the figure. Every group has a commit of one partition. Ratios are to the first number
of groups, in the same run. The batches are enough for two snapshots of the whole state, which are uploaded while they run (Spark
does so once a minute; here every `MAINTENANCE`): what that costs is in the worst batch, and so is what else happened on the
machine. The start: from the query's start on its checkpoint, its state no longer in memory, to the end of its first batch. Bytes
of state are those of the two blobs of a group, as the core encodes them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct
from pyspark.sql import SparkSession

from benchmarks.batches import KEEP_REPORTS
from benchmarks.beating_groups import beginnings
from benchmarks.document import Printed, plot_bars
from coordinator_state import GroupConfig, GroupCoordinator, RequestEvent, encode_group
from schemas.events import decode_request_event, encode_request_event, encode_tick
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.event_log_pieces import write_pieces
from streaming.job import coordinate_stream
from streaming.rows import RECORD_SCHEMA
from streaming.session import SMALL_BATCHES, open_session, prepare_session
from streaming.source import with_clock

START_MS = 1_700_000_000_000
TICK_MS = 500
AFTER_RESTART = 2
"""Batches."""
WARM_UP_BATCHES = 30
MAINTENANCE = "5s"


class Figure(Struct, frozen=True):
    """Of one number of groups."""

    fill_s: float
    batch_ms: float
    """The median."""
    worst_ms: float
    start_ms: float
    checkpoint_bytes: int
    """Of the state, compressed, as it lies on the disk after the first batches."""


def _commit(group_id: str, number: int, partitions: int = 1) -> bytes:
    topic = OffsetCommitRequestTopic(
        name="orders",
        partitions=tuple(OffsetCommitRequestPartition(partition_index=each, committed_offset=number) for each in range(partitions)),
    )
    return encode_request_event(
        "OffsetCommit",
        9,
        OffsetCommitRequest(group_id=group_id, topics=(topic,)),
        request_id=f"{group_id}-{number}",
        reply_partition=0,
        client_id="benchmark",
    )


def pieces(groups: int, touched: int, batches: int) -> Iterator[list[Record]]:
    """The log by batch: first all groups come to be, then each batch touches a few of them, and time goes on."""
    offset, clock_ms = 0, START_MS
    for batch in range(batches + 1):
        ids = range(groups) if batch == 0 else range(touched)
        clock_ms += TICK_MS
        tick = Record(partition=0, offset=offset, timestamp_ms=clock_ms, key=None, value=encode_tick(clock_ms))
        records = [tick]
        for number in ids:
            offset += 1
            group_id = f"group-{number}"
            records.append(
                Record(partition=0, offset=offset, timestamp_ms=clock_ms, key=group_id.encode(), value=_commit(group_id, batch))
            )
        offset += 1
        yield records


def figure(spark: SparkSession, groups: int, touched: int, batches: int, buckets: int) -> Figure:
    config = StreamingConfig.load({"group_buckets": buckets})
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        write_pieces(pieces(groups, touched, batches + AFTER_RESTART), directory / "events")
        late = sorted((directory / "events").iterdir())[-AFTER_RESTART:]
        for file in late:
            file.rename(directory / file.name)
        reports, _ = run(spark, config, directory)
        checkpoint_bytes = sum(file.stat().st_size for file in (directory / "checkpoint" / "state").rglob("*") if file.is_file())
        for file in late:
            (directory / file.name).rename(file)
        _forget_state(spark)
        _, start_ms = run(spark, config, directory)
    fill_ms, *times = [each["durationMs"]["triggerExecution"] for each in reports]
    assert len(times) == batches
    return Figure(fill_ms / 1_000, statistics.median(times), max(times), start_ms, checkpoint_bytes)


def run(spark: SparkSession, config: StreamingConfig, directory: Path) -> tuple[list[Any], float]:
    """Take what there is, a file a batch. The reports of batches with events, and the time until the first had ended."""
    stream = spark.readStream.schema(RECORD_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory / "events"))
    events = with_clock(stream.select("key", "offset", "value", "timestamp_ms"))
    writer = coordinate_stream(events, config.operator_config()).writeStream.format("noop").trigger(availableNow=True)
    began = time.perf_counter()
    query = writer.option("checkpointLocation", str(directory / "checkpoint")).start()
    while query.isActive and not query.recentProgress:
        time.sleep(0.01)
    first_ms = (time.perf_counter() - began) * 1_000
    query.awaitTermination()
    return [each for each in query.recentProgress if each["numInputRows"]], first_ms


def _forget_state(spark: SparkSession) -> None:
    """Unload every state store of this process, so that the next query reads its own from the checkpoint."""
    jvm: Any = spark.sparkContext._jvm
    jvm.org.apache.spark.sql.execution.streaming.state.StateStore.stop()


def state_bytes(values: list[bytes]) -> int:
    """Of a group after these events."""
    coordinator = GroupCoordinator("group-000000", GroupConfig(group_initial_rebalance_delay_ms=0), partition=0, group=None)
    for offset, value in enumerate(values):
        coordinator.handle(RequestEvent(offset, START_MS, START_MS, *decode_request_event("group-000000", value, 1)))
    group = coordinator.group
    assert group is not None
    return sum(map(len, encode_group(group)))


def show(say: Printed, buckets: int, groups: int, touched: int, found: Figure, first: Figure) -> None:
    def with_ratio(of: Callable[[Figure], float]) -> str:
        return f"{of(found):9,.0f} {of(found) / of(first):6.2f}"

    times = " ".join(map(with_ratio, (lambda each: each.batch_ms, lambda each: each.worst_ms, lambda each: each.start_ms)))
    say(f"{buckets:8,} {groups:16,} {touched:8} {times} {found.checkpoint_bytes / 1e6:11.1f} {found.fill_s:12.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.idle_groups", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 100_000], help="groups in state")
    parser.add_argument("--touched", type=int, default=100, help="groups that each batch touches")
    parser.add_argument("--batches", type=int, default=110)
    parser.add_argument("--buckets", type=int, nargs="+", default=[0, 1_024], help="bucket counts to try; 0: a group is a key")
    parser.add_argument("--write", action="store_true", help="write the section of docs/performance.md, and its plot")
    arguments = parser.parse_args()
    say = Printed()
    one, many = (state_bytes([_commit("group-000000", 1_000_000, partitions)]) for partitions in (1, 101))
    with_member = state_bytes([value for _, value in beginnings(1)])
    say(f"state of a group: {one} bytes with a committed partition, {(many - one) / 100:.0f} more for each further one; {with_member} with a member")
    settings = StreamingConfig.load({"spark": {**KEEP_REPORTS, "spark.sql.streaming.stateStore.maintenanceInterval": MAINTENANCE}})
    spark = open_session(settings)
    prepare_session(spark, settings, SMALL_BATCHES)
    try:
        figure(spark, arguments.touched, arguments.touched, min(WARM_UP_BATCHES, arguments.batches), 0)
        times = " ".join(f"{name:>9} {'ratio':>6}" for name in ("median ms", "worst ms", "start ms"))
        say(f"{'buckets':>8} {'groups in state':>16} {'touched':>8} {times} {'on disk MB':>11} {'filled in s':>12}")
        rows: list[tuple[str, list[float]]] = []
        for buckets in arguments.buckets:
            first: Figure | None = None
            for groups in arguments.groups:
                found = figure(spark, groups, arguments.touched, arguments.batches, buckets)
                first = first or found
                label = f"{groups:,} groups" + (f", {buckets:,} buckets" if buckets else "")
                rows.append((label, [found.batch_ms / first.batch_ms, found.start_ms / first.start_ms]))
                show(say, buckets, groups, arguments.touched, found, first)
    finally:
        spark.stop()
    if arguments.write:
        say.write_section("idle_groups")
        plot_bars("performance-idle", rows, ["a batch", "a start"], 1.3, f"time, with {arguments.groups[0]:,} groups = 1")


if __name__ == "__main__":
    main()
