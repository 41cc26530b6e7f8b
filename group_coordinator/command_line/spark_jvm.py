"""The JVM that PySpark starts: kept quiet, and ended with the command that needed it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from group_coordinator.command_line.errors import CommandError

_LINES_SHOWN = 20
_STOP_TIMEOUT_S = 20.0


@contextmanager
def quiet_start() -> Iterator[None]:
    """While Spark starts in here, what its JVM says goes to a file; it is shown when the start fails."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as log:
        ours = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException as problem:
            if type(problem).__module__.startswith(("pyspark", "py4j")):
                log.seek(0)
                said = log.read().decode(errors="replace").splitlines()[-_LINES_SHOWN:]
                raise CommandError("\n".join(["Spark did not start. It said:", *said])) from problem
            raise
        finally:
            os.dup2(ours, 2)
            os.close(ours)


def java_cause(problem: Exception) -> str:
    """Return Spark's message about a failure, in a line or two: the innermost cause, if its JVM still answers."""
    try:
        java = problem.java_exception  # type: ignore[attr-defined]
        while java.getCause() is not None:
            java = java.getCause()
        return str(java.toString())
    except AttributeError:  # none of Java's
        return str(problem).partition("\n\nJVM stacktrace:")[0]
    except Exception:  # whatever a JVM that is gone makes of it
        return "its JVM has ended or does not answer (killed? out of memory?)."


def end_jvm() -> None:
    """End the JVM and wait for its end, so that no process is left behind."""
    from pyspark import SparkContext

    gateway = getattr(SparkContext, "_gateway", None)  # where it is gone the JVM ends when this process does
    if gateway is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    process = getattr(gateway, "proc", None)
    if process is not None:
        with suppress(OSError):
            process.stdin.close()
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = SparkContext._jvm = None
