"""Swim-lanes: for each partition who owned it when, and when nobody did. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from group_coordinator.dashboard.facts import WITHOUT_MEMBERS, Moment
from group_coordinator.tables.rows import Ownership
from schemas.history import AssignmentReceived
from schemas.observed_history import TargetAssignmentComputed

GapKind = Literal["unowned", "empty", "not_known"]
"""`unowned`: the group had members, and none of them had the partition. `empty`: nobody was there. `not_known`: nobody
says how long the last owner kept it, in a watched group."""

Span = tuple[int, int]
"""From, to."""


class Gap(NamedTuple):
    """Time without owner."""

    from_ms: int
    to_ms: int | None
    kind: GapKind


class Lane(NamedTuple):
    """One partition over time."""

    topic: str
    partition: int
    owned: list[Ownership]
    """Without overlaps, by time."""
    gaps: list[Gap]


class TopicsOverTime:
    """The times at which the group was assigned each topic: a topic that it no longer reads has no gaps."""

    def __init__(self) -> None:
        self._assigned: list[tuple[int, frozenset[str]]] = []

    def add(self, record: AssignmentReceived | TargetAssignmentComputed) -> None:
        topics = frozenset(
            topic.topic for share in record.assignments for topic in share.topics or () if topic.partitions
        )
        if not self._assigned or self._assigned[-1][1] != topics:
            self._assigned.append((record.timestamp_ms, topics))

    def absences(self, topic: str, end_ms: int) -> list[Span]:
        """Return when assignments without the topic were in force."""
        spans = []
        for number, (from_ms, topics) in enumerate(self._assigned):
            to_ms = self._assigned[number + 1][0] if number + 1 < len(self._assigned) else end_ms
            if topic not in topics and topics:
                spans.append((from_ms, to_ms))
        return spans


def lanes(
    rows: Iterable[Ownership], moments: Sequence[Moment], topics: TopicsOverTime, from_ms: int, end_ms: int
) -> list[Lane]:
    """Return a lane for each partition that was ever owned, by topic and number. Gaps begin with its first owner."""
    by_place: dict[tuple[str, int], list[Ownership]] = {}
    for row in rows:
        if row.to_ms is None or row.to_ms >= from_ms:
            by_place.setdefault((row.topic, row.partition), []).append(row)
    empty = _empty_spans(moments, end_ms)
    absences: dict[str, list[Span]] = {}
    partition_lanes = []
    for (topic, partition), owned in sorted(by_place.items()):
        owned.sort(key=lambda row: row.from_ms)
        if topic not in absences:
            absences[topic] = topics.absences(topic, end_ms)
        partition_lanes.append(Lane(topic, partition, owned, _gaps(owned, empty, absences[topic], end_ms)))
    return partition_lanes


def unowned_ms(all_lanes: Iterable[Lane], end_ms: int) -> int:
    """Return the milliseconds without owner while the group had members, summed over all partitions."""
    return sum((end_ms if gap.to_ms is None else gap.to_ms) - gap.from_ms
               for lane in all_lanes for gap in lane.gaps if gap.kind == "unowned")  # fmt: skip


def _empty_spans(moments: Sequence[Moment], end_ms: int) -> list[Span]:
    spans = []
    for number, moment in enumerate(moments):
        if moment.state in WITHOUT_MEMBERS:
            to_ms = moments[number + 1].since_ms if number + 1 < len(moments) else end_ms
            spans.append((moment.since_ms, to_ms))
    return spans


def _gaps(owned: Sequence[Ownership], empty: list[Span], absent: list[Span], end_ms: int) -> list[Gap]:
    gaps: list[Gap] = []
    for number, row in enumerate(owned):
        if row.to_ms is None:
            continue
        next_ms = owned[number + 1].from_ms if number + 1 < len(owned) else end_ms
        if next_ms <= row.to_ms:
            continue
        is_open = number + 1 == len(owned)
        kind: GapKind = "not_known" if row.ended_by == "unknown" else "unowned"
        for from_ms, to_ms in _without((row.to_ms, next_ms), absent):
            gaps += _split(from_ms, to_ms, kind, empty, is_open and to_ms == end_ms)
    return gaps


def _without(span: Span, holes: list[Span]) -> list[Span]:
    """Return the rest of a span."""
    parts, at_ms = [], span[0]
    for from_ms, to_ms in holes:
        if to_ms <= at_ms or from_ms >= span[1]:
            continue
        if from_ms > at_ms:
            parts.append((at_ms, from_ms))
        at_ms = max(at_ms, to_ms)
    if at_ms < span[1]:
        parts.append((at_ms, span[1]))
    return parts


def _split(from_ms: int, to_ms: int, kind: GapKind, empty: list[Span], is_open: bool) -> list[Gap]:
    """A gap, cut where the group became empty and where it was no longer."""
    parts: list[tuple[int, int, GapKind]] = [
        (start, end, kind) for start, end in _without((from_ms, to_ms), empty)
    ]
    for start, end in empty:
        low, high = max(start, from_ms), min(end, to_ms)
        if low < high:
            parts.append((low, high, "empty"))
    parts.sort()
    return [Gap(start, None if is_open and end == to_ms else end, kind) for start, end, kind in parts]
