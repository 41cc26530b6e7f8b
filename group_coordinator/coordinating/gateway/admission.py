"""Admission bounds what is under way at once: requests sent to the coordinator, and the answers expected for them.

A request beyond the bound waits in its connection, which is read no further meanwhile. A connection that has nothing
under way and asks for little never waits: a heartbeat or a small commit passes whatever others have asked for.
"""

from __future__ import annotations

from typing import Protocol

LIGHT_BYTES = 32_768
"""A request that weighs no more is a light one."""


class Waiting(Protocol):
    """A connection that waits for admission."""

    def flush_soon(self) -> None: ...


class Admission:
    """One gateway has one admission, for all its connections."""

    def __init__(self, bytes_max: int, connection_bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._connection_bytes_max = connection_bytes_max
        self._weights: dict[Waiting, int] = {}
        self._waiting: dict[Waiting, None] = {}
        """In the order in which they came."""
        self.bytes = 0

    @property
    def waiting(self) -> int:
        """The number of connections that wait."""
        return len(self._waiting)

    def admits(self, connection: Waiting, weight: int) -> bool:
        """Admit a request if there is room for it. If not, the connection's `flush_soon` is called when it may try
        again."""
        own_weight = self._weights.get(connection, 0)
        fits = self.bytes + weight <= self._bytes_max and (
            own_weight == 0 or own_weight + weight <= self._connection_bytes_max
        )
        is_first = next(iter(self._waiting), connection) is connection
        if not (own_weight == 0 and (weight <= LIGHT_BYTES or self.bytes == 0)) and not (
            fits and (is_first or weight <= LIGHT_BYTES)
        ):
            self._waiting.setdefault(connection)
            return False
        self._weights[connection] = own_weight + weight
        self.bytes += weight
        if self._waiting.pop(connection, self) is None:
            self._wake()
        return True

    def release(self, connection: Waiting, weight: int) -> None:
        """Free the room of a request that has got its answer."""
        weight_left = self._weights.get(connection, 0) - weight
        if weight_left > 0:
            self._weights[connection] = weight_left
        else:
            self._weights.pop(connection, None)
        self.bytes -= weight
        self._wake()

    def forget(self, connection: Waiting) -> None:
        """Forget a connection that has ended; the room of its requests becomes free with their answers."""
        self._waiting.pop(connection, None)
        self._wake()

    def _wake(self) -> None:
        first = next(iter(self._waiting), None)
        if first is not None:
            first.flush_soon()
