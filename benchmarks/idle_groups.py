"""What idle groups cost: the time of a batch that touches 100 groups, with few and with many groups in state.

    python -m benchmarks.idle_groups [--groups 100 10000] [--touched 100] [--batches 8] [--buckets 0 4096]

The real streaming query (RocksDB state, event-time timeouts) over a log laid out as files, written to a noop sink, so that
neither Kafka nor a sink blurs the figure. Ratios to the first number of groups, taken in one run.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from schemas.events import encode_request_event, encode_tick
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from schemas.records_file import Record
from streaming.config import StreamingConfig
from streaming.event_log_pieces import write_pieces
from streaming.job import coordinate_stream
from streaming.rows import RECORD_SCHEMA
from streaming.session import open_session
from streaming.source import with_clock

START_MS = 1_700_000_000_000
TICK_MS = 500


def _commit(group_id: str, number: int) -> bytes:
    topic = OffsetCommitRequestTopic(
        name="orders", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=number),)
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
                Record(
                    partition=0,
                    offset=offset,
                    timestamp_ms=clock_ms,
                    key=group_id.encode(),
                    value=_commit(group_id, batch),
                )
            )
        offset += 1
        yield records


def batch_times_ms(spark: SparkSession, groups: int, touched: int, batches: int, buckets: int) -> tuple[list[int], int]:
    """Milliseconds of each batch after the one that makes the groups, and the bytes of the checkpoint's state."""
    config = StreamingConfig.load({"group_buckets": buckets})
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        write_pieces(pieces(groups, touched, batches), directory / "events")
        stream = spark.readStream.schema(RECORD_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory / "events"))
        events = with_clock(stream.select("key", "offset", "value", "timestamp_ms"))
        query = (
            coordinate_stream(events, config.operator_config())
            .writeStream.format("noop")
            .option("checkpointLocation", str(directory / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        progress = [each for each in query.recentProgress if each["numInputRows"]]
        state_bytes = sum(file.stat().st_size for file in (directory / "checkpoint" / "state").rglob("*") if file.is_file())
        return [int(each["durationMs"]["triggerExecution"]) for each in progress[1:]], state_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, nargs="+", default=[100, 10_000], help="groups in state")
    parser.add_argument("--touched", type=int, default=100, help="groups that each batch touches")
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--buckets", type=int, nargs="+", default=[0, 4_096], help="bucket counts to try; 0: a group is a key")
    arguments = parser.parse_args()
    spark = open_session(StreamingConfig.load({}))
    try:
        batch_times_ms(spark, arguments.touched, arguments.touched, 3, 0)  # Warm up.
        print(f"{'buckets':>8} {'groups in state':>16} {'touched':>8} {'batch ms (median)':>18} {'ratio':>6} {'state MB':>9}")
        for buckets in arguments.buckets:
            first = 0.0
            for groups in arguments.groups:
                times, state_bytes = batch_times_ms(spark, groups, arguments.touched, arguments.batches, buckets)
                median = statistics.median(times)
                first = first or median
                print(
                    f"{buckets:8,} {groups:16,} {arguments.touched:8} {median:18,.0f} {median / first:6.2f} {state_bytes / 1e6:9.1f}",
                    flush=True,
                )
    finally:
        spark.stop()


if __name__ == "__main__":
    main()
