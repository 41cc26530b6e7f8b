"""The state of a shard as its query has committed it, read from the checkpoint beside the running query.

Source: the state data source of Structured Streaming (`spark.read.format("statestore")`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Row, SparkSession

from schemas.ticks import NO_CLOCK
from streaming.buckets import decode_bucket
from streaming.checkpoints import Directory, checkpoint_of, committed_batch, require_same_buckets
from streaming.config import StreamingConfig
from streaming.log_identity import require_same_log
from streaming.stored_group import PIECE_BYTES, ShardState, StateInPieces, StoredGroup, in_pieces

_NO_TIMEOUT = -1
"""What Spark keeps for a key without a timeout (`GroupStateImpl.NO_TIMESTAMP`)."""
_log = logging.getLogger(__name__)


def read_shard_state(spark: SparkSession, config: StreamingConfig, shard: int) -> StateInPieces:
    """Read the state of a shard after its last committed batch, in pieces. Raises CheckpointError and PySparkException.

    What an earlier call for this shard has begun, and nobody has read to its end, is cancelled.
    """
    batch = committed_batch(spark, config, shard)
    if batch is None:
        state = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=NO_CLOCK, groups={})
        return StateInPieces(state, in_pieces(()))
    require_same_buckets(spark, config, shard)
    require_same_log(spark, config, (shard,))
    _ = spark.streams  # the manager of queries: it starts the endpoint that every state store asks for
    rows = (
        spark.read.format("statestore")
        .option("batchId", batch.batch_id)
        .load(checkpoint_of(config, shard))
        .selectExpr("key.*", "value.groupState.*", "value.timeoutTimestamp")
    )
    state = ShardState(
        batch_id=batch.batch_id,
        start_offset=batch.start_offset or 0,
        end_offset=batch.end_offset,
        clock_ms=batch.clock_ms,
        rule_changes=Directory(spark, checkpoint_of(config, shard)).rule_changes(),
        groups={},
    )
    read = _bucketed_groups if config.group_buckets else _groups
    return StateInPieces(state, in_pieces(read(_instead_of_earlier(spark, shard, rows, config.group_buckets > 0))))


def _instead_of_earlier(spark: SparkSession, shard: int, rows: DataFrame, are_buckets: bool) -> Iterator[Row]:
    """Yield the rows. Jobs of an earlier call that was given up end, to spare their work.

    The tag by which they are found is not left behind: a query that is started in this thread would have it, too.
    """
    tag = f"state-of-shard-{shard}"
    _spare(spark.sparkContext.cancelJobsWithTag, tag)
    _spare(spark.sparkContext.addJobTag, tag)
    try:
        yield from _in_parts(rows, are_buckets)
    finally:
        _spare(spark.sparkContext.removeJobTag, tag)


def _spare(change: Callable[[str], None], tag: str) -> None:
    try:
        change(tag)
    except Py4JError as problem:
        _log.debug("jobs cannot be cancelled: %s", problem)


def _in_parts(rows: DataFrame, are_buckets: bool) -> Iterator[Row]:
    """Yield the rows, of which the driver's JVM has a part of about `PIECE_BYTES` at a time.

    All rows are one partition of the state, and a task's result, however large, comes as one piece into the driver's
    heap. So they are shuffled, through the disk, into partitions that are fetched one after the other.
    """
    columns = ("groups",) if are_buckets else ("key", "membership", "offsets")
    size = " + ".join(f"octet_length({name})" for name in columns)
    ((total,),) = rows.selectExpr(f"sum({size})").collect()
    parts = max(1, (total or 0) // PIECE_BYTES + 1)
    yield from rows.repartition(parts, rows.columns[0]).toLocalIterator()


def _groups(rows: Iterator[Row]) -> Iterator[tuple[bytes, StoredGroup]]:
    for key, membership, offsets, timeout_ms in rows:
        deadline_ms = None if timeout_ms == _NO_TIMEOUT else timeout_ms
        yield bytes(key), StoredGroup(deadline_ms, bytes(membership), bytes(offsets))


def _bucketed_groups(rows: Iterator[Row]) -> Iterator[tuple[bytes, StoredGroup]]:
    for row in rows:
        yield from decode_bucket(bytes(row["groups"])).items()
