"""The time that an orderly end has. Supervisors kill what has not ended 30 s after they asked for it."""

from __future__ import annotations

import time
from collections.abc import Callable

WITHIN_S = 26.0
"""What has not ended by then is killed; the last part of it ends within a moment."""
KAFKA_S = 5.0
"""So much of it is kept for an embedded broker, which ends after all others."""
SPARK_S = 6.0
"""And so much for Spark, whose running batch may take minutes beside a flood."""


class Ending:
    """What ends one after the other shares the time: who takes long leaves less to the others."""

    def __init__(self, within_s: float = WITHIN_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._within_s, self._now_s = within_s, now_s
        self._by_s: float | None = None

    def begin(self) -> None:
        """Let the time run from now on."""
        if self._by_s is None:
            self._by_s = self._now_s() + self._within_s

    def left_s(self, kept_s: float = 0.0) -> float:
        """Return what is left of the time but for `kept_s`, which others need after this; 0 if nothing is. The time
        runs from the first call on, if it did not before."""
        self.begin()
        assert self._by_s is not None
        return max(0.0, self._by_s - kept_s - self._now_s())
