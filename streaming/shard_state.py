"""The state of a shard as its query has committed it, read from the checkpoint beside the running query.

Source: the state data source of Structured Streaming (`spark.read.format("statestore")`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from schemas.ticks import NO_CLOCK
from streaming.arrow_columns import objects
from streaming.buckets import decode_bucket
from streaming.checkpoints import checkpoint_of, committed_batch, require_same_buckets
from streaming.config import StreamingConfig
from streaming.log_identity import require_same_log
from streaming.stored_group import ShardState, StoredGroup

_NO_TIMEOUT = -1
"""What Spark keeps for a key without a timeout (`GroupStateImpl.NO_TIMESTAMP`)."""


def read_shard_state(spark: SparkSession, config: StreamingConfig, shard: int) -> ShardState:
    """Read the state of a shard after its last committed batch. Raises CheckpointError and PySparkException."""
    batch = committed_batch(spark, config, shard)
    if batch is None:
        return ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=NO_CLOCK, groups={})
    require_same_buckets(spark, config, shard)
    require_same_log(spark, config, (shard,))
    _ = spark.streams  # the manager of queries: it starts the endpoint that every state store asks for
    state = (
        spark.read.format("statestore")
        .option("batchId", batch.batch_id)
        .load(checkpoint_of(config, shard))
        .selectExpr("key.*", "value.groupState.*", "value.timeoutTimestamp")
    )
    read = _bucketed_groups if config.group_buckets else _groups
    return ShardState(
        batch_id=batch.batch_id,
        start_offset=batch.start_offset or 0,
        end_offset=batch.end_offset,
        clock_ms=batch.clock_ms,
        groups=dict(group for rows in state.toArrow().to_batches() for group in read(rows)),
    )


def _groups(rows: pa.RecordBatch) -> Iterator[tuple[bytes, StoredGroup]]:
    columns = (objects(rows.column(name)) for name in ("key", "membership", "offsets", "timeoutTimestamp"))
    for key, membership, offsets, timeout_ms in zip(*columns, strict=True):
        yield key, StoredGroup(None if timeout_ms == _NO_TIMEOUT else timeout_ms, membership, offsets)


def _bucketed_groups(rows: pa.RecordBatch) -> Iterator[tuple[bytes, StoredGroup]]:
    packed: list[Any] = objects(rows.column("groups"))
    for bucket in packed:
        yield from decode_bucket(bucket).items()
