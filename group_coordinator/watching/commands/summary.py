"""The summary of a replay or a demo is one page: groups, rebalances by cause, departures with reasons, slow phases.
Pure."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import TypeVar

from group_coordinator.command_line import doubts
from group_coordinator.command_line.tables import aligned
from group_coordinator.watching.history.view import Departure, JoinedMember
from group_coordinator.watching.narrative import sentences, words
from group_coordinator.watching.narrative.rebalances import GroupStory, Rebalance, headline
from schemas.group_states import NO_GROUP, UNKNOWN, GroupState
from schemas.history import (
    History,
    HistoryRecord,
    MemberIdentity,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceStarted,
    RebalanceTrigger,
    RequestRefused,
)

GROUPS_SHOWN, GONE_SHOWN, SLOWEST_SHOWN = 30, 20, 5

T = TypeVar("T", bound=tuple[object, ...])
_WENT: tuple[Departure, ...] = "left", "expired", "dropped"
_STATE_NAMES = {UNKNOWN: "not known", NO_GROUP: GroupState.EMPTY.value}


class GroupSummary(GroupStory):
    """One group in numbers."""

    __slots__ = (
        "_page", "commits", "joined", "last_generation_id", "rebalances", "rebalancing_ms", "refused", "unbegun",
        "went",
    )  # fmt: skip

    def __init__(self, page: Summary) -> None:
        super().__init__()
        self._page = page
        self.last_generation_id = 0
        self.rebalances: Counter[RebalanceTrigger] = Counter()
        self.rebalancing_ms = 0
        self.unbegun = 0
        """Rebalances whose begin nobody tells."""
        """Time in which the group was not stable."""
        self.went: Counter[Departure] = Counter()
        self.joined = self.commits = self.refused = 0

    def follow(self, record: History) -> None:
        self.last_generation_id = max(self.last_generation_id, record.generation_id)
        super().follow(record)

    def member_joined(self, record: HistoryRecord, joined: JoinedMember) -> None:
        super().member_joined(record, joined)
        self.joined += 1

    def member_departed(self, record: History, member: MemberIdentity, departure: Departure) -> None:
        super().member_departed(record, member, departure)
        self.went[departure] += 1
        self._page.note_departure(record)

    def rebalance_started(self, record: RebalanceStarted) -> None:
        super().rebalance_started(record)
        self.rebalances[record.trigger] += 1

    def rebalance_ended(self, record: RebalanceCompleted) -> None:
        super().rebalance_ended(record)
        if record.is_begin_known is False:
            self.unbegun += 1
        elif self.current is not None:
            self.rebalancing_ms += record.duration_ms
            self._page.note_rebalance(self.current, record.duration_ms)

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        self.commits += 1

    def request_refused(self, record: RequestRefused) -> None:
        self.refused += 1


class Summary:
    """Fed with history records, in the order of each group; memory grows with the groups, not with the records."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupSummary] = {}
        self.doubts: tuple[str, ...] = ()
        """Why what the records tell may not be what happened: said before everything else."""
        self._departures: list[tuple[int, int, History]] = []
        self._slowest: list[tuple[int, int, Rebalance]] = []
        self._noted = 0

    def add(self, record: History) -> GroupSummary | None:
        """Take the next record of its group and return the group; None when the record was there before."""
        group = self.groups.get(record.group_id)
        if group is None:
            group = self.groups[record.group_id] = GroupSummary(self)
        return group if group.add(record) else None

    def note_departure(self, record: History) -> None:
        """Count a member that has left, expired or was dropped."""
        self._noted += 1
        _keep(self._departures, (record.timestamp_ms, self._noted, record), GONE_SHOWN)

    def note_rebalance(self, rebalance: Rebalance, duration_ms: int) -> None:
        """Count a rebalance that is over."""
        self._noted += 1
        _keep(self._slowest, (duration_ms, -self._noted, rebalance), SLOWEST_SHOWN)

    @property
    def by_cause(self) -> Counter[RebalanceTrigger]:
        """The number of rebalances of each cause, over all groups."""
        return sum((group.rebalances for group in self.groups.values()), Counter())

    def lines(self, zone: tzinfo = UTC) -> Iterator[str]:
        """Yield the lines of the summary."""
        yield from doubts.lines(self.doubts)
        yield from self._group_table()
        if self.by_cause:
            yield ""
            rows = [(number, sentences.TRIGGERS[trigger]) for trigger, number in self.by_cause.most_common()]
            yield from aligned(("REBALANCES", "BECAUSE"), rows)
        if self._departures:
            yield ""
            yield from self._gone_table(zone)
        if self._slowest:
            yield ""
            yield "Slowest rebalances"
            for duration_ms, _, rebalance in sorted(self._slowest, key=lambda entry: (-entry[0], -entry[1])):
                yield f"  {words.duration(duration_ms):>9}  {headline(rebalance, zone)}"

    def _group_table(self) -> Iterator[str]:
        header = (
            "GROUP", "STATE", "GENERATION/EPOCH", "REBALANCES", "REBALANCING", "JOINED", "LEFT", "EXPIRED", "DROPPED",
            "COMMITS", "REFUSED",
        )  # fmt: skip
        busiest = sorted(self.groups.items(), key=lambda item: (-item[1].rebalances.total(), item[0]))
        rows = [
            (
                group_id, _STATE_NAMES.get(totals.state, totals.state), totals.last_generation_id,
                totals.rebalances.total(), _rebalancing(totals), totals.joined,
                *(totals.went[how] for how in _WENT), totals.commits, totals.refused,
            )
            for group_id, totals in busiest[:GROUPS_SHOWN]
        ]  # fmt: skip
        yield from aligned(header, rows)
        if len(busiest) > GROUPS_SHOWN:
            yield f"... and {len(busiest) - GROUPS_SHOWN} more groups"

    def _gone_table(self, zone: tzinfo) -> Iterator[str]:
        gone_count = sum(group.went.total() for group in self.groups.values())
        yield "Members that went" + (f" (the last {GONE_SHOWN} of {gone_count})" if gone_count > GONE_SHOWN else "")
        for time_ms, _, record in sorted(self._departures, key=lambda entry: entry[:2]):
            yield f"  {words.clock(time_ms, zone)} {record.group_id}: {sentences.sentence(record, zone)}"


def _rebalancing(totals: GroupSummary) -> str:
    known = words.duration(totals.rebalancing_ms)
    return known if not totals.unbegun else f"{known} or more" if totals.rebalancing_ms else "not known"


def _keep(heap: list[T], item: T, size_max: int) -> None:
    """Keep the largest `size_max` items."""
    if len(heap) < size_max:
        heapq.heappush(heap, item)
    else:
        heapq.heappushpop(heap, item)
