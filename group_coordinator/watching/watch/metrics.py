"""Metrics of a watcher: its groups under the names that the coordinator's own groups have, and its sources' ages."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.health import reasons_not_ready
from group_coordinator.ground.monitoring.metrics import Metric, Value
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.group_metrics.group_table import STATES, GroupTable, labels_of, largest, pending_values
from group_coordinator.watching.group_metrics.tally import HistoryCounts
from group_coordinator.watching.history.fold import tell
from group_coordinator.watching.watch.conditions import ConditionState
from group_coordinator.watching.watch.lag_metrics import PATIENCE_S, LagSeries, lag_values
from group_coordinator.watching.watch.writing import HistorySource
from schemas.consumer_group_history import GroupKind
from schemas.group_states import ASSIGNING, NO_GROUP, REBALANCING, RECONCILING, UNKNOWN, GroupState
from schemas.history import History

_STATES = (*STATES, UNKNOWN)
_KINDS = ("classic", *get_args(GroupKind))
_REBALANCING = frozenset({*REBALANCING, ASSIGNING, RECONCILING})


def watch_metrics(
    source: HistorySource, index: Index, series: LagSeries, more: Callable[[], Iterable[Value]] = tuple
) -> Metrics:
    """Return the metrics. `series`: which groups have some of their own. `more`: further gauges.

    Counters count what happens from now on.
    """
    metrics = Metrics(m.OF_A_WATCHER)
    groups = WatchedGroups(index, series)
    began_ms = now_ms()
    counts = HistoryCounts(metrics, groups)

    def count(record: History) -> None:
        if record.timestamp_ms >= began_ms:
            tell(record, counts)

    probes = WatchProbes(source)
    metrics.values_from(groups.values)
    metrics.values_from(more)
    metrics.values_from(lambda: source_ages(index))
    metrics.values_from(lambda: clusters_by_state(source))
    metrics.values_from(lambda: [Value(m.READY, (), 0.0 if reasons_not_ready(probes) else 1.0)])
    index.on_news = count
    return metrics


class WatchedGroups(GroupTable):
    """The groups as gauges, as the index has them."""

    def __init__(self, index: Index, series: LagSeries, clock: Callable[[], int] | None = None) -> None:
        super().__init__(series.groups_max, lambda _: 0, time.monotonic)
        self._index, self._series = index, series
        self._named_groups = series.groups_max
        self._now_ms = clock or now_ms

    def values(self) -> Iterator[Value]:
        time_ms = self._now_ms()
        rows = [row for row in self._index.rows(time_ms, PATIENCE_S) if row.state not in (NO_GROUP, GroupState.DEAD)]
        states = Counter((row.type, row.state) for row in rows) + self._index.on_disk()
        yield from [Value(m.GROUPS, (kind, state), states[kind, state]) for kind in _KINDS for state in _STATES]
        members: Counter[str] = Counter()
        for row in rows:
            members["classic"] += row.classic_members
            members[row.type] += row.members - row.classic_members
        yield from [Value(m.MEMBERS, (kind,), members[kind]) for kind in _KINDS]
        if self._named_groups or self._series.pattern is not None:
            yield from self._of_rows(rows, time_ms)
            yield from lag_values(self._index, rows, time_ms, self._series)

    def _of_rows(self, rows: list[Group], time_ms: int) -> Iterator[Value]:
        has_clusters = any(row.cluster for row in rows)
        running = (
            ((row.group_id, row.state), max(0, time_ms - (row.last_rebalance_ms or row.state_since_ms)))
            for row in rows
            if row.state in _REBALANCING
        )
        for (group_id, state), running_ms in largest(running, self._named_groups):
            labels = labels_of(group_id, has_clusters=has_clusters)
            yield Value(m.GROUP_REBALANCING, (*labels, state), running_ms / 1_000)
        held_up = ((row.group_id, time_ms - row.held_up_since_ms) for row in rows if row.held_up_since_ms is not None)
        for group_id, held_ms in largest(held_up, self._named_groups):
            yield Value(
                m.GROUP_HELD_UP, labels_of(group_id, has_clusters=has_clusters), max(0, held_ms) / 1_000
            )
        yield from pending_values(self.pending, lambda _: time_ms, self._named_groups, has_clusters=has_clusters)
        sizes = ((row.group_id, row.members) for row in rows if row.members)
        largest_groups: dict[Metric, list[tuple[str, int]]] = {m.GROUP_MEMBERS: largest(sizes, self._named_groups)}
        with self._lock:
            largest_groups[m.GROUP_REBALANCES] = self.rebalances.most(self._named_groups)
            largest_groups[m.GROUP_EXPIRIES] = self.expiries.most(self._named_groups)
        for metric, numbers in largest_groups.items():
            for group_id, number in numbers:
                yield Value(metric, labels_of(group_id, has_clusters=has_clusters), number)


def source_ages(index: Index) -> Iterator[Value]:
    """Yield the age of the last word of each source."""
    time_ms = now_ms()
    clusters = index.watched
    for cluster in clusters:
        for source in cluster.sources:
            if source.to_ms is not None:
                name = f"{cluster.cluster}: {source.name}" if len(clusters) > 1 else source.name
                yield Value(m.SOURCE_AGE, (name,), max(0, time_ms - source.to_ms) / 1_000)


def clusters_by_state(source: HistorySource) -> Iterator[Value]:
    """Yield how many clusters are watched, and how many are not."""
    states = Counter(condition.state for condition in source.conditions().values())
    for state in get_args(ConditionState):
        yield Value(m.WATCHED_CLUSTERS, (state,), states[state])


class WatchProbes:
    """*Ready*: all that was there at the start is read, and what comes is."""

    def __init__(self, source: HistorySource) -> None:
        self._source = source

    def not_live(self) -> list[str]:
        return []

    def not_ready(self) -> list[str]:
        progress = self._source.progress()
        return [] if progress["caught_up"] else [progress["detail"]]


def now_ms() -> int:
    return time.time_ns() // 1_000_000
