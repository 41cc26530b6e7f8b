"""Admission bounds what is under way at once: requests sent to the coordinator, and the answers expected for them.

A request beyond the bound waits in its connection, which is read no further meanwhile. A connection that has nothing
under way and asks for little never waits: a heartbeat or a small commit passes whatever others have asked for.
"""

from __future__ import annotations

from typing import Protocol

LIGHT_BYTES = 32_768
"""What weighs no more is little."""


class Waiting(Protocol):
    """A connection that waits for admission."""

    def flush_soon(self) -> None: ...


class Admission:
    """One gateway has one admission, for all its connections."""

    def __init__(self, bytes_max: int, connection_bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._connection_bytes_max = connection_bytes_max
        self._taken: dict[Waiting, int] = {}
        self._waiting: dict[Waiting, None] = {}
        """In the order in which they came."""
        self.bytes = 0

    @property
    def waiting(self) -> int:
        """The number of connections that wait."""
        return len(self._waiting)

    def admits(self, who: Waiting, weight: int) -> bool:
        """Admit a request if there is room for it; if not, `who` is told later when to try again."""
        own = self._taken.get(who, 0)
        fits = self.bytes + weight <= self._bytes_max and (own == 0 or own + weight <= self._connection_bytes_max)
        is_first = next(iter(self._waiting), who) is who
        if not (own == 0 and (weight <= LIGHT_BYTES or self.bytes == 0)) and not (
            fits and (is_first or weight <= LIGHT_BYTES)
        ):
            self._waiting.setdefault(who)
            return False
        self._taken[who] = own + weight
        self.bytes += weight
        if self._waiting.pop(who, self) is None:
            self._wake()
        return True

    def release(self, who: Waiting, weight: int) -> None:
        """Free the room of a request that has got its answer."""
        left = self._taken.get(who, 0) - weight
        if left > 0:
            self._taken[who] = left
        else:
            self._taken.pop(who, None)
        self.bytes -= weight
        self._wake()

    def forget(self, who: Waiting) -> None:
        """Forget a connection that has ended; the room of its requests becomes free with their answers."""
        self._waiting.pop(who, None)
        self._wake()

    def _wake(self) -> None:
        first = next(iter(self._waiting), None)
        if first is not None:
            first.flush_soon()
