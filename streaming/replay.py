"""Run a recorded log of events through the same core again: the same log and settings give the same bytes.

Two ways, one result: `replay_batch` (Spark, each group's life in one piece, parallel over groups) and
`replay_in_process` (no Spark, for small logs). `replay_streaming` goes through the streaming query, batch after batch:
tests hold the query against the other two with it, and the classes are archived that it loads.

A log is ordered by partition and offset, and ends with the last tick of each partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from coordinator_state import RuleChange
from schemas.events import encode_tick
from schemas.output_records import OutputRecord
from schemas.records_file import Record
from schemas.ticks import NO_CLOCK
from streaming.config import StreamingConfig
from streaming.event_log import RECORD_ARROW
from streaming.job import coordinate_batch, coordinate_stream
from streaming.log_rules import RulesScan
from streaming.operator import coordinate_rows
from streaming.rows import RECORD_SCHEMA, EventRow
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


def replay_batch(records: DataFrame, config: StreamingConfig, *, until_ms: int = NO_CLOCK) -> DataFrame:
    """Coordinate rows of `RECORD_SCHEMA`, lazily; return rows of `OUTPUT_SCHEMA`. `until_ms` moves the end of the log
    on."""
    return coordinate_batch(records, config.operator_config(), until_ms)


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


def replay_in_process(
    records: Iterable[Record], config: StreamingConfig, *, until_ms: int = NO_CLOCK
) -> Iterator[tuple[bytes | None, list[OutputRecord]]]:
    """Replay without Spark: yields (group key, its outputs), by group key and partition. All of the log is held in
    memory."""
    rows, scans = _rows_by_group(records, config.group.tick_ahead_bound_ms)
    for partition, key in sorted(rows, key=lambda group: (group[1] is not None, group[1] or b"", group[0])):
        own = config.operator_config(partition=partition, rule_changes=scans[partition].changes)
        end_ms = max(scans[partition].clock_ms, until_ms)
        yield key, coordinate_rows(key, rows[partition, key], own, group=None, clock_ms=end_ms).records


def _rows_by_group(
    records: Iterable[Record], ahead_max_ms: int
) -> tuple[dict[tuple[int, bytes | None], list[EventRow]], dict[int, RulesScan]]:
    """The requests of each (partition, key) with their clocks, and the ticks and rules of each partition."""
    rows: dict[tuple[int, bytes | None], list[EventRow]] = {}
    scans: dict[int, RulesScan] = {}
    for record in sorted(records, key=lambda record: (record.partition or 0, record.offset or 0)):
        partition, offset = record.partition or 0, record.offset or 0
        if (scan := scans.get(partition)) is None:
            scan = scans[partition] = RulesScan(ahead_max_ms)
        if record.key is None and scan.take(offset, record.value, record.timestamp_ms):
            continue  # what is neither is a dead letter
        row = EventRow(offset, scan.clock_ms, record.timestamp_ms or 0, record.value)
        rows.setdefault((partition, record.key), []).append(row)
    return rows, scans
