"""Run a recorded log of events through the same core again: the same log and settings give the same bytes.

Two ways, one result: `replay_batch` (Spark, each group's life in one piece, parallel over groups) and
`replay_in_process` (no Spark, for small logs).

A log is ordered by partition and offset, and ends with the last tick of each partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyspark.sql import DataFrame

from schemas.output_records import OutputRecord
from schemas.records_file import Record
from schemas.ticks import NO_CLOCK
from streaming.config import StreamingConfig
from streaming.job import coordinate_batch
from streaming.log_rules import RulesScan
from streaming.operator import coordinate_rows
from streaming.rows import EventRow


def replay_batch(records: DataFrame, config: StreamingConfig, *, until_ms: int = NO_CLOCK) -> DataFrame:
    """Coordinate rows of `RECORD_SCHEMA`, lazily; return rows of `OUTPUT_SCHEMA`. `until_ms` moves the end of the log
    on."""
    return coordinate_batch(records, config.operator_config(), until_ms)


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
