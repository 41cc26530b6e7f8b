"""Spark's Python daemon with everything imported that our operator needs.

Spark's workers are forks of its daemon. By default the daemon has imported nothing, and each worker spends a second of CPU on
pandas, Arrow and us before its first row. Frozen, the shared heap is passed over by every later garbage collection.
`spark.python.daemon.module` names it (an undocumented setting of Spark's `PythonWorkerFactory`).

Who asks the command to end may send SIGTERM to all of its processes. Workers go on with their batch until Spark ends them, which
it does by the end of their input, or by SIGKILL; the SIGTERM that it sends as well is not needed.
"""

from __future__ import annotations

import gc
import signal

import pandas  # noqa: F401
import pyarrow  # noqa: F401
import pyspark.daemon
import pyspark.sql.pandas.serializers
import pyspark.sql.streaming.state
import pyspark.testing.utils  # by GroupState.update
import pyspark.worker

import streaming.buckets
import streaming.ticks
import streaming.tuning.state_worker

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # inherited by forks, and by whatever handlers they set
    streaming.tuning.state_worker.install()
    gc.collect()
    gc.freeze()
    pyspark.daemon.manager()
