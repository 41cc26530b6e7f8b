"""Lag and verdicts of groups as gauges: of the groups in trouble, of those with the largest lag, and of those whose
ids match a pattern."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.metrics import Value
from group_coordinator.ground.settings.operations import SeriesSettings
from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.lag import GroupLag, total
from group_coordinator.watching.dashboard.verdicts import IN_TROUBLE
from group_coordinator.watching.group_metrics.group_table import largest
from group_coordinator.watching.watch.foreign_names import NAMES, Names

PATIENCE_S = 0.1
"""For rows that have changed within the last moment."""


class LagSeries(Struct, frozen=True, kw_only=True):
    """Which series of lag there are."""

    groups_max: int
    """So many groups that stand out have series."""
    pattern: re.Pattern[str] | None = None
    """So have those whose ids it matches; None: no others."""
    partitions: bool = False
    series_max: int = 20_000
    """Of lag, of all groups. A group has all of its series or none."""
    names: Names | None = None
    """None: ours."""
    cluster: str = ""
    """What a single cluster is called under other names."""


def lag_series(settings: SeriesSettings, cluster: str) -> LagSeries:
    """Return what settings want. `cluster`: what a single one is called."""
    return LagSeries(
        groups_max=settings.metrics_groups,
        pattern=re.compile(settings.metrics_groups_pattern) if settings.metrics_groups_pattern else None,
        partitions=settings.metrics_partitions,
        series_max=settings.metrics_series_max,
        names=NAMES.get(settings.metrics_names),
        cluster=cluster,
    )


def lag_gauges(index: Index, series: LagSeries) -> Iterator[Value]:
    """Yield the gauges of all groups as they are now."""
    now_ms = time.time_ns() // 1_000_000
    return lag_values(index, index.rows(now_ms, PATIENCE_S), now_ms, series)


def lag_values(index: Index, rows: Sequence[Group], now_ms: int, series: LagSeries) -> Iterator[Value]:
    """Yield the gauges."""
    by_id = {row.group_id: row for row in rows}
    yield from _lags(index, rows, by_id, now_ms, series)
    told = (row for row in rows if row.severity >= IN_TROUBLE or row.verdict == "deploying")
    worst_first = ((row.group_id, row.severity) for row in told)
    for group_id in _with_series(worst_first, by_id, series):
        yield Value(m.GROUP_VERDICT, (*by_id[group_id].labels, by_id[group_id].verdict), 1)
    for metric, numbers in (
        (m.GROUP_STALLED, {row.group_id: count for row in rows if (count := row.found("stalled"))}),
        (m.GROUP_LOST, {row.group_id: row.lost for row in rows if row.lost}),
        (m.GROUP_UNCOMMITTED, {row.group_id: row.uncommitted_partitions for row in rows if row.uncommitted_partitions}),
    ):
        for group_id, number in largest(numbers.items(), series.groups_max):
            yield Value(metric, by_id[group_id].labels, number)
    found = ((row.group_id, sum(row.finding_counts.values())) for row in rows if row.finding_counts)
    for group_id, _ in largest(found, series.groups_max):
        for kind, number in by_id[group_id].finding_counts.items():
            yield Value(m.GROUP_FOUND, (*by_id[group_id].labels, kind), number)
    soonest = ((row.group_id, -row.loses_in_ms) for row in rows if row.loses_in_ms is not None)
    for group_id, in_ms in largest(soonest, series.groups_max):
        yield Value(m.GROUP_LOSES_IN, by_id[group_id].labels, -in_ms / 1_000)


def _lags(
    index: Index, rows: Sequence[Group], by_id: Mapping[str, Group], now_ms: int, series: LagSeries
) -> Iterator[Value]:
    worst = ((row.group_id, row.lag + (row.severity >= IN_TROUBLE) * 2**63) for row in rows if row.lag is not None)
    left = series.series_max
    groups_out = {row.group_id for row in rows if row.lag}
    series_out = 0
    told: set[tuple[m.Metric, tuple[str, ...]]] = set()
    for group_id in _with_series(worst, by_id, series):
        row, lag = by_id[group_id], index.group_lag(group_id, now_ms)
        if lag is None:
            continue
        cluster = row.cluster or series.cluster
        found = _own(row, lag, now_ms, series) if series.names is None else series.names(row, lag, cluster)
        # What other exporters tell of a topic is the same for each of its groups.
        values = [value for value in found if (value.metric, value.labels) not in told]
        if len(values) > left:
            series_out += len(values)
            continue
        left -= len(values)
        groups_out.discard(group_id)
        told.update((value.metric, value.labels) for value in values)
        yield from values
    yield Value(m.LAG_LEFT_OUT, (), len(groups_out))
    yield Value(m.LAG_SERIES_LEFT_OUT, (), series_out)


def _with_series(pairs: Iterator[tuple[str, int]], by_id: Mapping[str, Group], series: LagSeries) -> list[str]:
    """Return the groups that have series, those with the largest numbers first."""
    pattern = series.pattern
    in_order = [group_id for group_id, _ in largest(pairs, series.groups_max if pattern is None else len(by_id))]
    return [
        group_id
        for place, group_id in enumerate(in_order)
        if place < series.groups_max
        or (pattern is not None and pattern.fullmatch(by_id[group_id].id_in_cluster) is not None)
    ]


def _own(row: Group, lag: GroupLag, now_ms: int, series: LagSeries) -> Iterator[Value]:
    for topic, of_topic in lag.by_topic().items():
        known = total([each.lag for each in of_topic if each.lag is not None])
        if known is not None:
            yield Value(m.GROUP_LAG, (*row.labels, topic), known.messages)
            if known.behind_ms is not None:
                yield Value(m.GROUP_LAG_SECONDS, (*row.labels, topic), known.behind_ms / 1_000)
    if series.partitions:
        for each in lag.partitions:
            if each.lag is not None:
                labels = (*row.labels, each.topic, str(each.partition))
                yield Value(m.GROUP_PARTITION_LAG, labels, each.lag.messages)
                if each.lag.behind_ms is not None:
                    yield Value(m.GROUP_PARTITION_LAG_SECONDS, labels, each.lag.behind_ms / 1_000)
    if row.last_commit_ms is not None:
        yield Value(m.GROUP_LAST_COMMIT, row.labels, max(0, now_ms - row.last_commit_ms) / 1_000)
