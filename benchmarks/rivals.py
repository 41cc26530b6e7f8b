"""What our query is compared with: the same query around a function that decides nothing, and Spark's plain copy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from streaming.job import requests_of
from streaming.operator import Key
from streaming.rows import OUTPUT_SCHEMA, STATE_SCHEMA, OutputRecord
from streaming.state_function import Columns, Outputs, StateFunction

_STATE = (bytes(600), bytes(40))
"""As large as the state of a group with one member."""


def identity(events: DataFrame, topic: str) -> DataFrame:
    """Rows of `EVENT_SCHEMA` -> rows of `OUTPUT_SCHEMA`: the topology of `streaming.job`, every request written as it came."""

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
        state.update(_STATE)
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1_800_000)

    return requests_of(events).groupBy("key").applyInPandasWithState(
        pass_on, OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
    )


def lean_identity(events: DataFrame, topic: str) -> DataFrame:
    """The same, called as Spark calls our operator."""

    def pass_on(key: tuple[bytes], chunks: Iterable[Columns], state: GroupState) -> Outputs:
        rows = [pair for chunk in chunks for pair in zip(chunk["key"], chunk["value"], strict=True)]
        state.update(_STATE)
        state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 1_800_000)
        return [(key[0], [OutputRecord(topic, 0, group_key, value, {}) for group_key, value in rows])]

    return requests_of(events).groupBy("key").applyInPandasWithState(
        StateFunction(pass_on), OUTPUT_SCHEMA, STATE_SCHEMA, "append", GroupStateTimeout.EventTimeTimeout
    )


def copy(spark: SparkSession, source: dict[str, str], topic: str) -> DataFrame:
    """Kafka to Kafka, no Python."""
    return spark.readStream.format("kafka").options(**source).load().selectExpr("key", "value", f"'{topic}' topic")
