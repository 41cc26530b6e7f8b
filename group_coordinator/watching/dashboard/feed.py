"""The latest records of all groups, bounded in number and in bytes."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import NamedTuple

from schemas.history import History


class FeedItem(NamedTuple):
    """A record of the feed."""

    number: int
    """In the order in which they were seen here."""
    record: History
    size_bytes: int = 0
    """As it lies on its topic."""


class Feed:
    """The oldest records go first."""

    def __init__(self, items_max: int, bytes_max: int) -> None:
        self._items: deque[FeedItem] = deque()
        self._items_max, self._bytes_max = items_max, bytes_max
        self._bytes = 0

    def append(self, item: FeedItem) -> None:
        self._items.append(item)
        self._bytes += item.size_bytes
        while len(self._items) > self._items_max or (self._bytes > self._bytes_max and len(self._items) > 1):
            self._bytes -= self._items.popleft().size_bytes

    def between(self, after: int, before: int | None) -> list[FeedItem]:
        """Return the records with numbers between the two, the newest first; None: up to the newest."""
        newest = self._items[-1].number if self._items else 0
        skip = 0 if before is None else max(newest - before + 1, 0)
        return list(islice(reversed(self._items), skip, max(newest - after, 0)))
