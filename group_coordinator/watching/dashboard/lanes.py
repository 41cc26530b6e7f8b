"""Swim-lanes: for each partition who owned it when, and when nobody did. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from group_coordinator.watching.history.current_group import WITHOUT_MEMBERS
from group_coordinator.watching.history.states_over_time import Moment, StatesOverTime
from group_coordinator.watching.tables.rows import AnyRow, Ownership
from schemas.consumer_group_history import TargetAssignmentComputed
from schemas.history import AssignmentReceived, GroupDead, GroupEmpty, History, HistoryRecord
from schemas.observed_history import GroupRestored, OwnershipNotKnown

GapKind = Literal["unowned", "empty", "not_known"]
"""`unowned`: the group had members, and none of them owned the partition. `empty`: the group had no members.
`not_known`: in a watched group, no source says how long the last owner kept the partition."""

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
    """This says when the group was assigned each topic, and of which times nobody knows what was assigned. A topic that
    the group no longer reads has no gaps."""

    def __init__(self) -> None:
        self._assigned: list[tuple[int, frozenset[str]]] = []
        self._unknown: list[tuple[int, int | None]] = []

    def note(self, record: History) -> None:
        """Take the next record of the group's life, of any kind."""
        match record:
            case AssignmentReceived() | TargetAssignmentComputed() | GroupRestored():
                self._end_unknown(record)
                self._assign(record)
            case OwnershipNotKnown(reason="not_recorded"):
                self._end_unknown(record)
                self._unknown.append((record.timestamp_ms, None))
            case GroupEmpty() | GroupDead():
                self._end_unknown(record)
            case _:
                pass

    def _end_unknown(self, record: HistoryRecord) -> None:
        if self._unknown and self._unknown[-1][1] is None:
            self._unknown[-1] = self._unknown[-1][0], record.timestamp_ms

    def _assign(self, record: AssignmentReceived | TargetAssignmentComputed | GroupRestored) -> None:
        topics = frozenset(
            topic.topic for share in record.assignments for topic in share.topics or () if topic.partitions
        )
        if not self._assigned or self._assigned[-1][1] != topics:
            self._assigned.append((record.timestamp_ms, topics))

    def unknown(self, end_ms: int) -> list[Span]:
        """Return when an assignment was in force that no record has."""
        return [(from_ms, end_ms if to_ms is None else to_ms) for from_ms, to_ms in self._unknown]

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
    unknown = topics.unknown(end_ms)
    absences: dict[str, list[Span]] = {}
    partition_lanes = []
    for (topic, partition), owned in sorted(by_place.items()):
        owned.sort(key=lambda row: row.from_ms)
        if topic not in absences:
            absences[topic] = topics.absences(topic, end_ms)
        partition_lanes.append(Lane(topic, partition, owned, _gaps(owned, empty, unknown, absences[topic], end_ms)))
    return partition_lanes


class Past(StatesOverTime):
    """A group through its whole history."""

    __slots__ = ("topics",)

    def __init__(self, history: Iterable[History]) -> None:
        super().__init__()
        self.topics = TopicsOverTime()
        for record in history:
            self.add(record)

    def follow(self, record: History) -> None:
        super().follow(record)
        self.topics.note(record)

    def lanes(self, rows: Iterable[AnyRow], end_ms: int) -> list[Lane]:
        """Return the lanes of all its partitions. `rows`: those of the same history."""
        owned = [row for row in rows if isinstance(row, Ownership)]
        return lanes(owned, self.moments(), self.topics, self.first_ms, end_ms)


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


def _gaps(
    owned: Sequence[Ownership], empty: list[Span], unknown: list[Span], absent: list[Span], end_ms: int
) -> list[Gap]:
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
            spans: list[tuple[GapKind, list[Span]]] = [("empty", empty), ("not_known", unknown)]
            gaps += _split(from_ms, to_ms, kind, spans, is_open and to_ms == end_ms)
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


def _split(
    from_ms: int, to_ms: int, kind: GapKind, others: Sequence[tuple[GapKind, list[Span]]], is_open: bool
) -> list[Gap]:
    """Return a gap, cut where it is of another kind. `others`: the spans of these; the first counts."""
    parts: list[tuple[int, int, GapKind]] = []
    rest = [(from_ms, to_ms)]
    for other, spans in others:
        for start, end in spans:
            parts += [
                (max(start, low), min(end, high), other) for low, high in rest if max(start, low) < min(end, high)
            ]
        rest = [part for span in rest for part in _without(span, spans)]
    parts += [(start, end, kind) for start, end in rest]
    parts.sort()
    return [Gap(start, None if is_open and end == to_ms else end, each) for start, end, each in parts]
