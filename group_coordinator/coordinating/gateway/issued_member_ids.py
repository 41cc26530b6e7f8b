"""Member ids that the gateway has issued wait here for their first use."""

from __future__ import annotations

from collections.abc import Callable

from group_coordinator.ground.digests import digest

KEPT_MAX = 100_000
"""Some 200 bytes each. An id is used within the milliseconds in which its client hears of it; to push it out before,
a flood would have to ask for all of these meanwhile."""
_KEPT_MS = 300_000
"""As long as a new member may wait for its first join phase."""


class IssuedMemberIds:
    """The caller supplies the time.

    An id that is forgotten costs its client one more round: the coordinator does not know the id, the client gets
    UNKNOWN_MEMBER_ID and begins anew.
    """

    def __init__(self, now_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._until_ms: dict[bytes, float] = {}
        """By digest of group and id, the oldest first: however long names are, they take the same room."""

    def __len__(self) -> int:
        return len(self._until_ms)

    @property
    def kept_bytes(self) -> int:
        """Bytes of the digests."""
        return sum(map(len, self._until_ms))

    def remember(self, group_id: str, member_id: str) -> None:
        """Remember an id that has been issued for this group."""
        now_ms, until_ms = self._now_ms(), self._until_ms
        while until_ms:
            oldest = next(iter(until_ms))
            if until_ms[oldest] > now_ms and len(until_ms) < KEPT_MAX:
                break
            del until_ms[oldest]
        until_ms[digest(group_id, member_id)] = now_ms + _KEPT_MS

    def take(self, group_id: str, member_id: str) -> bool:
        """Return whether the gateway has issued the id and this is its first use."""
        until_ms = self._until_ms.pop(digest(group_id, member_id), None)
        return until_ms is not None and until_ms > self._now_ms()
