"""A cluster that has no place for the work: Spark waits for ever and says so nowhere but in a log that nobody sees."""

from __future__ import annotations

import logging
import time
from typing import Any

from pyspark.sql import SparkSession

from streaming.tuning.guard import spared

PATIENCE_S = 30.0
_log = logging.getLogger(__name__)


class ExecutorsAwaited:
    """Warns, with the remedy, while Spark has no executor. `look` is to be called often."""

    def __init__(self, spark: SparkSession) -> None:
        context: Any = spark.sparkContext
        self._spark: Any = None
        with spared("the warning that no executor has come"):
            self._spark = context._jsc.sc()
        self._settings = dict(context.getConf().getAll())
        self._master = str(context.master)
        self._look_at_s = time.monotonic() + PATIENCE_S

    def look(self) -> None:
        """Log a warning where none has come for as long as our patience; then again after as long."""
        if self._spark is None or self._master.startswith("local") or time.monotonic() < self._look_at_s:
            return
        self._look_at_s = time.monotonic() + PATIENCE_S
        if int(self._spark.getExecutorMemoryStatus().size()) <= 1:  # that is the driver
            memory = self._settings.get("spark.executor.memory", "1g")
            cores = self._settings.get("spark.executor.cores", "all")
            _log.warning(
                "Spark has no executor yet: no worker of %s has a place for one, of %s memory and %s cores. Ask for "
                "less by spark.executor.memory (--executor-memory) and spark.executor.cores, or give the workers more.",
                self._master, memory, cores,
            )  # fmt: skip
