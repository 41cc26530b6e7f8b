"""The worker daemon starts whatever is missing; without the patch of its workers the query writes the same bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from streaming.config import StreamingConfig
from streaming.event_log import records_of_files
from streaming.packed_outputs import output_records
from streaming.session import java_options, prepare_session
from streaming.tuning import worker_daemon
from streaming.tuning.guard import PYSPARK_VERSION, unknown_spark
from tests.streaming import random_log
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.replays import in_process, output_order, write_log
from tests.streaming.streamed_replay import replay_streaming

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

needs_known_spark = pytest.mark.skipif(unknown_spark() is not None, reason=str(unknown_spark()))
CLASS_IS_GONE = """
import pyspark.worker  # which needs it itself, in this version
import pyspark.sql.pandas.serializers
del pyspark.sql.pandas.serializers.ApplyInPandasWithStateSerializer
"""
WITHOUT = """
import os, sys
from streaming.tuning import worker_daemon
worker_daemon.preload()
for missing in {cases!r}:
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
        continue
    for name in [name for name in sys.modules if name.partition(".")[0] in ("pyspark", "streaming")]:
        del sys.modules[name]
    sys.modules.update(dict.fromkeys(missing))
    from streaming.tuning import worker_daemon
    worker_daemon.preload()
    print(worker_daemon.patch_workers(), flush=True)
    os._exit(0)
"""
"""A module whose place in `sys.modules` holds None cannot be imported. What is large and not ours is imported once."""


@needs_known_spark
def test_it_starts_whatever_is_missing() -> None:
    cases = [(), *((name,) for name in worker_daemon.PRELOADED), worker_daemon.PRELOADED, ("pyspark",)]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(cases=cases)], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    for missing, said in zip(cases, done.stdout.splitlines(), strict=True):
        is_patched = not {
            "pyarrow",
            "pandas",
            "pyspark",
            "pyspark.worker",
            "pyspark.sql.streaming.state",
            "pyspark.sql.pandas.serializers",
        } & {*missing}
        assert (said == "None") == is_patched, (missing, said)


@needs_known_spark
def test_workers_are_not_patched_in_an_unknown_version(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unknown_spark() is None
    monkeypatch.setattr(pyspark, "__version__", "4.3.0")
    worker: Any = import_module("pyspark.worker")
    before = worker.ApplyInPandasWithStateSerializer
    assert worker_daemon.patch_workers() == f"PySpark is 4.3.0, and only the inside of {PYSPARK_VERSION} is known"
    assert worker.ApplyInPandasWithStateSerializer is before


@pytest.mark.parametrize("value", ["false", "0", "off", "No"])
def test_the_patch_can_be_switched_off(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(worker_daemon.PATCH_VARIABLE, value)
    monkeypatch.setattr(worker_daemon, "import_module", None)
    assert worker_daemon.patch_workers() is None


def test_the_variable_is_that_of_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(worker_daemon.PATCH_VARIABLE, "off")
    assert StreamingConfig.load().tuning_state_worker is False


def test_options_of_the_jvm_have_their_switches() -> None:
    def options(**switches: Any) -> str:
        return java_options(StreamingConfig(**switches))

    assert "HeapFreeRatio" in options(tuning_heap=True)
    assert "HeapFreeRatio" not in options(tuning_heap=False)
    assert "SharedArchiveFile" not in options(tuning_class_archives=False)


@needs_known_spark
@pytest.mark.parametrize("way", ["patched", "switched off", "class gone"])
def test_the_bytes_are_the_same_without_the_patch(
    spark: SparkSession, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context: Any = spark.sparkContext
    if way == "switched off":
        monkeypatch.setitem(context.environment, worker_daemon.PATCH_VARIABLE, "false")
    if way == "class gone":
        (tmp_path / "sitecustomize.py").write_text(CLASS_IS_GONE)
        monkeypatch.setitem(context.environment, "PYTHONPATH", os.fspath(tmp_path))
    assert context.parallelize([0], 1).map(state_of_the_worker).collect() == [(way == "patched", way != "class gone")]
    log = random_log.make_log(seed=2, groups=3, mixed_groups=3, requests=200)
    config = StreamingConfig(max_events_per_batch=200, **SETTINGS)
    prepare_session(spark, config)
    records = records_of_files(spark, [write_log(tmp_path / "events.jsonl", log)])
    outputs = replay_streaming(records, config, tmp_path / "stream")
    assert sorted(output_records(outputs), key=output_order) == in_process(log, config)


def state_of_the_worker(_: int) -> tuple[bool, bool]:
    """In a worker: whether it is patched, and whether Spark's class is where the patch takes it from."""
    import pyspark.sql.pandas.serializers as serializers
    import pyspark.worker

    used: Any = pyspark.worker.ApplyInPandasWithStateSerializer  # type: ignore[attr-defined]
    return used.__name__ == "StateFunctionSerializer", hasattr(serializers, "ApplyInPandasWithStateSerializer")
