"""The groups as they are now, as gauges: all of them summed up, and by name only the few that stand out."""

from __future__ import annotations

import heapq
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeVar

from group_coordinator.ground.monitoring.metrics import (
    GROUP_EXPIRIES,
    GROUP_HELD_UP,
    GROUP_MEMBERS,
    GROUP_PENDING_OFFSETS,
    GROUP_REBALANCES,
    GROUP_REBALANCING,
    GROUP_REFUSALS,
    GROUPS,
    MEMBERS,
    REGEXES_UNRESOLVED,
    Metric,
    Value,
)
from group_coordinator.watching.group_metrics.light_records import CountedSnapshot
from group_coordinator.watching.group_metrics.names import kept_name
from group_coordinator.watching.group_metrics.pending_offsets import PendingOffsets
from schemas.group_states import ASSIGNING, REBALANCING, RECONCILING, GroupState

STATES = (*[state.value for state in GroupState if state is not GroupState.DEAD], ASSIGNING, RECONCILING)
"""The last two are of consumer groups. Dead is no group, but an id that has settings."""
RECENTLY_S = 600
_SLICE_S = 60
NAMES_PER_SLICE = 20_000
"""Group ids come from outside: a sender that makes up new ones must not fill the memory."""


_Key = TypeVar("_Key", str, tuple[str, str])


ONE_CLUSTER = ""
"""It has no name where there is one only."""
TYPES = "classic", "consumer"
"""Of groups that the core coordinates, and of the protocols that members speak."""


class _Group(NamedTuple):
    type: str
    state: str
    since_ms: int
    protocols: Counter[str]
    """How many members speak each."""
    revoking_since_ms: int | None
    """Since when a member has not given up what it was told to."""
    unresolved: int
    """Regular expressions."""

    @property
    def members(self) -> int:
        return self.protocols.total()


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
        self._states: Counter[tuple[str, str]] = Counter()
        """By type and state."""
        self._members: Counter[str] = Counter()
        """By protocol."""
        self._unresolved = 0
        self._rebalancing: dict[str, _Group] = {}
        self._held_up: dict[str, _Group] = {}
        self.pending = PendingOffsets()
        self._lock = threading.Lock()
        self.rebalances, self.expiries, self.refusals = Recently(now_s), Recently(now_s), Recently(now_s)

    def put(self, group_id: str, snapshot: CountedSnapshot | None) -> None:
        """Store the group as it is now; None removes it."""
        with self._lock:
            before = self._groups.pop(group_id, None)
            self._rebalancing.pop(group_id, None)
            self._held_up.pop(group_id, None)
            if before is not None:
                self._states[before.type, before.state] -= 1
                self._members -= before.protocols
                self._unresolved -= before.unresolved
            if snapshot is None or snapshot.state == GroupState.DEAD:
                return
            group = _Group(
                snapshot.type,
                snapshot.state,
                snapshot.state_since_ms,
                Counter([member.protocol for member in snapshot.members]),
                snapshot.revoking_since_ms,
                snapshot.unresolved,
            )
            self._groups[group_id] = group
            self._states[group.type, group.state] += 1
            self._members += group.protocols
            self._unresolved += group.unresolved
            if group.revoking_since_ms is not None:
                self._held_up[group_id] = group
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
            yield from [Value(GROUPS, (kind, state), self._states[kind, state]) for kind in TYPES for state in STATES]
            yield from [Value(MEMBERS, (protocol,), self._members[protocol]) for protocol in TYPES]
            yield Value(REGEXES_UNRESOLVED, (), self._unresolved)
            if self._top:
                yield from self._named()

    def _named(self) -> Iterator[Value]:
        running_by_group = {
            (group_id, group.state): max(0, self._clock_ms(group_id) - group.since_ms)
            for group_id, group in self._rebalancing.items()
        }
        for labels, running_ms in largest(running_by_group.items(), self._top):
            yield Value(GROUP_REBALANCING, (ONE_CLUSTER, *labels), running_ms / 1_000)
        held_up = {
            group_id: max(0, self._clock_ms(group_id) - (group.revoking_since_ms or 0))
            for group_id, group in self._held_up.items()
        }
        for group_id, held_ms in largest(held_up.items(), self._top):
            yield Value(GROUP_HELD_UP, (ONE_CLUSTER, group_id), held_ms / 1_000)
        yield from pending_values(self.pending, self._clock_ms, self._top)
        for metric, recently in self._recently().items():
            for group_id, number in recently.most(self._top):
                yield Value(metric, (ONE_CLUSTER, group_id), number)
        sizes = ((group_id, group.members) for group_id, group in self._groups.items() if group.members)
        for group_id, number in largest(sizes, self._top):
            yield Value(GROUP_MEMBERS, (ONE_CLUSTER, group_id), number)

    def _recently(self) -> dict[Metric, Recently]:
        return {GROUP_REBALANCES: self.rebalances, GROUP_EXPIRIES: self.expiries, GROUP_REFUSALS: self.refusals}


def pending_values(
    pending: PendingOffsets, clock_ms: Callable[[str], int], top: int, *, has_clusters: bool = False
) -> Iterator[Value]:
    """Yield the age of the oldest pending offset of the groups that have the oldest ones. `has_clusters`: as of
    `labels_of`."""
    ages = {group_id: max(0, clock_ms(group_id) - since_ms) for group_id, since_ms in pending.oldest_ms().items()}
    for group_id, age_ms in largest(ages.items(), top):
        yield Value(GROUP_PENDING_OFFSETS, labels_of(group_id, has_clusters=has_clusters), age_ms / 1_000)


def labels_of(group_id: str, *, has_clusters: bool) -> tuple[str, str]:
    """Return cluster and group. `has_clusters`: each id begins with its cluster's name, which has no slash."""
    if not has_clusters:
        return ONE_CLUSTER, group_id
    cluster, _, name = group_id.partition("/")
    return cluster, name


def largest(pairs: Iterable[tuple[_Key, int]], number: int) -> list[tuple[_Key, int]]:
    """The largest values; among equal ones by name, so that the choice does not flicker."""
    return heapq.nsmallest(number, pairs, key=lambda pair: (-pair[1], pair[0]))
