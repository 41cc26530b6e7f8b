"""What is to be done when: actions by time, and those of one time in the order in which they were entered."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Action = Callable[[], None]


class Agenda:
    """Not for several threads at once."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Action]] = []
        self._numbers = count()

    def enter(self, time_ms: int, action: Action) -> None:
        heapq.heappush(self._entries, (time_ms, next(self._numbers), action))

    def next_ms(self) -> int | None:
        """When something is to be done; None: nothing is."""
        return self._entries[0][0] if self._entries else None

    def do_due(self, now_ms: int) -> None:
        """Do everything whose time has come."""
        while self._entries and self._entries[0][0] <= now_ms:
            heapq.heappop(self._entries)[2]()
