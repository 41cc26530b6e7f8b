"""The gateway buffers bytes for its connections: incomplete requests, and answers that clients do not read.

The sum over all connections is bounded. Beyond the bound those connections are closed that hold the most bytes for the
longest time: honest requests come in one piece and honest answers are read, so their bytes lie here for a moment.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

_LEFT_SHARE = 0.75
"""Connections are closed until the buffers are no fuller than this share of the bound."""
_log = logging.getLogger(__name__)


class Holder(Protocol):
    """A connection for which bytes are buffered."""

    def give_up(self, reason: str) -> None: ...


class _Account(Struct):
    bytes: int
    steps: int
    since_s: float
    """When its connection last made a step."""
    is_unfinished: bool
    """A request has begun to come and has no end."""


class Buffered:
    """One gateway has one account of its buffers. The caller supplies the time."""

    def __init__(
        self,
        bytes_max: int,
        request_timeout_s: float,
        now_s: Callable[[], float],
        *,
        honest_s: float = 0.001,
        place: str = "here",
    ) -> None:
        """`honest_s`: for so long it does not count how long bytes lie here. `place`: in words, where they lie."""
        self._honest_s = honest_s
        self._place = place
        self._bytes_max = bytes_max
        self._request_timeout_s = request_timeout_s
        self._now_s = now_s
        self._accounts: dict[Holder, _Account] = {}
        self.bytes = 0

    def note(self, holder: Holder, size: int, steps: int, *, is_unfinished: bool) -> None:
        """Note the bytes that are buffered for a connection; `steps` changes when a request is taken or an answer
        leaves."""
        if not size:
            self.forget(holder)
            return
        account = self._accounts.get(holder)
        if account is None:
            account = self._accounts[holder] = _Account(0, steps, self._now_s(), is_unfinished)
        elif account.steps != steps or is_unfinished != account.is_unfinished:
            account.steps, account.since_s, account.is_unfinished = steps, self._now_s(), is_unfinished
        self.bytes += size - account.bytes
        account.bytes = size
        if self.bytes > self._bytes_max:
            self._make_room()

    def forget(self, holder: Holder) -> None:
        """Count no bytes for this connection any more."""
        account = self._accounts.pop(holder, None)
        if account is not None:
            self.bytes -= account.bytes

    def sweep(self) -> None:
        """Close the connections whose requests take too long to arrive."""
        latest_s = self._now_s() - self._request_timeout_s
        for holder, account in list(self._accounts.items()):
            if account.is_unfinished and account.since_s <= latest_s:
                holder.give_up(f"unfinished: a request has not come to its end within {self._request_timeout_s:.0f} s")

    def _make_room(self) -> None:
        now_s = self._now_s()
        by_weight = sorted(
            self._accounts.items(),
            key=lambda item: item[1].bytes * (now_s - item[1].since_s + self._honest_s),
            reverse=True,
        )
        before = self.bytes
        closed = 0
        for holder, account in by_weight:
            if self.bytes <= self._bytes_max * _LEFT_SHARE:
                break
            closed += 1
            self.forget(holder)
            holder.give_up(
                f"no room: {account.bytes} bytes lie {self._place} for it, and {before} for all, where "
                f"{self._bytes_max} may"
            )
        _log.warning(
            "%d bytes of requests and answers that did not move on were too many: %d connections closed", before, closed
        )
