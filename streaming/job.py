"""The topology: events -> one group at a time through the core -> producer records, as a streaming query or as a batch.

    Kafka events partition ─► carry the clock ─► groupBy key ─► coordinate (state, event-time timeouts)
    ─► one Kafka sink

One events partition is one shard and one query: then Spark's watermark is exactly the last tick of the earlier batches,
and no batching can be seen in the outputs.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.state import GroupStateTimeout

from schemas.ticks import NO_CLOCK
from streaming.batch_replay import in_buckets, replay_groups
from streaming.buckets import bucket_of, bucket_operator
from streaming.operator import streaming_operator
from streaming.operator_config import OperatorConfig
from streaming.parts import GROUP_KEY, part_key
from streaming.rows import BUCKET_STATE_SCHEMA, OUTPUT_SCHEMA, PRODUCER_COLUMNS, STATE_SCHEMA


def coordinate_stream(events: DataFrame, config: OperatorConfig) -> DataFrame:
    """Coordinate the rows of `EVENT_SCHEMA` of one shard; return rows of `OUTPUT_SCHEMA`."""
    requests = requests_of(events)
    if config.group_buckets:
        requests = requests.withColumn("bucket", bucket_of("key", config.group_buckets))
        return requests.groupBy("bucket").applyInPandasWithState(
            bucket_operator(config), OUTPUT_SCHEMA, BUCKET_STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
        )
    # The state's key is named as it always was.
    requests = requests.withColumns({GROUP_KEY: F.col("key"), "key": part_key()})
    return requests.groupBy("key").applyInPandasWithState(
        streaming_operator(config), OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
    )


def requests_of(events: DataFrame) -> DataFrame:
    """Filter the ticks out of rows of `EVENT_SCHEMA`; they are the watermark of what follows. Every step of the plan
    that can be spared is spared, since Spark plans it anew for each batch."""
    # Only ticks carry event time, so no request is ever late.
    watermarked = events.withWatermark("tick", "0 seconds")
    # On this very column, and after withWatermark: a filter on another is pushed below it and the clock stands still.
    return _in_one_task(watermarked.where("tick is null"))


def _in_one_task(requests: DataFrame) -> DataFrame:
    """With one shuffle partition the shuffle is spared: the operator runs in the task that has read the events.

    Where the checkpoint was made with more of them, which holds for ever, Spark shuffles all the same.
    """
    partitions = requests.sparkSession.conf.get("spark.sql.shuffle.partitions")
    return requests.coalesce(1) if partitions == "1" else requests


def coordinate_batch(records: DataFrame, config: OperatorConfig, until_ms: int = NO_CLOCK) -> DataFrame:
    """Coordinate whole logs, rows of `RECORD_SCHEMA`, group by group without a state store; return rows of
    `OUTPUT_SCHEMA`. A partition's log ends with its last tick, or with `until_ms` where that is later."""
    spark = records.sparkSession
    buckets = max(int(spark.conf.get("spark.sql.shuffle.partitions") or 1), 2 * spark.sparkContext.defaultParallelism)
    return in_buckets(records, buckets).mapInArrow(replay_groups(config, until_ms), OUTPUT_SCHEMA)


def producer_records(outputs: DataFrame) -> DataFrame:
    """Make of rows of `OUTPUT_SCHEMA` what the Kafka sink writes: topic, partition, key, value, headers."""
    return outputs.selectExpr(*PRODUCER_COLUMNS)


def start_query(
    outputs: DataFrame,
    name: str,
    checkpoint: str,
    sink_options: Mapping[str, str],
    *,
    trigger_interval_ms: int = 0,
    available_now: bool = False,
) -> StreamingQuery:
    """Write outputs to their topics, batch after batch.

    The checkpoint belongs to this shard and these settings for ever.
    """
    writer = (
        producer_records(outputs)
        .writeStream.queryName(name)
        .format("kafka")
        .options(**sink_options, checkpointLocation=checkpoint)
        .outputMode("append")
    )
    if available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{trigger_interval_ms} milliseconds").start()
