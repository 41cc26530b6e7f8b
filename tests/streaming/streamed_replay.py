"""A log goes through the streaming query in batches, which is held against the two ways of `streaming.replay`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from coordinator_state import RuleChange
from schemas.events import encode_tick
from schemas.ticks import NO_CLOCK
from streaming.config import StreamingConfig
from streaming.event_log import RECORD_ARROW
from streaming.job import coordinate_stream
from streaming.log_rules import RulesScan
from streaming.rows import RECORD_SCHEMA
from streaming.source import with_clock


def lay_out(
    records: DataFrame, directory: Path, events_per_file: int, until_ms: int, ahead_max_ms: int
) -> dict[int, tuple[RuleChange, ...]]:
    """Write the log as files of at most so many events in the order of offsets, a directory for each partition; return
    the changes of the rules by partition. `ahead_max_ms`: see `read_tick`."""
    partitions: dict[int, tuple[PartitionFiles, RulesScan]] = {}
    for row in records.sort("partition", "offset").toLocalIterator(prefetchPartitions=True):
        if row.partition not in partitions:
            files = PartitionFiles(directory / str(row.partition), events_per_file)
            partitions[row.partition] = files, RulesScan(ahead_max_ms)
        files, scan = partitions[row.partition]
        if row.key is None:
            scan.take(row.offset, row.value, row.timestamp_ms)
        files.add(row.asDict())
    for partition, (files, _) in partitions.items():
        if until_ms > NO_CLOCK:
            files.add_tick(partition, until_ms)
        files.write()
    return {partition: scan.changes for partition, (_, scan) in sorted(partitions.items())}


class PartitionFiles:
    """The files of one partition.

    Spark's file source takes them by age, so each is made a second older than the next.
    """

    def __init__(self, directory: Path, events_per_file: int) -> None:
        directory.mkdir(parents=True)
        self._directory, self._events_per_file = directory, events_per_file
        self._rows: list[dict[str, Any]] = []
        self._written = 0
        self._last_offset = -1

    def add(self, row: dict[str, Any]) -> None:
        self._rows.append(row)
        self._last_offset = row["offset"]
        if len(self._rows) == self._events_per_file:
            self.write()

    def add_tick(self, partition: int, clock_ms: int) -> None:
        tick = {"offset": self._last_offset + 1, "key": None, "value": encode_tick(clock_ms)}
        self.add({"partition": partition, "timestamp_ms": clock_ms, **tick})

    def write(self) -> None:
        if not self._rows:
            return
        file = self._directory / f"{self._written:09}.parquet"
        hidden = file.with_name(f".{file.name}")
        pq.write_table(pa.Table.from_pylist(self._rows, RECORD_ARROW), hidden)
        os.utime(hidden, (self._written + 1, self._written + 1))
        hidden.rename(file)
        self._rows.clear()
        self._written += 1


def replay_streaming(
    records: DataFrame, config: StreamingConfig, directory: Path, *, until_ms: int = NO_CLOCK
) -> DataFrame:
    """Replay through the streaming query, one for each partition of the log, with `availableNow`.

    The log is laid into `directory` in pieces, one piece a batch; checkpoints and outputs lie there too. It must be
    empty. Raises StreamingQueryException when a query fails.
    """
    spark = records.sparkSession
    ahead_max_ms = config.group.tick_ahead_bound_ms
    partitions = lay_out(records, directory / "events", config.max_events_per_batch, until_ms, ahead_max_ms)
    for partition, changes in partitions.items():
        stream = spark.readStream.schema(RECORD_SCHEMA).option("maxFilesPerTrigger", 1)
        events = stream.parquet(str(directory / "events" / str(partition))).select(
            "key", "offset", "value", "timestamp_ms"
        )
        outputs = coordinate_stream(
            with_clock(events, ahead_max_ms, known_changes=[change.offset for change in changes]),
            config.operator_config(partition=partition, rule_changes=changes),
        )
        query = (
            outputs.writeStream.format("parquet")
            .queryName(f"replay-{partition}")
            .option("checkpointLocation", str(directory / "checkpoint" / str(partition)))
            .trigger(availableNow=True)
            .start(str(directory / "outputs" / str(partition)))
        )
        query.awaitTermination()
    return spark.read.parquet(*(str(directory / "outputs" / str(partition)) for partition in partitions))
