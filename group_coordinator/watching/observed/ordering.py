"""The records and the lines of one group in one order.

Records of a group lie in one partition, so their order is known. Lines of a broker are in the order of its log. The two
are put together by the lines that tell of a record: such a line stands before its record, and later lines stand behind.
Other lines are placed by their times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import median_low
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine
from group_coordinator.watching.observed.clock_skew import Skew
from group_coordinator.watching.observed.offsets_log import (
    GROUP_METADATA,
    CommitRecord,
    LogRecord,
    deletes_classic_group,
)
from group_coordinator.watching.observed.stored_groups import is_written_again
from group_coordinator.watching.observed.transactions import Fact

_TOLD_LATE_MS = 1_000
"""So long may a broker need between what it does and the line that tells of it."""
_LATE_MAX_MS = 30_000
"""The same, where it stands still between the two."""
_TOLD_AGAIN = ("instance", "converted")
"""Tokens of records of which several lines tell: static members come back while one generation forms."""


OF_RECORDS = ""
"""In place of the file of a line that was not read, but follows from a record: its number is the record's offset."""


class TimedLine(Struct, frozen=True, kw_only=True, gc=False):
    """A line with its time by the clock of the records."""

    at_ms: int
    line: BrokerLine


Item = Fact | TimedLine
Value = dict[str, object] | None
Members = tuple[dict[str, object], ...]


def timed(
    lines: Iterable[BrokerLine], skews: Mapping[int | None, Skew], begins_ms: Mapping[str, int]
) -> list[TimedLine]:
    """Return one group's lines by time, each file's in its own order; a line that comes in two files comes once.

    `begins_ms`: the time of each file's first line.
    """
    ordered = sorted(
        (TimedLine(at_ms=line.time_ms - _skew(skews, line), line=line) for line in lines),
        key=lambda line: (line.at_ms, begins_ms.get(line.line.file, 0), line.line.file, line.line.number),
    )
    seen: dict[tuple[int, int | None, line_events.LineEvent], str] = {}
    distinct = []
    for line in ordered:
        if seen.setdefault((line.at_ms, line.line.broker, line.line.event), line.line.file) == line.line.file:
            distinct.append(line)
    return _departures_first(distinct)


def _departures_first(lines: Iterable[TimedLine]) -> list[TimedLine]:
    """Put each departure that is told late before the lines of what followed from it.

    Brokers of 3.x remove a member, begin a rebalance or end a join phase that waited for it alone, and only then tell
    that it left. A member that leaves at any other time has a line of the rebalance that it begins before its own.
    """
    ordered: list[TimedLine] = []
    for line in lines:
        event, place = line.line.event, len(ordered)
        if isinstance(event, line_events.MemberDeparted) and event.is_told_late:
            for before in range(len(ordered) - 1, -1, -1):
                earlier = ordered[before].line.event
                if ordered[before].line.file != line.line.file or line.at_ms - ordered[before].at_ms > _TOLD_LATE_MS:
                    break
                named = earlier.member_ids if isinstance(earlier, line_events.RebalancePrepared) else ()
                is_its_own = event.member_id in named
                if not is_its_own and not isinstance(earlier, line_events.JoinPhaseEnded | line_events.GroupEmptied):
                    break
                place = before
                if is_its_own:
                    break
        if place < len(ordered):
            line = replace(line, at_ms=ordered[place].at_ms)
        ordered.insert(place, line)
    return ordered


def _skew(skews: Mapping[int | None, Skew], line: BrokerLine) -> int:
    skew = skews.get(line.broker)
    return 0 if skew is None else skew.skew_ms


def in_order(facts: Sequence[Fact], lines: Sequence[TimedLine]) -> list[Item]:
    """Merge one group's facts, by offset, with its lines, by time."""
    times = list(accumulate((fact.timestamp_ms for fact in facts), max))
    index = _index(facts)
    found = _told_once([_anchor(index, line) for line in lines])
    anchors = [None if anchor is None else anchor.place for anchor in found]
    latest = _not_after(anchors, len(facts))
    before: list[list[TimedLine]] = [[] for _ in range(len(facts) + 1)]
    earliest = 0
    for line, told, anchor, limit in zip(lines, found, anchors, latest, strict=True):
        if anchor is None or anchor < earliest:
            place = min(max(bisect_left(times, line.at_ms), earliest), max(limit, earliest))
        else:
            place = anchor
        before[place].append(line)
        # What comes after a line that tells of a record comes after the record.
        earliest = max(earliest, place + (place == anchor and told is not None and told.is_at_once))
    items: list[Item] = []
    begin = 0
    for place, fact in enumerate(facts):
        if not in_one_step(facts[place - 1] if place else None, fact):
            begin = len(items)
        if deletes_classic_group(fact) and all(isinstance(item, CommitRecord) for item in items[begin:]):
            begin = len(items)  # its offsets are removed first, so a line of its end stands behind them
        # Lines that fall into a step stand before it.
        items[begin:begin] = before[place]
        begin += len(before[place])
        items.append(fact)
    return items + before[-1]


def in_one_step(before: Item | None, item: Item) -> bool:
    """Return whether a record was written in the same step as the one before it, as far as the topic tells."""
    if not isinstance(before, LogRecord | CommitRecord) or not isinstance(item, LogRecord | CommitRecord):
        return False
    return item.offset == before.offset + 1 and item.timestamp_ms == before.timestamp_ms


def _not_after(anchors: Sequence[int | None], end: int) -> list[int]:
    """Return for each line the place of the next line that tells of a record."""
    places, limit = [], end
    for anchor in reversed(anchors):
        limit = limit if anchor is None else min(limit, anchor)
        places.append(limit)
    return places[::-1]


_FOLLOWING = (line_events.RebalancePrepared,)
"""Lines that may tell of a record before them; the others that tell of a record stand before it."""

Token = tuple[str, object]
"""What a line and the record that it tells of have in common."""


class _Stored(NamedTuple):
    """A record that lines may tell of."""

    place: int
    timestamp_ms: int
    members: Members
    is_again: bool
    """It stores the same generation again."""


class _Anchor(NamedTuple):
    """Where a line stands that tells of a record."""

    place: int
    is_at_once: bool
    """The record before which it stands was written when the line was, so that later lines stand behind it."""
    token: Token
    late_ms: int
    """By how much the line is later than the record."""


def _told_once(anchors: Sequence[_Anchor | None]) -> list[_Anchor | None]:
    """Keep of the lines that seem to tell of one record the nearest, and none that is much later than others are.

    What a coordinator that had lost its partition did is told, and was never written: its lines tell of no record.
    """
    found = [anchor for anchor in anchors if anchor is not None]
    usual_ms = median_low([anchor.late_ms for anchor in found]) if found else 0
    nearest_ms: dict[tuple[int, Token], int] = {}
    for anchor in found:
        key = anchor.place, anchor.token
        nearest_ms[key] = min(abs(anchor.late_ms), nearest_ms.get(key, abs(anchor.late_ms)))
    return [
        anchor
        if anchor is not None
        and anchor.late_ms <= usual_ms + _LATE_MAX_MS
        and (anchor.token[0] in _TOLD_AGAIN or abs(anchor.late_ms) == nearest_ms[anchor.place, anchor.token])
        else None
        for anchor in anchors
    ]


def _index(facts: Sequence[Fact]) -> dict[Token, list[_Stored]]:
    """Return the records that are no commits, by the tokens that lines have in common with them."""
    index: dict[Token, list[_Stored]] = {}
    generation: object = None
    for place, fact in enumerate(facts):
        if not isinstance(fact, LogRecord):
            continue
        members = fact.value.get("members") if fact.value else None
        is_again = fact.value is not None and (fact.value.get("generation") == generation or is_written_again(fact))
        stored = _Stored(place, fact.timestamp_ms, members if isinstance(members, tuple) else (), is_again)
        for token in _tokens(fact, is_again):
            index.setdefault(token, []).append(stored)
        if fact.name == GROUP_METADATA:
            generation = None if fact.value is None else fact.value["generation"]
    return index


def _tokens(record: LogRecord, is_again: bool) -> Iterator[Token]:
    value = record.value
    if record.name == GROUP_METADATA:
        yield from _tokens_of_classic(value, is_again)
    elif value is None:
        if record.name.endswith("MemberMetadata"):
            yield "member gone", record.key["member_id"]
        elif record.name.endswith(GROUP_METADATA):
            yield "group gone", None
    elif "assignment_epoch" in value:
        yield "target", value["assignment_epoch"]
    elif record.name.endswith(GROUP_METADATA):
        yield "epoch", value["epoch"]


def _tokens_of_classic(value: Value, is_again: bool) -> Iterator[Token]:
    if value is None:
        yield "group gone", None
        return
    members = value["members"]
    assert isinstance(members, tuple)
    # A group that is converted to a classic one is written, and then rebalances.
    yield "converted", value["generation"]
    if not members:
        yield "empty", value["generation"]
    elif not is_again:
        yield "assigned", value["generation"]
    for instance_id in {member.get("group_instance_id"): None for member in members}:
        if instance_id is not None:
            yield "instance", instance_id


def _token(event: line_events.LineEvent) -> Token | None:
    match event:
        case line_events.AssignmentTaken():
            return "assigned", event.generation_id
        case line_events.GroupEmptied():
            return "empty", event.generation_id
        case line_events.StaticMemberReplaced():
            return "instance", event.group_instance_id
        case line_events.GroupDeleted() | line_events.GroupExpired():
            return "group gone", None
        case line_events.EpochBumped():
            return "epoch", event.epoch
        case line_events.TargetComputed():
            return "target", event.epoch
        case line_events.MemberDeparted() | line_events.MemberFencedOut():
            return "member gone", event.member_id
        case line_events.RebalancePrepared() if event.trigger == "group_converted":
            return "converted", event.old_generation_id
    return None


def _anchor(index: Mapping[Token, Sequence[_Stored]], line: TimedLine) -> _Anchor | None:
    """Return the place of a line that tells of a record; of several records, the nearest in time is meant."""
    event = line.line.event
    token = _token(event)
    if token is None:
        return None
    records = index.get(token, ())
    if isinstance(event, line_events.StaticMemberReplaced):
        # It is stored behind the last record that has the member's old id. Any other id may be its new one.
        olds = [record.place for record in records if event.old_member_id in _ids(event, record)]
        records = [
            record for record in records if record.place > max(olds, default=-1) and _may_be(event, record, olds)
        ]
    if not records:
        return None
    nearest = min(records, key=lambda record: (abs(record.timestamp_ms - line.at_ms), record.place))
    late_ms = line.at_ms - nearest.timestamp_ms
    if isinstance(event, _FOLLOWING):
        return _Anchor(nearest.place + 1, is_at_once=False, token=token, late_ms=late_ms)
    # A static member that comes back while its group rebalances is stored with the generation, and not at once.
    is_at_once = nearest.is_again or not isinstance(event, line_events.StaticMemberReplaced)
    return _Anchor(nearest.place, is_at_once=is_at_once, token=token, late_ms=late_ms)


def _may_be(event: line_events.StaticMemberReplaced, record: _Stored, olds: Sequence[int]) -> bool:
    """Return whether a record has the new id of a static member that is back. `olds`: places with its old one."""
    return bool(olds) if event.member_id is None else event.member_id in _ids(event, record)


def _ids(event: line_events.StaticMemberReplaced, record: _Stored) -> list[object]:
    instance_id = event.group_instance_id
    return [member["member_id"] for member in record.members if member.get("group_instance_id") == instance_id]
