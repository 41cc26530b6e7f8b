"""A tuning that finds Spark's inside changed is left out, and the log says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import pyspark
from py4j.protocol import Py4JError, Py4JNetworkError

_log = logging.getLogger(__name__)


@contextmanager
def spared(part: str) -> Iterator[None]:
    """Leave out a step when a name that it needs is gone. `part` names the step, for the log.

    A class that a JVM lacks cannot be called (TypeError), as py4j takes its name for a package's. A JVM that is gone is
    no such case: its Py4JNetworkError or ConnectionError is passed on.
    """
    try:
        yield
    except Py4JNetworkError:
        raise
    except (Py4JError, TypeError, AttributeError) as problem:
        reason = next(iter(str(problem).splitlines()), "")
        _log.warning("Left out: %s (%s: %s). See docs/upgrading.md.", part, type(problem).__name__, reason)


PYSPARK_VERSION = "4.2.0"


def unknown_spark() -> str | None:
    """Return why Spark's own way must be taken; None if this is the known version."""
    if pyspark.__version__ == PYSPARK_VERSION:
        return None
    return f"PySpark is {pyspark.__version__}, and only the inside of {PYSPARK_VERSION} is known"
