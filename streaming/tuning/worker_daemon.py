"""This module is Spark's Python daemon with everything imported that our operator needs.

Spark's workers are forks of its daemon. By default the daemon has imported nothing, and each worker spends a second of
CPU on pandas, Arrow and us before its first row. The shared heap is frozen, so that later garbage collections pass it
over. `spark.python.daemon.module` names this module (an undocumented setting of Spark's `PythonWorkerFactory`).

The daemon starts whatever is missing. A module that cannot be imported here is left to the worker that needs it.
Workers that cannot be patched call the operator in Spark's own way, which is slower and gives the same outputs.

Supervisors may send SIGTERM to all processes of a command. Workers go on with their batch until Spark ends them, by the
end of their input or by SIGKILL; they ignore the SIGTERM that it sends as well.
"""

from __future__ import annotations

import gc
import os
import runpy
import signal
import sys
from contextlib import suppress
from importlib import import_module

PRELOADED = (
    "pandas",
    "pyarrow",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.streaming.state",
    "pyspark.testing.utils",  # GroupState.update imports it
    "pyspark.worker",
    "streaming.buckets",
    "streaming.source",
)
"""What workers import."""
PATCH_VARIABLE = "GROUP_COORDINATOR_TUNING_STATE_WORKER"
"""The setting `tuning_state_worker`, in the environment of the daemon."""
_FALSE = ("0", "off", "f", "false", "n", "no")


def preload() -> None:
    """Import what there is of `PRELOADED`."""
    for name in PRELOADED:
        with suppress(Exception):  # a module may fail in any way with a dependency that it does not know
            import_module(name)


def patch_workers() -> str | None:
    """Let workers call the operator without pandas, unless it is switched off. Returns the reason if they cannot, else
    None."""
    if os.environ.get(PATCH_VARIABLE, "true").lower() in _FALSE:
        return None
    try:
        if reason := import_module("streaming.tuning.guard").unknown_spark():
            return str(reason)
        import_module("streaming.tuning.state_worker").install()
    except Exception as problem:  # names of Spark's inside that are gone, most likely
        return f"{type(problem).__name__}: {problem}"
    return None


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # inherited by forks, and by whatever handlers they set
    preload()
    if reason := patch_workers():
        # Standard output belongs to Spark, which reads the daemon's port from it.
        sys.stderr.write(f"Python workers call the operator in Spark's own way, which is slower: {reason}.\n")
    gc.collect()
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
