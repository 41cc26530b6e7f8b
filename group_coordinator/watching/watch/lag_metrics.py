"""Lag and verdicts of watched groups as gauges: of the groups in trouble, and of those with the largest lag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.metrics import Value
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.rows import GroupRow
from group_coordinator.watching.group_metrics.group_table import largest

IN_TROUBLE = 2
"""From this severity on."""


def lag_values(index: Index, rows: Sequence[GroupRow], now_ms: int, groups_max: int) -> Iterator[Value]:
    """Yield the gauges. `groups_max`: so many groups have series of each kind."""
    by_id = {row.id: row for row in rows}
    worst = ((row.id, row.lag + (row.severity >= IN_TROUBLE) * 2**63) for row in rows if row.lag is not None)
    chosen = largest(worst, groups_max)
    with_lag = sum(bool(row.lag) for row in rows)
    yield Value(m.LAG_LEFT_OUT, (), max(0, with_lag - sum(bool(by_id[group_id].lag) for group_id, _ in chosen)))
    for group_id, _ in chosen:
        row = by_id[group_id]
        for topic, lag in index.topic_lags(group_id, now_ms).items():
            labels = (*_labels(row), topic)
            yield Value(m.GROUP_LAG, labels, lag.messages)
            if lag.behind_ms is not None:
                yield Value(m.GROUP_LAG_SECONDS, labels, lag.behind_ms / 1_000)
        if row.committed is not None:
            yield Value(m.GROUP_LAST_COMMIT, _labels(row), max(0, now_ms - row.committed) / 1_000)
    told = (row for row in rows if row.severity >= IN_TROUBLE or row.verdict == "deploying")
    worst_first = ((row.id, row.severity) for row in told)
    for group_id, _ in largest(worst_first, groups_max):
        yield Value(m.GROUP_VERDICT, (*_labels(by_id[group_id]), by_id[group_id].verdict), 1)
    for metric, numbers in (
        (m.GROUP_STALLED, {row.id: row.stalled for row in rows if row.stalled}),
        (m.GROUP_LOST, {row.id: row.lost for row in rows if row.lost}),
        (m.GROUP_UNCOMMITTED, {row.id: row.uncommitted for row in rows if row.uncommitted}),
    ):
        for group_id, number in largest(numbers.items(), groups_max):
            yield Value(metric, _labels(by_id[group_id]), number)
    found = ((row.id, sum(row.found.values())) for row in rows if row.found)
    for group_id, _ in largest(found, groups_max):
        for kind, number in by_id[group_id].found.items():
            yield Value(m.GROUP_FOUND, (*_labels(by_id[group_id]), kind), number)
    soonest = ((row.id, -row.loses_in_ms) for row in rows if row.loses_in_ms is not None)
    for group_id, in_ms in largest(soonest, groups_max):
        yield Value(m.GROUP_LOSES_IN, _labels(by_id[group_id]), -in_ms / 1_000)


def _labels(row: GroupRow) -> tuple[str, str]:
    return row.cluster, row.id.removeprefix(f"{row.cluster}/") if row.cluster else row.id
