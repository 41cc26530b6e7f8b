"""The JVM that PySpark starts: kept quiet, and ended with the command that needed it."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import Any

from group_coordinator.command_line.errors import CommandError, masked
from group_coordinator.coordinating.jars.java import require_java
from streaming.child_processes import end_process

_NO_NEWS = re.compile(
    r"^(?:java\.lang\.(?:Runtime|IllegalState|IllegalArgument)?Exception|java\.io\.IOException"
    r"|(?:schemas|streaming|group_coordinator|coordinator_state)[\w.]*\.\w+Error): (?=\S)"
)
"""Names of classes that say nothing; others, as of a file that was not found, are a part of the sentence."""
_LINES_SHOWN = 20
_STOP_TIMEOUT_S = 20.0
_SHORTEST_SECRET = 4
"""Shorter values are parts of ordinary words."""


def require_spark(*, java: bool = True) -> None:
    """Raises CommandError where Spark is not installed, and JavaError where its JVM could not start."""
    if find_spec("pyspark") is None or find_spec("pandas") is None:
        raise CommandError(
            "This command runs the coordinator, which needs Spark: pip install '.[spark]' in a clone of the project. "
            "(To watch a cluster, or to replay a dump of its offsets topic, no Spark is needed.)"
        )
    if java:
        require_java()


@contextmanager
def quiet_start(settings: Mapping[str, str]) -> Iterator[None]:
    """Send the output of Spark's JVM to a file while Spark starts in here. It is shown when the start fails, without
    the values of these settings."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as log:
        stderr_copy = os.dup(2)
        os.dup2(log.fileno(), 2)
        try:
            yield
        except BaseException as problem:
            if type(problem).__module__.startswith(("pyspark", "py4j")):
                log.seek(0)
                last_lines = log.read().decode(errors="replace").splitlines()[-_LINES_SHOWN:]
                text = without_values("\n".join(last_lines), settings)
                raise CommandError(f"Spark did not start. It said:\n{text}") from problem
            raise
        finally:
            os.dup2(stderr_copy, 2)
            os.close(stderr_copy)


def without_values(text: str, settings: Mapping[str, str]) -> str:
    """Put the name of a setting in the place of its value, which may be a secret."""
    masks = {value: f"(the value of {name})" for name, value in settings.items() if len(value) >= _SHORTEST_SECRET}
    return masked(text, masks)


def java_cause(problem: Exception, settings: Mapping[str, str]) -> str:
    """Return Spark's message about a failure, in a line or two, without the values of these settings."""
    return without_values(_NO_NEWS.sub("", _innermost_cause(problem)), settings)


def _innermost_cause(problem: Exception) -> str:
    """The innermost cause, if its JVM still answers."""
    try:
        java = problem.java_exception  # type: ignore[attr-defined]
        while java.getCause() is not None:
            java = java.getCause()
        return str(java.toString())
    except AttributeError:  # none of Java's
        return str(problem).partition("\n\nJVM stacktrace:")[0]
    except Exception:  # whatever a JVM that is gone makes of it
        return "its JVM has ended or does not answer (killed? out of memory?)."


def jvm_process_id() -> int | None:
    """Return the process id of the JVM, if it was started here; of spark-submit's, None."""
    from pyspark import SparkContext

    process = _process_of(getattr(SparkContext, "_gateway", None))
    return None if process is None else process.pid


def end_jvm() -> None:
    """End the JVM and wait for its end, so that no process is left behind."""
    from pyspark import SparkContext

    gateway = getattr(SparkContext, "_gateway", None)  # where it is gone the JVM ends when this process does
    if gateway is None:
        return
    with suppress(Exception):
        gateway.shutdown()
    process = _process_of(gateway)
    if process is not None:
        end_process(process, _STOP_TIMEOUT_S)
    SparkContext._gateway = SparkContext._jvm = None


def kill_jvm() -> None:
    """End the JVM at once, in whatever it is, and with it all calls into it. What a query had begun is repeated at the
    next start. May be called in any thread."""
    from pyspark import SparkContext

    process = _process_of(getattr(SparkContext, "_gateway", None))
    if process is not None:
        process.kill()


def _process_of(gateway: object) -> Any:
    """Return the process that PySpark has started for a gateway to a JVM; None if there is none."""
    return getattr(gateway, "proc", None)
