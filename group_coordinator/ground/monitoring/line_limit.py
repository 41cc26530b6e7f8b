"""Log lines about clients are limited in number: clients come, go and fail thousands of times a second."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

LINES_PER_WINDOW = 100
WINDOW_S = 10.0


class LineLimit:
    """The first lines of each window may be written, and the number of those left out is; the metrics count them all,
    and the history topic has every change of a group."""

    def __init__(
        self, log: logging.Logger, level: int, about: str, now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._log = log
        self._level = level
        self._about = about
        self._now_s = now_s
        self._window_ends_s = now_s() + WINDOW_S
        self._lines = 0

    def may_write(self) -> bool:
        """Say whether another line may be written, which counts it."""
        now_s = self._now_s()
        if now_s >= self._window_ends_s:
            if self._lines > LINES_PER_WINDOW:
                left_out = self._lines - LINES_PER_WINDOW
                self._log.log(self._level, "%d more lines about %s were left out", left_out, self._about)
            self._window_ends_s, self._lines = now_s + WINDOW_S, 0
        self._lines += 1
        return self._lines <= LINES_PER_WINDOW

    def write(self, text: str, *values: object) -> None:
        """Write a line, if it may be written."""
        if self.may_write():
            self._log.log(self._level, text, *values)
