"""Actions run by time; those of one time run in the order in which they were entered."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from itertools import count

Action = Callable[[], None]


class ActionQueue:
    """The queue is for one thread."""

    def __init__(self) -> None:
        self._entries: list[tuple[int, int, Action]] = []
        self._numbers = count()

    def enter(self, time_ms: int, action: Action) -> None:
        heapq.heappush(self._entries, (time_ms, next(self._numbers), action))

    def next_ms(self) -> int | None:
        """Return the time of the next action; None if there is none."""
        return self._entries[0][0] if self._entries else None

    def do_due(self, now_ms: int) -> None:
        """Run all actions whose time has come."""
        while self._entries and self._entries[0][0] <= now_ms:
            heapq.heappop(self._entries)[2]()
