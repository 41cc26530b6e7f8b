"""The dashboard's index is kept up to date with what an observer tells.

When a group is followed anew, most of its history is the same as before, with new records at the end. Then only the
new records are added to the index.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

from group_coordinator.watching.dashboard.clusters import qualified, qualified_id
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.observer import GroupUpdate
from schemas.history import History, encode_history

_KNOWN_MAX, _ALL_KNOWN_MAX = 4_096, 2_000_000
"""What was told of one group is forgotten if it is more than the first number. If it is more than the second for all
groups together, the groups that were told of longest ago are forgotten."""
_GROUP = 20
"""A group counts as so many records more."""
_FORGOTTEN = -1
"""No hash is that."""


class _Told(NamedTuple):
    """Records, as the index takes them."""

    history: list[History]
    values: list[bytes]
    hashes: array[int]


class IndexUpdater:
    """Keeps an index up to date; knows what the index has of most groups."""

    def __init__(self, index: Index, cluster: str = "") -> None:
        """`cluster`: whose groups they are, where there are several."""
        self._index = index
        self._cluster = cluster
        self._known: OrderedDict[str, array[int]] = OrderedDict()
        """By group, the hash of each record in the order in which they were told; the group of the last word last."""
        self._all_known = 0

    def asked(self) -> list[str]:
        """Return the groups whose pages were asked for since the last call."""
        prefix = qualified_id(self._cluster, "")
        return [group_id.removeprefix(prefix) for group_id in self._index.take_asked(self._cluster)]

    def apply(self, updates: Iterable[GroupUpdate]) -> None:
        """Bring the index up to date with these updates."""
        for update in updates:
            if update.unchanged is None:
                self._go_on(update)
            else:
                self._replace(update, update.unchanged)
                self._index.take_stored(qualified_id(self._cluster, update.group_id), update.stored)
            self._forget_oldest()

    def _go_on(self, update: GroupUpdate) -> None:
        told, known = self._told(update.history), self._known.get(update.group_id)
        if known is not None:
            known = known + told.hashes
            self._know(update.group_id, known if len(known) <= _KNOWN_MAX else _hashes([_FORGOTTEN]))
        self._add(told, 0)

    def _replace(self, update: GroupUpdate, unchanged: int) -> None:
        told, known = self._told(update.history), self._known.get(update.group_id)
        if known is None and not self._index.has_group(qualified_id(self._cluster, update.group_id)):
            known = _hashes()
        if known is not None and len(known) >= unchanged and known[:1] != _hashes([_FORGOTTEN]):
            changed = known[unchanged:]
            if told.hashes[: len(changed)] == changed:
                self._know(update.group_id, known[:unchanged] + told.hashes)
                self._add(told, len(changed))
                return
        if unchanged:
            assert update.all_history is not None
            told = self._told(update.all_history())
        self._know(update.group_id, told.hashes)
        name = qualified_id(self._cluster, update.group_id)
        self._index.replace_group(name, zip(told.history, told.values, strict=True), self._cluster)

    def _know(self, group_id: str, hashes: array[int]) -> None:
        self._forget(self._known.pop(group_id, None))
        self._known[group_id] = hashes
        self._all_known += len(hashes) + _GROUP

    def _forget(self, hashes: array[int] | None) -> None:
        self._all_known -= 0 if hashes is None else len(hashes) + _GROUP

    def _forget_oldest(self) -> None:
        while self._all_known > _ALL_KNOWN_MAX:
            self._forget(self._known.popitem(last=False)[1])

    def _told(self, history: Iterable[History]) -> _Told:
        records = [qualified(self._cluster, record) for record in history]
        values = [encode_history(record) for record in records]
        return _Told(records, values, _hashes(hash(value) for value in values))

    def _add(self, told: _Told, begin: int) -> None:
        for record, value in zip(told.history[begin:], told.values[begin:], strict=True):
            self._index.add_record(record, value, self._cluster)


def _hashes(hashes: Iterable[int] = ()) -> array[int]:
    return array("q", hashes)
