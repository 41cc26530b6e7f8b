"""What it costs: each figure as a ratio taken in one run, since machines differ and are shared."""

from __future__ import annotations

import sys
from types import TracebackType

from group_coordinator.coordinating.jars.java import JavaError
from group_coordinator.coordinating.jars.resolving import JarsError


def _print_problem(kind: type[BaseException], problem: BaseException, trace: TracebackType | None) -> None:
    """Each benchmark says once what the machine lacks."""
    if isinstance(problem, JavaError | JarsError):
        print(problem, file=sys.stderr)
    else:
        sys.__excepthook__(kind, problem, trace)


sys.excepthook = _print_problem
