"""Repeated records are not counted again: the sink is at least once, so a task that is retried writes its records
again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

from group_coordinator.watching.group_metrics.names import kept_name
from group_coordinator.watching.history.order import take_place

GROUPS_REMEMBERED = 100_000
"""A repeat follows its batch within minutes; groups that were silent for longer than so many others need no memory."""


class Remembered(OrderedDict[Hashable, Any]):
    """The most recently used items, up to a number.

    An ordered dictionary gives up its first key at once; a plain one looks for it among the places of all that were
    deleted.
    """

    def __init__(self, entries_max: int) -> None:
        super().__init__()
        self._entries_max = entries_max

    def __setitem__(self, key: Hashable, value: Any) -> None:
        """Remember this as the newest."""
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._entries_max:
            self.popitem(last=False)


class Repeats:
    """Tells repeats from records by (group, epoch, seq): within a partition those of a group come in this order."""

    def __init__(self, groups_max: int = GROUPS_REMEMBERED) -> None:
        self._groups_max = groups_max
        self._last: dict[tuple[str, int], Remembered] = {}

    def is_new(self, topic: str, partition: int, group_id: str, epoch: int, seq: int) -> bool:
        """Return whether this record has not been seen before, and note it."""
        last = self._last.get((topic, partition))
        if last is None:
            last = self._last[topic, partition] = Remembered(self._groups_max)
        return take_place(last, kept_name(group_id), (epoch, seq))
