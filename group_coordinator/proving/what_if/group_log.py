"""The part of a log of events that is one group's, with the clock that the log's ticks gave."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from msgspec import Struct

from coordinator_state import GroupEvent, RuleChange, group_event
from coordinator_state.rule_changes import rules_in
from schemas.events import EventError, decode_group_event
from schemas.records_file import Record
from schemas.ticks import read_tick

Span = tuple[int, int]
_PACE_MAX = 10
_TIMES_MIN_MS = 1_000
"""Shorter logs say nothing about the pace."""


class WhatIfError(ValueError):
    """The log does not show how these clients behaved. The message is for people."""


class LogClock:
    """The clock that the ticks of a log gave, at any moment of append time; between two ticks it goes evenly."""

    def __init__(self, ticks: Iterable[Span]) -> None:
        """`ticks`: (append time, clock), in the order of the log."""
        self._times: list[int] = []
        self._clocks: list[int] = []
        for time_ms, clock_ms in ticks:
            if not self._times or (time_ms > self._times[-1] and clock_ms >= self._clocks[-1]):
                self._times.append(time_ms)
                self._clocks.append(clock_ms)

    def at(self, time_ms: int) -> int:
        """Return the clock at an append time."""
        return _between(self._times, self._clocks, time_ms)

    def when(self, clock_ms: int) -> int:
        """Return the append time at which the clock has come so far."""
        return _between(self._clocks, self._times, clock_ms)


def _between(xs: list[int], ys: list[int], x: int) -> int:
    if not xs:
        return x
    after = bisect_right(xs, x)
    if after == 0:
        return ys[0] - (xs[0] - x)
    before_x, before_y = xs[after - 1], ys[after - 1]
    if after == len(xs) or xs[after] == before_x:
        return before_y + (x - before_x)
    return before_y + (ys[after] - before_y) * (x - before_x) // (xs[after] - before_x)


class GroupLog(Struct, frozen=True, kw_only=True):
    """The part of a log of events that is one group's."""

    group_id: str
    partition: int
    events: tuple[GroupEvent, ...]
    clock: LogClock
    ends_ms: int
    rule_changes: tuple[tuple[int, RuleChange], ...] = ()
    """With their append times."""


def group_log(records: Iterable[Record], group_id: str, ahead_max_ms: int) -> GroupLog:
    """Take what is this group's, and its clock, out of records of an events topic. Raises WhatIfError when there is
    nothing.

    `ahead_max_ms`: see `schemas.ticks.read_tick`.
    """
    key = group_id.encode()
    ticks: dict[int, list[Span]] = {}
    rules_named: dict[int, list[tuple[int, int, str]]] = {}
    requests: list[Record] = []
    ends: dict[int, int] = {}
    for record in records:
        partition, time_ms = record.partition or 0, record.timestamp_ms or 0
        ends[partition] = max(ends.get(partition, 0), time_ms)
        if record.key is None:
            try:
                ticks.setdefault(partition, []).append(
                    (time_ms, read_tick(record.value, record.timestamp_ms, ahead_max_ms))
                )
            except EventError:
                if (rules := rules_in(record.value)) is not None:
                    rules_named.setdefault(partition, []).append((record.offset or 0, time_ms, rules))
        elif record.key == key:
            requests.append(record)
    if not requests:
        raise WhatIfError(f"This log has no request of group {group_id}.")
    partition = requests[0].partition or 0
    if _came_at_once(ticks.get(partition, [])):
        raise WhatIfError(
            f"The records of this log came more than {_PACE_MAX} times as fast as its clock went, as those of an "
            "import do: when its clients spoke is not known any more. Replay the file that was imported into a "
            "directory (group-coordinator replay FILE --out DIR), and ask that."
        )
    clock = LogClock(ticks.get(partition, ()))
    events: list[GroupEvent] = []
    for record in sorted(requests, key=lambda request: request.offset or 0):
        time_ms = record.timestamp_ms or 0
        try:
            event = decode_group_event(group_id, record.value)
        except EventError:
            continue
        events.append(group_event(event, record.offset or 0, clock.at(time_ms), time_ms))
    changes = sorted(rules_named.get(partition, ()))
    return GroupLog(
        group_id=group_id, partition=partition, events=tuple(events), clock=clock, ends_ms=ends[partition],
        rule_changes=tuple(
            (time_ms, RuleChange(offset, clock.at(time_ms), rules)) for offset, time_ms, rules in changes
        ),
    )  # fmt: skip


def _came_at_once(ticks: list[Span]) -> bool:
    """Return whether the clock went far faster than the log came: append times do not tell when something happened."""
    if not ticks:
        return False
    (first_ms, first_clock_ms), (last_ms, last_clock_ms) = ticks[0], ticks[-1]
    return last_clock_ms - first_clock_ms > _PACE_MAX * max(last_ms - first_ms, _TIMES_MIN_MS)
