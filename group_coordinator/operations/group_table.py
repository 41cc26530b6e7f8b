"""The groups as they are now, as gauges: all of them summed up, and by name only the few that stand out."""

from __future__ import annotations

import heapq
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from group_coordinator.operations.light_records import LightSnapshot
from group_coordinator.operations.metrics import (
    GROUP_EXPIRIES,
    GROUP_MEMBERS,
    GROUP_REBALANCES,
    GROUP_REBALANCING,
    GROUP_REFUSALS,
    GROUPS,
    MEMBERS,
    Metric,
    Value,
)
from group_coordinator.operations.names import kept_name
from schemas.group_states import ASSIGNING, REBALANCING, RECONCILING, GroupState

STATES = (*[state.value for state in GroupState if state is not GroupState.DEAD], ASSIGNING, RECONCILING)
"""The last two are of consumer groups. Dead is no group, but an id that has settings."""
RECENTLY_S = 600
_SLICE_S = 60
NAMES_PER_SLICE = 20_000
"""Group ids come from outside: a sender that makes up new ones must not fill the memory."""


_Key = TypeVar("_Key", str, tuple[str, str])


class _Group(NamedTuple):
    state: str
    since_ms: int
    members: int


class Recently:
    """A count for each group over the last ten minutes, by the minute."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._slices: deque[tuple[int, Counter[str]]] = deque(maxlen=RECENTLY_S // _SLICE_S + 1)

    def add(self, group_id: str) -> None:
        number = int(self._now_s() // _SLICE_S)
        if not self._slices or self._slices[-1][0] != number:
            self._slices.append((number, Counter()))
        counts, name = self._slices[-1][1], kept_name(group_id)
        if name in counts or len(counts) < NAMES_PER_SLICE:
            counts[name] += 1

    def most(self, groups_max: int) -> list[tuple[str, int]]:
        """Return the groups with the highest counts."""
        oldest = int(self._now_s() // _SLICE_S) - RECENTLY_S // _SLICE_S
        total: Counter[str] = Counter()
        for begun, counts in self._slices:
            if begun > oldest:
                total.update(counts)
        return largest(total.items(), groups_max)


class GroupTable:
    """Kept up to date by snapshots and happenings; `values` are its gauges."""

    def __init__(self, top: int, clock_ms: Callable[[str], int], now_s: Callable[[], float]) -> None:
        """`top`: how many groups have series of their own. `clock_ms`: the time of a group, as the ticks say."""
        self._top = top
        self._clock_ms = clock_ms
        self._groups: dict[str, _Group] = {}
        self._states: Counter[str] = Counter()
        self._members = 0
        self._rebalancing: dict[str, _Group] = {}
        self._lock = threading.Lock()
        self.rebalances, self.expiries, self.refusals = Recently(now_s), Recently(now_s), Recently(now_s)

    def put(self, group_id: str, snapshot: LightSnapshot | None) -> None:
        """Store the group as it is now; None removes it."""
        with self._lock:
            before = self._groups.pop(group_id, None)
            self._rebalancing.pop(group_id, None)
            if before is not None:
                self._states[before.state] -= 1
                self._members -= before.members
            if snapshot is None or snapshot.state == GroupState.DEAD:
                return
            group = _Group(snapshot.state, snapshot.state_since_ms, len(snapshot.members))
            self._groups[group_id] = group
            self._states[group.state] += 1
            self._members += group.members
            if group.state in REBALANCING:
                self._rebalancing[group_id] = group

    def happened(self, counter: Recently, group_id: str) -> None:
        """Count a rebalance, an expiry or a refusal of a group."""
        if self._top:
            with self._lock:
                counter.add(group_id)

    def values(self) -> Iterator[Value]:
        """Yield all gauges of groups."""
        with self._lock:
            yield from [Value(GROUPS, (state,), self._states[state]) for state in STATES]
            yield Value(MEMBERS, (), self._members)
            if self._top:
                yield from self._named()

    def _named(self) -> Iterator[Value]:
        running_by_group = {
            (group_id, group.state): max(0, self._clock_ms(group_id) - group.since_ms)
            for group_id, group in self._rebalancing.items()
        }
        for labels, running_ms in largest(running_by_group.items(), self._top):
            yield Value(GROUP_REBALANCING, labels, running_ms / 1_000)
        for metric, recently in self._recently().items():
            for group_id, number in recently.most(self._top):
                yield Value(metric, (group_id,), number)
        sizes = ((group_id, group.members) for group_id, group in self._groups.items() if group.members)
        for group_id, number in largest(sizes, self._top):
            yield Value(GROUP_MEMBERS, (group_id,), number)

    def _recently(self) -> dict[Metric, Recently]:
        return {GROUP_REBALANCES: self.rebalances, GROUP_EXPIRIES: self.expiries, GROUP_REFUSALS: self.refusals}


def largest(pairs: Iterable[tuple[_Key, int]], number: int) -> list[tuple[_Key, int]]:
    """The largest values; among equal ones by name, so that the choice does not flicker."""
    return heapq.nsmallest(number, pairs, key=lambda pair: (-pair[1], pair[0]))
