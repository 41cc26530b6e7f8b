"""Threads that an exception has ended: a defect that nobody would notice, because the process goes on without them.

Every command notes them. They are in the log with their traceback, in the metrics, and in what probes are told.
"""

from __future__ import annotations

import logging
import threading

_REASONS_MAX = 20
_log = logging.getLogger(__name__)
_ended: dict[str, str] = {}


def note_ended_threads() -> None:
    """Note each thread of this process that ends by an exception from now on."""
    threading.excepthook = _note


def ended_threads() -> list[str]:
    """Return a sentence for each of them."""
    return [
        f"a part of the program, {name}, has ended by a defect: {problem}" for name, problem in list(_ended.items())
    ]


def forget_ended_threads() -> None:
    """Begin anew, as a new process does."""
    _ended.clear()


def _note(args: threading.ExceptHookArgs) -> None:
    if args.exc_type is SystemExit:
        return
    name = args.thread.name if args.thread is not None else "a thread"
    problem = args.exc_value or args.exc_type()
    _log.error("thread %s has ended by a defect", name, exc_info=problem)
    if len(_ended) < _REASONS_MAX:
        _ended[name] = repr(problem)
