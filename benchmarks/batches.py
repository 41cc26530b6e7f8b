"""Queries over a log that is there already, run to its end, and what Spark reports of their batches."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

PHASES = ("addBatch", "queryPlanning", "walCommit", "commitOffsets", "latestOffset", "getBatch")
KEEP_REPORTS = {"spark.sql.streaming.numRecentProgressUpdates": "1000"}
"""Setting of a session whose queries have more than the hundred batches that Spark keeps reports of."""

Report = dict[str, Any]
"""Of one batch, as `StreamingQuery.recentProgress` has it."""


def start(outputs: DataFrame, sink: Mapping[str, str], checkpoint: str) -> StreamingQuery:
    """Into Kafka, to the end of what there is."""
    writer = outputs.writeStream.format("kafka").options(**sink, checkpointLocation=checkpoint)
    return writer.outputMode("append").trigger(availableNow=True).start()


def start_live(outputs: DataFrame, sink: Mapping[str, str], checkpoint: str) -> StreamingQuery:
    """Into Kafka, batch after batch as the app does: without the question to Kafka that only `availableNow` asks before
    each batch. Whoever starts it has to stop it."""
    writer = outputs.writeStream.format("kafka").options(**sink, checkpointLocation=checkpoint)
    return writer.outputMode("append").start()


def whole_batches(query: StreamingQuery, size: int) -> list[Report]:
    """The reports of batches of so many events."""
    return [dict(progress) for progress in query.recentProgress if progress["numInputRows"] == size]


def median_ms(reports: Sequence[Report], phase: str = "triggerExecution") -> float:
    """Return the median time of a phase, or of the whole trigger."""
    return statistics.median(float(report["durationMs"].get(phase, 0)) for report in reports)
