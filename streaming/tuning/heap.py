"""The heap of Spark's JVM: what it grew by is given back, since the JVM by itself keeps what it once had."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from streaming.tuning.guard import spared
from streaming.watcher import ShardProgress

JVM_OPTIONS = ("-XX:MinHeapFreeRatio=10", "-XX:MaxHeapFreeRatio=40")
"""After a collection the JVM keeps less than as much again as is alive."""
LOOK_INTERVAL_S = 30.0
LARGE_BATCH_MS = 2_000
"""A batch of a backlog, or of very large records: what it leaves is not collected while more of its kind may come."""
GROWN_BYTES = 128 * 1_048_576
"""A heap that has less free is not worth a collection, which stops everything for some tenths of a second."""
WAIT_MIN_S, WAIT_MAX_S = 60.0, 120.0
"""Between two collections. A query that needs the heap again and again has it: the wait doubles each time it has
grown anew."""


class Heap:
    """The heap is collected when it is more than twice what was alive, and no large batch has come for a while.

    It is compared with what was alive, not with its size after a collection: that one may have come in the midst of a
    batch.
    """

    def __init__(self, spark: SparkSession, *, is_on: bool = True) -> None:
        self._spark = spark
        self._is_on = is_on
        self._alive_bytes = 0
        """After the last collection. What a start needed is collected first: it may have been a backlog."""
        self._look_s = time.monotonic() + LOOK_INTERVAL_S
        self._wait_s = WAIT_MIN_S
        self._collected_s = time.monotonic() - WAIT_MIN_S

    def batch_ended(self, progress: ShardProgress) -> None:
        """Put the next look off after a large batch."""
        if progress.batch_ms >= LARGE_BATCH_MS:
            self._look_s = time.monotonic() + LOOK_INTERVAL_S

    def polled(self) -> None:
        """Collect the heap if the time for a look has come and it is large."""
        now_s = time.monotonic()
        if not self._is_on or now_s < self._look_s:
            return
        self._look_s = now_s + LOOK_INTERVAL_S
        self._is_on = False  # unless the JVM can be asked
        with spared("collecting the heap of Spark's JVM"):
            self._collect(now_s)
            self._is_on = True

    def _collect(self, now_s: float) -> None:
        context: Any = self._spark.sparkContext
        java = context._jvm.java.lang
        runtime = java.Runtime.getRuntime()
        if int(runtime.totalMemory()) < self._alive_bytes + max(self._alive_bytes, GROWN_BYTES):
            if now_s >= self._collected_s + 2 * self._wait_s:
                self._wait_s = WAIT_MIN_S
        elif now_s >= self._collected_s + self._wait_s:
            java.System.gc()
            self._alive_bytes = int(runtime.totalMemory()) - int(runtime.freeMemory())
            self._wait_s = min(2 * self._wait_s, WAIT_MAX_S)
            self._collected_s = now_s
