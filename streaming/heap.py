"""The heap of Spark's JVM after a large batch: it is given back, since the JVM by itself keeps what it once had."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from streaming.watcher import ShardProgress

LARGE_BATCH_MS = 5_000
"""A batch of a backlog, or of very large records. Collecting costs some tenths of a second, which is little beside it."""
REST_S = 30.0
"""Without another large batch."""


class Heap:
    """Collected once, some time after the last large batch: then the JVM shrinks to a few times what is alive."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._due_s: float | None = None

    def batch_ended(self, progress: ShardProgress) -> None:
        """After each batch."""
        if progress.batch_ms >= LARGE_BATCH_MS:
            self._due_s = time.monotonic() + REST_S

    def turned(self) -> None:
        """Now and then."""
        if self._due_s is not None and time.monotonic() >= self._due_s:
            self._due_s = None
            context: Any = self._spark.sparkContext
            context._jvm.java.lang.System.gc()
