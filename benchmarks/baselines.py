"""Our query is compared with baselines: the same query around a function that decides nothing, and Spark's plain copy.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from group_coordinator.ground.settings.kafka_properties import spark_options
from schemas.output_records import OutputRecord
from streaming.arrow_columns import Columns
from streaming.config import StreamingConfig
from streaming.job import requests_of
from streaming.operator import Key
from streaming.rows import OUTPUT_SCHEMA, STATE_SCHEMA
from streaming.session import SMALL_BATCHES, SQL_SETTINGS
from streaming.state_function import Outputs, StateFunction

COPY, TUNED_COPY = "copy", "tuned copy"
"""How the two kinds of `copy` are called in tables."""
STATE = (bytes(515), bytes(1))
"""As large as the state of a group with one member (`benchmarks.idle_groups` prints it)."""
_CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"


def identity(events: DataFrame, topic: str) -> DataFrame:
    """Rows of `EVENT_SCHEMA` -> rows of `OUTPUT_SCHEMA`: the topology of `streaming.job`, every request written as it
    came.

    With pandas frames, as Spark's users write it.
    """

    def pass_on(key: Key, frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        for frame in [] if state.hasTimedOut else frames:
            rows = len(frame)
            yield pd.DataFrame(
                {
                    "group_key": frame["key"],
                    "topic": [topic] * rows,
                    "partition": pd.Series([0] * rows, dtype="int32"),
                    "key": frame["key"],
                    "value": frame["value"],
                    "headers": ["{}"] * rows,
                }
            )
        state.update(STATE)
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1_800_000)

    return requests_of(events).groupBy("key").applyInPandasWithState(
        pass_on, OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
    )


def patched_identity(events: DataFrame, topic: str) -> DataFrame:
    """The same query, called as Spark calls our operator."""

    def pass_on(key: tuple[bytes], chunks: Iterable[Columns], state: GroupState) -> Outputs:
        rows = [pair for chunk in chunks for pair in zip(chunk["key"], chunk["value"], strict=True)]
        state.update(STATE)
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1_800_000)
        return [(key[0], [OutputRecord(topic, 0, group_key, value, {}) for group_key, value in rows])]

    return requests_of(events).groupBy("key").applyInPandasWithState(
        StateFunction(pass_on), OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
    )


def copy(
    spark: SparkSession,
    settings: StreamingConfig,
    source: str,
    target: str,
    *,
    tuned: bool = False,
    begin: str = "earliest",
    at_once: int | None = None,
) -> DataFrame:
    """Kafka to Kafka, no Python: partition 0 of a topic to another one, at most `at_once` records a batch.

    With Spark's own settings; `tuned`, it writes its checkpoint as ours does (in a session with `tune_hadoop`; Spark's
    own way costs more than all the rest of a small batch) and reads as ours does, without waiting at the end of the
    log. What starts next in this session has these settings: call `prepare_session` before another query.
    """
    for name in {**SQL_SETTINGS, **SMALL_BATCHES}:
        spark.conf.unset(name)
    if tuned:
        spark.conf.set(_CHECKPOINT_FILES, SQL_SETTINGS[_CHECKPOINT_FILES])
    source_options = settings.source_options if tuned else spark_options(settings.bootstrap_servers, settings.kafka)
    options = {**source_options, "assign": json.dumps({source: [0]}), "startingOffsets": begin}
    if at_once is not None:
        options["maxOffsetsPerTrigger"] = str(at_once)
    return spark.readStream.format("kafka").options(**options).load().selectExpr("key", "value", f"'{target}' topic")
