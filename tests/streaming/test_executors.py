"""A cluster without a place for the work is told of, with the remedy."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from streaming import executors
from streaming.executors import ExecutorsAwaited


def awaited(master: str, count: int) -> ExecutorsAwaited:
    spark: Any = MagicMock()
    spark.sparkContext.master = master
    spark.sparkContext.getConf().getAll.return_value = [("spark.executor.memory", "2g")]
    spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size.return_value = count
    return ExecutorsAwaited(cast(SparkSession, spark))


@pytest.mark.parametrize(
    ("master", "count", "told"), [("spark://m:7077", 1, True), ("spark://m:7077", 2, False), ("local[2]", 1, False)]
)
def test_no_executor(
    master: str, count: int, told: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executors, "PATIENCE_S", -1.0)
    awaited(master, count).look()
    assert ("no worker of spark://m:7077 has a place for one, of 2g memory" in caplog.text) == told


def test_patience(caplog: pytest.LogCaptureFixture) -> None:
    awaited("spark://m:7077", 1).look()
    assert caplog.text == ""
