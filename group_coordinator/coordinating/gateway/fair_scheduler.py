"""Connections with much to do work in slices, and all other connections are served between two slices."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SLICE_S = 0.005
"""How long the loop works for those with much to do before it looks what else has come. A piece that takes longer is
finished."""


class FairScheduler:
    """The connections with more to do wait in the order in which they came. A gateway has one scheduler, in its loop's
    thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: dict[Callable[[], None], None] = {}
        self._is_planned = False

    def ask_for(self, turn: Callable[[], None]) -> None:
        """Queue a call for its slice; a call that waits already keeps its place."""
        self._waiting.setdefault(turn)
        if not self._is_planned:
            self._is_planned = True
            self._loop.call_soon(self._next)

    def forget(self, turn: Callable[[], None]) -> None:
        """Remove a call that is no longer wanted."""
        self._waiting.pop(turn, None)

    def _next(self) -> None:
        # Planned anew even where a turn raises: the others must not wait for it for ever.
        self._is_planned = False
        ends_s = self._loop.time() + SLICE_S
        try:
            while self._waiting:
                turn = next(iter(self._waiting))
                del self._waiting[turn]
                turn()
                if self._loop.time() >= ends_s:
                    return
        finally:
            if self._waiting and not self._is_planned:
                self._is_planned = True
                self._loop.call_soon(self._next)
