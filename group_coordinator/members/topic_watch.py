"""Keeps members informed of how many partitions their topics have."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable

from group_coordinator.members.cluster import Cluster

_MISSING_TOPICS_INTERVAL_MS = 1_000
_log = logging.getLogger(__name__)


class TopicWatch:
    """Looks topics up when asked, at an interval, and soon again those that are not there: they may just be in the
    making.

    `interest`: the topics that matter now. `tell`: who is told the partition counts. `later`: does something after so
    many milliseconds. The lock is the one under which all three are used.
    """

    def __init__(
        self,
        cluster: Cluster,
        lock: threading.Condition,
        interest: Callable[[], set[str]],
        on_counts: Callable[[dict[str, int]], None],
        later: Callable[[int, Callable[[], None]], None],
    ) -> None:
        self._cluster = cluster
        self._lock = lock
        self._interest = interest
        self._on_counts = on_counts
        self._later = later
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
        wanted = sorted(topics)
        if wanted:
            self._cluster.partition_counts(wanted, lambda counts: self._found(wanted, counts))

    def _plan_refresh(self, plan: int, interval_ms: int) -> None:
        def refresh() -> None:
            if plan == self._plan:
                self.look_up(self._interest())
                self._plan_refresh(plan, interval_ms)

        self._later(interval_ms, refresh)

    def _found(self, asked: list[str], counts: dict[str, int]) -> None:
        with self._lock:
            for topic in (name for name in asked if counts.get(name) == 0 and name not in self._missing):
                _log.warning("there is no topic %s (yet): members that want it get no partitions of it", topic)
            self._missing.difference_update(asked)
            self._missing.update(topic for topic in asked if not counts.get(topic))
            if self._missing and not self._asks_again:
                self._asks_again = True
                self._later(_MISSING_TOPICS_INTERVAL_MS, self._look_up_missing)
            self._on_counts(counts)

    def _look_up_missing(self) -> None:
        self._asks_again = False
        self._missing &= self._interest()
        self.look_up(self._missing)
