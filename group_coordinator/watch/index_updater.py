"""The dashboard's index is kept up to date with what an observer tells.

A group that is followed anew mostly tells what it told before, and something behind it: then only that is added.
"""

from __future__ import annotations

from collections.abc import Iterable

from group_coordinator.dashboard.clusters import qualified, qualified_id
from group_coordinator.dashboard.index import Index
from group_coordinator.observed.observer import GroupUpdate
from schemas.events import encode_json

_KNOWN_MAX = 4_096
"""Of a group that was told more, it is not known any more what it was told."""
_FORGOTTEN = -1
"""No hash is that."""


class IndexUpdater:
    """Keeps an index up to date; knows what the index has of each group."""

    def __init__(self, index: Index, cluster: str = "") -> None:
        """`cluster`: whose groups they are, where there are several."""
        self._index = index
        self._cluster = cluster
        self._known: dict[str, list[int]] = {}
        """By group, the hash of each record in the order in which they were told."""

    def apply(self, updates: Iterable[GroupUpdate]) -> None:
        """Bring the index up to date with these updates."""
        for update in updates:
            known = self._known.setdefault(update.group_id, [])
            history = [qualified(self._cluster, record) for record in update.history]
            values = [encode_json(record) for record in history]
            hashes = [hash(value) for value in values]
            if not update.is_whole:
                begin = 0
                known += hashes
                if len(known) > _KNOWN_MAX:
                    known[:] = [_FORGOTTEN]
            elif hashes[: len(known)] == known:
                begin = len(known)
                self._known[update.group_id] = hashes
            else:
                self._known[update.group_id] = hashes
                group_id = qualified_id(self._cluster, update.group_id)
                self._index.replace_group(group_id, zip(history, values, strict=True), self._cluster)
                continue
            for record, value in zip(history[begin:], values[begin:], strict=True):
                self._index.add_record(record, value, self._cluster)
