"""A command is asked to end by SIGINT (Ctrl-C), by SIGTERM of a supervisor, or by SIGHUP of a terminal that was closed.

Supervisors and terminals send them to all processes of a command. Those that it started do not hear them
(`streaming.session`, `streaming.tuning.worker_daemon`, `group_coordinator.proving.embedded_kafka`): this process ends
them in order.
"""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAME_INTERVAL_S = 0.5
"""`timeout` and terminals send a signal to the process and to its group: two that come so soon are one."""
_interrupted = threading.Event()


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """Yield an event that any of these signals sets. A Ctrl-C after that ends the program at once, by
    KeyboardInterrupt."""
    stop = threading.Event()
    asked_s = 0.0

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked_s
        if number == signal.SIGHUP:
            _silence_terminal_output()
        if not stop.is_set():
            asked_s = time.monotonic()
            stop.set()
        elif number == signal.SIGINT and time.monotonic() > asked_s + SAME_INTERVAL_S:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, ask) for number in _ENDING if not _is_ignored_hangup(number)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interrupt_when_asked() -> None:
    """Let SIGTERM and SIGHUP interrupt a command as Ctrl-C does, so that it cleans up."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if not _is_ignored_hangup(number):
            signal.signal(number, _interrupt)


def was_interrupted() -> bool:
    """Return whether one of these signals has interrupted the command. A later failure comes of that."""
    return _interrupted.is_set()


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _interrupted.set()
    if number == signal.SIGHUP:
        _silence_terminal_output()
    raise KeyboardInterrupt


def _is_ignored_hangup(number: int) -> bool:
    """`nohup` asks for it."""
    return number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN


def _silence_terminal_output() -> None:
    """Once the terminal is gone, printing must not fail."""
    devnull = os.open(os.devnull, os.O_RDWR)
    for descriptor in (1, 2):
        if stat.S_ISCHR(os.fstat(descriptor).st_mode) and not os.isatty(descriptor):
            os.dup2(devnull, descriptor)
    os.close(devnull)
