"""A lock that one busy thread holds again and again, and that others get soon nevertheless."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

_YIELD_S = 0.0005
_YIELD_MAX_S = 0.05
"""A thread that waits may have been stopped by the system: so long is it waited for."""


class YieldingLock:
    """`with lock` for those who look; `with lock.yielding()` for the thread that works.

    Python's own lock goes to whoever asks first when it is free, which is mostly the thread that has just released it:
    one that waits must be woken first. So the working thread lets those that wait go first.
    """

    def __init__(self, yield_max_s: float = _YIELD_MAX_S) -> None:
        self._lock = Lock()
        self._yield_max_s = yield_max_s
        self._waiting: list[None] = []
        """One for each thread that waits: adding and removing one is a single step of the interpreter."""

    @property
    def waiting(self) -> int:
        """How many threads wait."""
        return len(self._waiting)

    def __enter__(self) -> None:
        if self._lock.acquire(blocking=False):
            return
        self._waiting.append(None)
        try:
            self._lock.acquire()
        finally:
            self._waiting.pop()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    @contextmanager
    def yielding(self) -> Iterator[None]:
        """Hold the lock once those that wait have had it."""
        if self._waiting:
            give_up_s = time.monotonic() + self._yield_max_s
            while self._waiting and time.monotonic() < give_up_s:
                time.sleep(_YIELD_S)
        self._lock.acquire()
        try:
            yield
        finally:
            self._lock.release()
