"""Keeps members informed of how many partitions their topics have."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from group_coordinator.coordinating.members.cluster import Cluster

_MISSING_TOPICS_INTERVAL_MS = 1_000
_log = logging.getLogger(__name__)


class TopicWatch:
    """Looks topics up when asked, at an interval, and soon again those that are not there: they may just be in the
    making.

    `interest`: the topics that matter now. `on_counts` gets the partition counts. `call_later`: after so many
    milliseconds. The lock is the one under which all three are used.
    """

    def __init__(
        self,
        cluster: Cluster,
        lock: threading.Condition,
        interest: Callable[[], set[str]],
        on_counts: Callable[[dict[str, int]], None],
        call_later: Callable[[int, Callable[[], None]], None],
    ) -> None:
        self._cluster = cluster
        self._lock = lock
        self._interest = interest
        self._on_counts = on_counts
        self._call_later = call_later
        self._interval_ms: int | None = None
        self._plan = 0
        self._missing: set[str] = set()
        self._asks_again = False

    def at_least_every(self, interval_ms: int) -> None:
        """Refresh the topics of interest at this interval, unless it is a shorter one already."""
        if self._interval_ms is None or interval_ms < self._interval_ms:
            self._interval_ms = interval_ms
            self._plan += 1
            self._plan_refresh(self._plan, interval_ms)

    def look_up(self, topics: Iterable[str]) -> None:
        names = sorted(topics)
        if names:
            self._cluster.partition_counts(names, lambda counts: self._take_counts(names, counts))

    def _plan_refresh(self, plan: int, interval_ms: int) -> None:
        def refresh() -> None:
            if plan == self._plan:
                self.look_up(self._interest())
                self._plan_refresh(plan, interval_ms)

        self._call_later(interval_ms, refresh)

    def _take_counts(self, names: list[str], counts: dict[str, int]) -> None:
        with self._lock:
            for topic in (name for name in names if counts.get(name) == 0 and name not in self._missing):
                _log.warning("there is no topic %s (yet): members that want it get no partitions of it", topic)
            self._missing.difference_update(names)
            self._missing.update(topic for topic in names if not counts.get(topic))
            if self._missing and not self._asks_again:
                self._asks_again = True
                self._call_later(_MISSING_TOPICS_INTERVAL_MS, self._look_up_missing)
            self._on_counts(counts)

    def _look_up_missing(self) -> None:
        self._asks_again = False
        self._missing &= self._interest()
        self.look_up(self._missing)
