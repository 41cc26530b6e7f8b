"""The list of groups is kept up to date group by group: whoever asks for it goes through changes alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from heapq import heappop, heappush
from itertools import islice
from threading import Lock

from group_coordinator.ground.system.yielding_lock import YieldingLock
from group_coordinator.watching.dashboard.api_types import Group

_AT_ONCE = 32
"""Of so many groups the rows are made while the lock is held."""

_DUE_MAX = 1_000
"""So many entries of the queue may be without a meaning, beside as many as have one."""

Make = Callable[[str, int], Group | None]
"""Group, now -> its row; None: it is not in the list. The lock is held."""


class GroupList:
    """Has a row for each group in memory. Any thread may ask; the rows that changed are for one caller only."""

    def __init__(self, lock: YieldingLock, make: Make) -> None:
        self._lock = lock
        self._make = make
        self._changed: dict[str, None] = {}
        """Groups whose rows are older than they are."""
        self._rows: dict[str, Group] = {}
        self._untold: dict[str, None] = {}
        """Groups whose rows are others since the changed ones were taken."""
        self._due: list[tuple[int, str]] = []
        """When time alone may change a row, soonest first."""
        self._due_ms: dict[str, int] = {}
        """By group, the soonest of these; perhaps it is too soon."""
        self._refreshing = Lock()

    def changed(self, group_ids: Iterable[str]) -> None:
        """Note that something has come of these groups. The lock is held."""
        self._changed.update(dict.fromkeys(group_ids))

    def left(self, group_id: str) -> None:
        """Note that a group is not in memory any more. The lock is held."""
        for of_groups in (self._rows, self._untold, self._changed):
            of_groups.pop(group_id, None)

    def rows(self, now_ms: int, patience_s: float | None = None) -> list[Group]:
        """Return the rows by group id. `patience_s`: rows that are not made anew by then are as they were, or missing
        where they are new; None: all are made. What another thread makes anew meanwhile is not waited for."""
        self._refresh_soon(now_ms, patience_s)
        rows = (self._rows.get(group_id) for group_id in sorted(self._rows))
        return [row for row in rows if row is not None]  # other threads may remove some meanwhile

    def take_changed(self, now_ms: int) -> list[Group]:
        """Return the rows that are others than at the last call."""
        with self._refreshing:
            self._refresh(now_ms, None)
            untold, self._untold = self._untold, {}
        rows = (self._rows.get(group_id) for group_id in untold)
        return [row for row in rows if row is not None]

    def _refresh_soon(self, now_ms: int, patience_s: float | None) -> None:
        if self._refreshing.acquire(blocking=patience_s is None):
            try:
                self._refresh(now_ms, None if patience_s is None else time.monotonic() + patience_s)
            finally:
                self._refreshing.release()

    def _refresh(self, now_ms: int, give_up_s: float | None) -> None:
        self._note_due(now_ms)
        while self._changed and (give_up_s is None or time.monotonic() < give_up_s):
            with self._lock:
                for group_id in list(islice(self._changed, _AT_ONCE)):
                    del self._changed[group_id]
                    self._make_anew(group_id, now_ms)

    def _note_due(self, now_ms: int) -> None:
        while self._due and self._due[0][0] <= now_ms:
            due_ms, group_id = heappop(self._due)
            if self._due_ms.get(group_id) == due_ms:
                del self._due_ms[group_id]
                self._changed[group_id] = None
        if len(self._due) > 2 * len(self._due_ms) + _DUE_MAX:
            self._due = sorted((due_ms, group_id) for group_id, due_ms in self._due_ms.items())

    def _make_anew(self, group_id: str, now_ms: int) -> None:
        row = self._make(group_id, now_ms)
        if row is None:
            return
        if self._rows.get(group_id) != row:
            self._rows[group_id] = row
            self._untold[group_id] = None
        until_ms = row.holds_until_ms
        if until_ms is not None and until_ms < self._due_ms.get(group_id, until_ms + 1):
            self._due_ms[group_id] = until_ms
            heappush(self._due, (until_ms, group_id))
