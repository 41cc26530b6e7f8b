"""The dashboard's index is kept up to date with what an observer tells.

A group that is followed anew mostly tells what it told before, and something behind it: then only that is added.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from group_coordinator.dashboard.clusters import qualified, qualified_id
from group_coordinator.dashboard.index import Index
from group_coordinator.observed.observer import GroupUpdate
from schemas.events import encode_json
from schemas.history import History

_KNOWN_MAX = 4_096
"""Of a group that was told more, it is not known any more what it was told."""
_FORGOTTEN = -1
"""No hash is that."""


class _Told(NamedTuple):
    """Records, as the index takes them."""

    history: list[History]
    values: list[bytes]
    hashes: list[int]


class IndexUpdater:
    """Keeps an index up to date; knows what the index has of each group."""

    def __init__(self, index: Index, cluster: str = "") -> None:
        """`cluster`: whose groups they are, where there are several."""
        self._index = index
        self._cluster = cluster
        self._known: dict[str, list[int]] = {}
        """By group, the hash of each record in the order in which they were told."""
        self._of_others = set(index.group_ids(cluster))
        """Groups of which the index has what somebody else told: the first word of them here takes its place."""

    def apply(self, updates: Iterable[GroupUpdate]) -> None:
        """Bring the index up to date with these updates."""
        for update in updates:
            known = self._known.setdefault(update.group_id, [])
            if qualified_id(self._cluster, update.group_id) in self._of_others:
                self._replace_all(update.group_id, self._told(update.history))
            elif update.unchanged is None:
                told = self._told(update.history)
                known += told.hashes
                if len(known) > _KNOWN_MAX:
                    known[:] = [_FORGOTTEN]
                self._add(told, 0)
            else:
                self._replace(update, known, update.unchanged)

    def _replace(self, update: GroupUpdate, known: list[int], unchanged: int) -> None:
        told = self._told(update.history)
        is_known = len(known) >= unchanged and known[:1] != [_FORGOTTEN]
        changed = known[unchanged:]
        if is_known and told.hashes[: len(changed)] == changed:
            known[unchanged:] = told.hashes
            self._add(told, len(changed))
            return
        if unchanged:
            assert update.all_history is not None
            told = self._told(update.all_history())
        self._replace_all(update.group_id, told)

    def _replace_all(self, group_id: str, told: _Told) -> None:
        self._known[group_id] = told.hashes
        name = qualified_id(self._cluster, group_id)
        self._of_others.discard(name)
        self._index.replace_group(name, zip(told.history, told.values, strict=True), self._cluster)

    def _told(self, history: Iterable[History]) -> _Told:
        records = [qualified(self._cluster, record) for record in history]
        values = [encode_json(record) for record in records]
        return _Told(records, values, [hash(value) for value in values])

    def _add(self, told: _Told, begin: int) -> None:
        for record, value in zip(told.history[begin:], told.values[begin:], strict=True):
            self._index.add_record(record, value, self._cluster)
