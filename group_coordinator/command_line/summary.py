"""What a replay (or a demo) showed, in one page: groups, rebalances by cause, who went and why, what was slow. Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import TypeVar

from msgspec import Struct, field

from group_coordinator.command_line import doubts
from group_coordinator.command_line.tables import aligned
from group_coordinator.narrative import words
from group_coordinator.narrative.rebalances import GroupStory, headline
from schemas.history import (
    GroupDead,
    GroupEmpty,
    GroupRecorded,
    GroupStable,
    History,
    HistoryRecord,
    JoinPhaseCompleted,
    MemberDropped,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceStarted,
    RebalanceTrigger,
    RecordingGap,
    RequestRefused,
)

GROUPS_SHOWN, GONE_SHOWN, SLOWEST_SHOWN = 30, 20, 5

T = TypeVar("T", bound=tuple[object, ...])
_COUNTED: dict[type[HistoryRecord], str] = {
    MemberJoined: "joined",
    MemberLeft: "left",
    MemberExpired: "expired",
    MemberDropped: "dropped",
    OffsetsCommitted: "commits",
    RequestRefused: "refused",
}
_STATES: dict[type[HistoryRecord], str] = {
    RebalanceStarted: "PreparingRebalance",
    JoinPhaseCompleted: "CompletingRebalance",
    GroupStable: "Stable",
    GroupEmpty: "Empty",
    GroupDead: "Dead",
    GroupRecorded: "CompletingRebalance",
    RecordingGap: "not known",
}
_GONE = MemberLeft | MemberExpired | MemberDropped


class GroupCounts(Struct, kw_only=True):
    """One group in numbers."""

    state: str = "Empty"
    generation_id: int = 0
    rebalances: Counter[RebalanceTrigger] = field(default_factory=Counter)
    rebalancing_ms: int = 0
    """Time in which the group was not stable."""
    joined: int = 0
    left: int = 0
    expired: int = 0
    dropped: int = 0
    commits: int = 0
    refused: int = 0


class Summary:
    """Fed with history records, in the order of each group; memory grows with the groups, not with the records."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupCounts] = {}
        self.doubts: tuple[str, ...] = ()
        """Why what the records tell may not be what happened: said before everything else."""
        self._stories: dict[str, GroupStory] = {}
        self._gone: list[tuple[int, int, _GONE]] = []
        self._slowest: list[tuple[int, int, str]] = []
        self._numbers = 0

    def add(self, record: History, zone: tzinfo = UTC) -> None:
        """Take the next record; one that was there before counts once."""
        story = self._stories.setdefault(record.group_id, GroupStory())
        if not story.add(record):
            return
        counts = self.groups.setdefault(record.group_id, GroupCounts())
        counts.generation_id = max(counts.generation_id, record.generation_id)
        self._numbers += 1
        counted, state = _COUNTED.get(type(record)), _STATES.get(type(record))
        if counted is not None:
            setattr(counts, counted, getattr(counts, counted) + 1)
        if state is not None:
            counts.state = state
        if isinstance(record, RebalanceStarted):
            counts.rebalances[record.trigger] += 1
        if isinstance(record, RebalanceCompleted) and story.current is not None:
            counts.rebalancing_ms += record.duration_ms
            slow = (record.duration_ms, -self._numbers, headline(story.current, zone))
            _keep(self._slowest, slow, SLOWEST_SHOWN)
        if isinstance(record, _GONE):
            _keep(self._gone, (record.timestamp_ms, self._numbers, record), GONE_SHOWN)

    @property
    def by_cause(self) -> Counter[RebalanceTrigger]:
        """How many rebalances each cause had, over all groups."""
        return sum((each.rebalances for each in self.groups.values()), Counter())

    def lines(self, zone: tzinfo = UTC) -> Iterator[str]:
        """The page."""
        yield from doubts.lines(self.doubts)
        yield from self._group_table()
        if self.by_cause:
            yield ""
            rows = [(number, words.TRIGGERS[trigger]) for trigger, number in self.by_cause.most_common()]
            yield from aligned(("REBALANCES", "BECAUSE"), rows)
        if self._gone:
            yield ""
            yield from self._gone_table(zone)
        if self._slowest:
            yield ""
            yield "Slowest rebalances"
            for duration_ms, _, text in sorted(self._slowest, key=lambda each: (-each[0], -each[1])):
                yield f"  {words.duration(duration_ms):>9}  {text}"

    def _group_table(self) -> Iterator[str]:
        header = (
            "GROUP", "STATE", "GENERATION", "REBALANCES", "REBALANCING", "JOINED", "LEFT", "EXPIRED", "DROPPED", "COMMITS", "REFUSED",
        )  # fmt: skip
        busiest = sorted(self.groups.items(), key=lambda item: (-item[1].rebalances.total(), item[0]))
        rows = [
            (
                group_id, each.state, each.generation_id, each.rebalances.total(), words.duration(each.rebalancing_ms),
                each.joined, each.left, each.expired, each.dropped, each.commits, each.refused,
            )
            for group_id, each in busiest[:GROUPS_SHOWN]
        ]  # fmt: skip
        yield from aligned(header, rows)
        if len(busiest) > GROUPS_SHOWN:
            yield f"... and {len(busiest) - GROUPS_SHOWN} more groups"

    def _gone_table(self, zone: tzinfo) -> Iterator[str]:
        gone = sum(each.left + each.expired + each.dropped for each in self.groups.values())
        yield "Members that went" + (f" (the last {GONE_SHOWN} of {gone})" if gone > GONE_SHOWN else "")
        for time_ms, _, record in sorted(self._gone, key=lambda each: each[:2]):
            yield f"  {words.clock(time_ms, zone)} {record.group_id}: {words.sentence(record, zone)}"


def _keep(heap: list[T], item: T, most: int) -> None:
    """Keep the largest `most` items."""
    if len(heap) < most:
        heapq.heappush(heap, item)
    else:
        heapq.heappushpop(heap, item)
