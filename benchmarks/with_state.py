"""Spark's newer operator, `transformWithState`, around functions that decide nothing: rows as they come, or pandas
frames.

They make the calls that the coordinator would have to make for each key: read its state, write it, move its timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from benchmarks.baselines import STATE
from streaming.job import requests_of
from streaming.rows import OUTPUT_SCHEMA

_STATE_SCHEMA = "membership binary, offsets binary, timer long"
_TIMER_MS = 1_800_000


class _PassOn(StatefulProcessor):
    def __init__(self, topic: str) -> None:
        self._topic = topic

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._state = handle.getValueState("group", _STATE_SCHEMA)

    def close(self) -> None:
        pass

    def _keep(self, timers: Any) -> None:
        state = self._state.get()
        timer_ms = timers.getCurrentWatermarkInMs() + _TIMER_MS
        if state is not None and state[2] != timer_ms:
            self._handle.deleteTimer(state[2])
        if state is None or state[2] != timer_ms:
            self._handle.registerTimer(timer_ms)
        self._state.update((*STATE, timer_ms))


class PassOnRows(_PassOn):
    """The processor for `transformWithState`, with `Row`s."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        for row in rows:
            yield Row(group_key=row.key, topic=self._topic, partition=0, key=row.key, value=row.value, headers="{}")
        self._keep(timerValues)


class PassOnFrames(_PassOn):
    """The processor for `transformWithStateInPandas`, with frames."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[pd.DataFrame]:
        for frame in rows:
            columns = {"group_key": frame["key"], "topic": self._topic, "partition": 0, "key": frame["key"]}
            yield pd.DataFrame({**columns, "value": frame["value"], "headers": "{}"}).astype({"partition": "int32"})
        self._keep(timerValues)


def identity_of_rows(events: DataFrame, topic: str) -> DataFrame:
    """Rows of `EVENT_SCHEMA` -> rows of `OUTPUT_SCHEMA`."""
    return (
        requests_of(events).groupBy("key").transformWithState(PassOnRows(topic), OUTPUT_SCHEMA, "append", "eventTime")
    )


def identity_of_frames(events: DataFrame, topic: str) -> DataFrame:
    """The same."""
    return (
        requests_of(events)
        .groupBy("key")
        .transformWithStateInPandas(PassOnFrames(topic), OUTPUT_SCHEMA, "append", "eventTime")
    )
