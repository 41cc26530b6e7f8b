"""Batch replay decides each group from the beginning of the log to its end, group after group, without a state store.

A task has a bucket of groups. Its rows are sorted by partition, key and offset: each group's rows follow one another,
and, since null sorts first, a partition's ticks come before its groups. Memory holds one group, a batch of rows and the
ticks, however long the log is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from operator import attrgetter
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from coordinator_state import RuleChange
from schemas.output_records import OutputRecord
from schemas.ticks import NO_CLOCK
from streaming.arrow_columns import objects, runs
from streaming.buckets import bucket_of
from streaming.log_rules import RulesScan
from streaming.operator import OutputChunks, coordinate_group, error_context
from streaming.operator_config import OperatorConfig
from streaming.rows import EventRow, output_batch, record_bytes

ROWS_AT_ONCE = 1_000
"""Rows that are handled before their outputs are looked at."""
OUTPUTS_AT_ONCE = 10_000
OUTPUT_BYTES_AT_ONCE = 32 << 20

Batches = Iterable[pa.RecordBatch]
Outputs = tuple[bytes | None, list[OutputRecord]]
"""The key of a group, and some of its outputs."""


class _GroupRows(NamedTuple):
    """Rows of one group that follow one another, in the order of offsets."""

    owner: tuple[int, bytes | None]
    """Partition and key."""
    rows: list[EventRow]
    end_ms: int
    """The last tick of the partition."""
    rule_changes: tuple[RuleChange, ...]


def in_buckets(records: DataFrame, buckets: int) -> DataFrame:
    """Add a `bucket` to rows of `RECORD_SCHEMA`. The task of a bucket gets its groups and all records without a key."""
    all_buckets = F.sequence(F.lit(0), F.lit(buckets - 1))
    own_bucket = F.array(bucket_of("key", buckets))
    placed = records.fillna(0, ["partition", "offset", "timestamp_ms"]).withColumn(
        "bucket", F.explode(F.when(F.isnull("key"), all_buckets).otherwise(own_bucket))
    )
    return placed.repartitionById(buckets, "bucket").sortWithinPartitions("partition", "key", "offset")


def replay_groups(config: OperatorConfig, until_ms: int) -> Callable[[Batches], Iterator[pa.RecordBatch]]:
    """Return the function for `mapInArrow` over `in_buckets`, which makes rows of `OUTPUT_SCHEMA`.

    A group ends with the last tick of its partition, or with `until_ms` if that is later. `config.partition` gives way
    to the rows' own partition.
    """

    def coordinate(batches: Batches) -> Iterator[pa.RecordBatch]:
        return _in_batches(_outputs(batches, config, until_ms))

    return coordinate


def _outputs(batches: Batches, config: OperatorConfig, until_ms: int) -> Iterator[Outputs]:
    pieces = _rows_by_group(batches, config.group.tick_ahead_bound_ms)
    for (partition, key), own_pieces in groupby(pieces, attrgetter("owner")):
        own = msgspec.structs.replace(config, partition=partition)
        with error_context(key, own):
            for records in _replay_group(key, own_pieces, own, until_ms):
                yield key, records


def _replay_group(key: bytes | None, pieces: Iterator[_GroupRows], config: OperatorConfig, end_ms: int) -> OutputChunks:
    first = next(pieces)  # a partition's ticks come before its groups, so each stretch of a group knows the last one
    rows = chain(first.rows, chain.from_iterable(piece.rows for piece in pieces))
    config = msgspec.structs.replace(config, rule_changes=first.rule_changes)
    return coordinate_group(key, rows, config, group=None, clock_ms=max(end_ms, first.end_ms))


def _rows_by_group(batches: Batches, ahead_max_ms: int) -> Iterator[_GroupRows]:
    clock = _Clock(0, ahead_max_ms)
    for whole in batches:
        for start in range(0, whole.num_rows, ROWS_AT_ONCE):
            batch = whole.slice(start, ROWS_AT_ONCE)
            partitions, offsets, buckets = (batch.column(name).to_numpy() for name in ("partition", "offset", "bucket"))
            timestamps, keys, values = (objects(batch.column(name)) for name in ("timestamp_ms", "key", "value"))
            for begin, end in runs(batch.column("partition"), batch.column("key")):
                partition, key, own = int(partitions[begin]), keys[begin], slice(begin, end)
                if partition != clock.partition:
                    clock = _Clock(partition, ahead_max_ms)
                clocks = [NO_CLOCK] * (end - begin) if key is None else clock.at(offsets[own])
                rows = list(map(EventRow, offsets[own].tolist(), clocks, timestamps[own], values[own]))
                if key is None:
                    unreadable = [row for row in rows if not clock.takes(row)]
                    # Each bucket has them; one tells of them.
                    rows = unreadable if buckets[begin] == 0 else []
                yield _GroupRows((partition, key), rows, clock.end_ms, clock.rule_changes)


class _Clock:
    """The clock knows the ticks of one partition, and the changes of its rules."""

    def __init__(self, partition: int, ahead_max_ms: int) -> None:
        self.partition = partition
        self._scan = RulesScan(ahead_max_ms)
        self._offsets: list[int] = []
        self._clocks: list[int] = [NO_CLOCK]
        """Before the first tick, and after each of them."""
        self._searched: tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None = None

    @property
    def end_ms(self) -> int:
        """The last tick."""
        return self._scan.clock_ms

    @property
    def rule_changes(self) -> tuple[RuleChange, ...]:
        return self._scan.changes

    def takes(self, row: EventRow) -> bool:
        """Take this row if it is a tick or changes the rules. It comes after the others."""
        if not self._scan.take(row.offset, row.value, row.timestamp_ms):
            return False
        self._offsets.append(row.offset)
        self._clocks.append(self.end_ms)
        self._searched = None
        return True

    def at(self, offsets: npt.NDArray[np.int64]) -> list[int]:
        """Return the largest tick before each of these offsets."""
        if self._searched is None:
            self._searched = np.array(self._offsets, np.int64), np.array(self._clocks, np.int64)
        before, clocks = self._searched
        clocks_ms: list[int] = clocks[np.searchsorted(before, offsets)].tolist()
        return clocks_ms


def _in_batches(outputs: Iterable[Outputs]) -> Iterator[pa.RecordBatch]:
    """Outputs as Arrow batches of a bounded size."""
    waiting: list[Outputs] = []
    count = size = 0
    for key, records in outputs:
        waiting.append((key, records))
        count += len(records)
        size += sum(map(record_bytes, records))
        if count >= OUTPUTS_AT_ONCE or size >= OUTPUT_BYTES_AT_ONCE:
            yield output_batch(waiting)
            waiting, count, size = [], 0, 0
    if count:
        yield output_batch(waiting)
