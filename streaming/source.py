"""The events of one shard as a DataFrame: a partition of the events topic, its ticks marked, the clock carried.

`events_stream` gives rows of `EVENT_SCHEMA`, ticks included: they are the event time of the query.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from functools import partial

from pyspark.sql import DataFrame, SparkSession

from streaming.parts import PART_BYTES
from streaming.rows import EVENT_SCHEMA
from streaming.ticks import carry_clock

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
