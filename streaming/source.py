"""The events of one shard as a DataFrame: a partition of the events topic, its ticks marked, the clock carried.

`events_stream` gives rows of `EVENT_SCHEMA`, ticks included: they are the event time of the query.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from coordinator_state.rule_changes import rules_in
from schemas.events import EventError
from schemas.ticks import NO_CLOCK, read_tick
from streaming.arrow_columns import merged
from streaming.log_rules import UnknownRules
from streaming.parts import PART_BYTES, cutter_of_task
from streaming.rows import EVENT_SCHEMA


def carry_clock(
    batches: Iterable[pa.RecordBatch],
    ahead_max_ms: int,
    part_bytes: int = PART_BYTES,
    known_changes: Collection[int] = (),
) -> Iterator[pa.RecordBatch]:
    """Add `clock_ms`, the largest tick up to each record, `NO_CLOCK` where these batches have none before it; `tick`:
    the clock of a tick as a timestamp, null for every other record; and `part`.

    `ahead_max_ms`: see `read_tick`. `known_changes`: the offsets of the changes of the rules that the operator knows.
    The batches are one events partition, or a stretch of it, in the order of offsets: one Spark task. Raises
    UnknownRules.
    """
    cutter = cutter_of_task(part_bytes)
    last = np.int64(NO_CLOCK)
    for batch in merged(batches):
        ticks = _ticks(batch, ahead_max_ms, known_changes)
        clock = np.maximum.accumulate(np.concatenate(([last], ticks)))
        last = clock[-1]
        marked = pa.array(ticks * 1_000, pa.timestamp("us", "UTC"), mask=ticks == NO_CLOCK)
        yield cutter.cut(_with_columns(batch, clock_ms=pa.array(clock[1:], pa.int64()), tick=marked))


def _ticks(batch: pa.RecordBatch, ahead_max_ms: int, known_changes: Collection[int]) -> npt.NDArray[np.int64]:
    """The clocks of the ticks at their places, `NO_CLOCK` elsewhere."""
    ticks = np.full(batch.num_rows, NO_CLOCK, np.int64)
    values, timestamps = batch.column("value"), batch.column("timestamp_ms")
    for index in np.flatnonzero(pc.is_null(batch.column("key")).to_numpy(zero_copy_only=False)):
        try:
            ticks[index] = read_tick(values[int(index)].as_py(), timestamps[int(index)].as_py(), ahead_max_ms)
        except EventError:  # The operator makes a dead letter of it, if it does not name rules.
            offset = batch.column("offset")[int(index)].as_py()
            if offset not in known_changes and rules_in(values[int(index)].as_py()) is not None:
                raise UnknownRules(offset) from None
    return ticks


def _with_columns(batch: pa.RecordBatch, **columns: pa.Array[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names=[*batch.schema.names, *columns])


EVENT_COLUMNS = ("key", "offset", "value", "unix_millis(timestamp) timestamp_ms")


def events_stream(
    spark: SparkSession,
    topic: str,
    partition: int,
    kafka_options: Mapping[str, str],
    max_events_per_batch: int | None = None,
    *,
    tick_ahead_max_ms: int,
    known_changes: Collection[int] = (),
) -> DataFrame:
    """Read the live events of one partition, from the topic's beginning or from the checkpoint on. Events that the
    topic deleted before they were read fail the query: their decisions would be missing."""
    reader = spark.readStream.format("kafka").options(
        **kafka_options, assign=json.dumps({topic: [partition]}), startingOffsets="earliest", failOnDataLoss="true"
    )
    if max_events_per_batch is not None:
        reader = reader.option("maxOffsetsPerTrigger", max_events_per_batch)
    return with_clock(reader.load().selectExpr(*EVENT_COLUMNS), tick_ahead_max_ms, known_changes=known_changes)


def with_clock(
    records: DataFrame, ahead_max_ms: int, part_bytes: int = PART_BYTES, known_changes: Collection[int] = ()
) -> DataFrame:
    """Make rows of `EVENT_SCHEMA` of key, offset, value and timestamp_ms of one partition. Each batch of it is one
    task. `known_changes`: see `carry_clock`."""
    carry = partial(
        carry_clock, ahead_max_ms=ahead_max_ms, part_bytes=part_bytes, known_changes=frozenset(known_changes)
    )
    return records.mapInArrow(carry, EVENT_SCHEMA)
