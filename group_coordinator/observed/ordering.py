"""The records and the lines of one group in one order.

Records of a group lie in one partition, so their order is known. Lines of a broker are in the order of its log. The two
are put together by the lines that tell of a record: such a line stands before its record, and later lines stand behind.
Other lines are placed by their times.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import accumulate

from msgspec import Struct

from group_coordinator.observed import broker_lines as told
from group_coordinator.observed.broker_lines import BrokerLine
from group_coordinator.observed.clock_skew import Skew
from group_coordinator.observed.offsets_log import LogRecord
from group_coordinator.observed.transactions import Fact

_GROUP_METADATA = "GroupMetadata"


class TimedLine(Struct, frozen=True, kw_only=True, gc=False):
    """A line with its time by the clock of the records."""

    at_ms: int
    line: BrokerLine


Item = Fact | TimedLine
Value = dict[str, object] | None


def timed(lines: Sequence[BrokerLine], skews: Mapping[int | None, Skew]) -> list[TimedLine]:
    """The lines by time, each file's in the order in which they stand in it; one that comes in two files comes once."""
    lines = list(dict.fromkeys(lines))
    begins: dict[str, int] = {}
    for line in lines:
        begins[line.file] = min(begins.get(line.file, line.time_ms), line.time_ms)
    ordered = sorted(
        (TimedLine(at_ms=line.time_ms - _skew(skews, line), line=line) for line in lines),
        key=lambda each: (each.at_ms, begins[each.line.file], each.line.file, each.line.number),
    )
    seen: dict[tuple[int, int | None, told.LineEvent], str] = {}
    kept = []
    for each in ordered:
        if seen.setdefault((each.at_ms, each.line.broker, each.line.event), each.line.file) == each.line.file:
            kept.append(each)
    return kept


def _skew(skews: Mapping[int | None, Skew], line: BrokerLine) -> int:
    skew = skews.get(line.broker)
    return 0 if skew is None else skew.skew_ms


def in_order(facts: Sequence[Fact], lines: Sequence[TimedLine]) -> list[Item]:
    """One group's facts, by offset, and lines, by time, put together."""
    times = list(accumulate((fact.timestamp_ms for fact in facts), max))
    stored = [(place, fact) for place, fact in enumerate(facts) if isinstance(fact, LogRecord)]
    anchors = [_anchor(stored, line) for line in lines]
    latest = _not_after(anchors, len(facts))
    before: list[list[TimedLine]] = [[] for _ in range(len(facts) + 1)]
    earliest = 0
    for line, anchor, limit in zip(lines, anchors, latest, strict=True):
        if anchor is None or anchor < earliest:
            place = min(max(bisect_left(times, line.at_ms), earliest), max(limit, earliest))
        else:
            place = anchor
        before[place].append(line)
        # What comes after a line that tells of a record comes after the record.
        earliest = max(earliest, place + (place == anchor and not isinstance(line.line.event, _FOLLOWING)))
    items: list[Item] = []
    begin = 0
    for place, fact in enumerate(facts):
        if not in_one_step(facts[place - 1] if place else None, fact):
            begin = len(items)
        # Lines that fall into a step stand before it.
        items[begin:begin] = before[place]
        begin += len(before[place])
        items.append(fact)
    return items + before[-1]


def in_one_step(before: Item | None, item: Item) -> bool:
    """Whether a record was written in the same step as the one before it, as far as the topic tells."""
    if not isinstance(before, LogRecord) or not isinstance(item, LogRecord):
        return False
    return item.offset == before.offset + 1 and item.timestamp_ms == before.timestamp_ms


def _not_after(anchors: Sequence[int | None], end: int) -> list[int]:
    """For each line, the place of the next line that tells of a record."""
    places, limit = [], end
    for anchor in reversed(anchors):
        limit = limit if anchor is None else min(limit, anchor)
        places.append(limit)
    return places[::-1]


Stored = Sequence[tuple[int, LogRecord]]
"""The records that are no commits, each with its place among the facts."""

_TELLING = (
    told.AssignmentTaken,
    told.GroupEmptied,
    told.StaticMemberReplaced,
    told.GroupDeleted,
    told.GroupExpired,
    told.EpochBumped,
    told.TargetComputed,
    told.MemberDeparted,
    told.MemberFencedOut,
)
"""Lines that tell of a record, and stand before it."""
_FOLLOWING = (told.RebalancePrepared,)
"""Lines that may tell of a record before them."""


def _anchor(stored: Stored, line: TimedLine) -> int | None:
    """The place of a line that tells of a record; of several records, the nearest in time is meant."""
    event = line.line.event
    if not isinstance(event, _TELLING + _FOLLOWING):
        return None
    behind = isinstance(event, _FOLLOWING)
    fitting = [
        (abs(record.timestamp_ms - line.at_ms), place + behind)
        for number, (place, record) in enumerate(stored)
        if _tells_of(event, record, stored[number - 1][1] if number else None)
    ]
    return min(fitting)[1] if fitting else None


def _tells_of(event: told.LineEvent, record: LogRecord, before: LogRecord | None) -> bool:
    if record.name == _GROUP_METADATA:
        return _tells_of_classic(event, record.value, None if before is None else before.value)
    value = record.value
    match event:
        case told.EpochBumped():
            return value is not None and value.get("epoch") == event.epoch and record.name.endswith("GroupMetadata")
        case told.TargetComputed():
            return value is not None and value.get("assignment_epoch") == event.epoch
        case told.MemberDeparted() | told.MemberFencedOut():
            is_member = record.name.endswith("MemberMetadata")
            return value is None and is_member and record.key["member_id"] == event.member_id
    return False


def _tells_of_classic(event: told.LineEvent, value: Value, before: Value) -> bool:
    if value is None:
        return isinstance(event, told.GroupDeleted | told.GroupExpired)
    members = value["members"]
    assert isinstance(members, tuple)
    match event:
        case told.AssignmentTaken():
            # A static member's return writes the same generation again.
            begins = before is None or before.get("generation") != value["generation"]
            return bool(members) and value["generation"] == event.generation_id and begins
        case told.GroupEmptied():
            return not members and value["generation"] == event.generation_id
        case told.StaticMemberReplaced():
            ids = [each["member_id"] for each in members if each.get("group_instance_id") == event.group_instance_id]
            return bool(ids) and event.old_member_id not in ids and event.member_id in (None, *ids)
        case told.RebalancePrepared():
            # A group that is converted to a classic one is written, and then rebalances.
            return event.trigger == "group_converted" and value["generation"] == event.old_generation_id
    return False
