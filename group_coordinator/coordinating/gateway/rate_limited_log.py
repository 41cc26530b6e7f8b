"""Log lines about connections are limited in number, for clients can come and be closed thousands of times a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES_PER_WINDOW = 100
WINDOW_S = 10.0


class RateLimitedLog:
    """The log writes the first lines of each window, and the number of those left out; the metrics have counted them.
    """

    def __init__(self, log: logging.Logger, now_s: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._now_s = now_s
        self._window_ends_s = now_s() + WINDOW_S
        self._lines = 0

    def info(self, text: str, *values: object) -> None:
        """Write a line, unless the window is full."""
        now_s = self._now_s()
        if now_s >= self._window_ends_s:
            if self._lines > LINES_PER_WINDOW:
                self._log.info("%d more lines about connections were left out", self._lines - LINES_PER_WINDOW)
            self._window_ends_s, self._lines = now_s + WINDOW_S, 0
        self._lines += 1
        if self._lines <= LINES_PER_WINDOW:
            self._log.info(text, *values)
