"""The lag of groups is computed in messages, and in seconds, from the ends of the logs as they were polled. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition, Reach
from group_coordinator.watching.dashboard.committed import Committed
from schemas.history import MemberIdentity

SAMPLES_MAX = 240
BEGINS_MAX = 16


class Lag(NamedTuple):
    """The lag of one partition, or of a whole group."""

    messages: int
    behind_ms: int | None
    """How long ago the next message to read was appended; None: not known."""
    at_least: bool
    """It is longer than that: polling began later."""
    beyond_end: int
    """Partitions whose committed offset lies beyond the end: the topic was made anew, or truncated."""
    gone: int = 0
    """Messages behind the committed offset that were deleted; `messages` does not count them. (kafka-consumer-groups
    prints the sum of both.)"""
    uncommitted: int = 0
    """Partitions that were assigned and have no committed offset."""
    up_to: int = 0
    """So many messages they have. How many of them wait depends on the client's `auto.offset.reset`."""


class PartitionLag(NamedTuple):
    """A partition that a group has a committed offset for."""

    topic: str
    partition: int
    offset: int
    """The committed one."""
    bounds: Bounds | None
    lag: Lag | None
    """None: the end of the log is not known."""
    owner: MemberIdentity | None


class GroupLag(NamedTuple):
    """The lag of a group, partition by partition."""

    assignor: str | None
    members_with_partitions: int
    assigned: Mapping[str, tuple[int, int]]
    """By topic: how many members have partitions of it, and how many partitions these are."""
    partitions: tuple[PartitionLag, ...]

    def by_topic(self) -> dict[str, list[PartitionLag]]:
        """Return the partitions of each topic."""
        found: dict[str, list[PartitionLag]] = {}
        for each in self.partitions:
            found.setdefault(each.topic, []).append(each)
        return found


class EndOffsets:
    """The ends of the logs over time."""

    def __init__(self) -> None:
        self.version = 0
        self.bounds: dict[Partition, Bounds] = {}
        self.first_ms: int | None = None
        """When polling began."""
        self.polled_ms = 0
        """When it was polled last."""
        self._reaches: Mapping[Partition, Reach] = {}
        self._reach_wanted: set[Partition] = set()
        self._begins: dict[Partition, list[tuple[int, int]]] = {}
        """The begins of logs that have moved: when each was first seen."""
        self._times: dict[Partition, list[int]] = {}
        self._highs: dict[Partition, list[int]] = {}

    def poll(
        self, now_ms: int, bounds: Mapping[Partition, Bounds], reaches: Mapping[Partition, Reach] | None = None
    ) -> None:
        """Take all that was polled."""
        self.take(now_ms, bounds.items())
        self.polled(now_ms, bounds, reaches)

    def polled(
        self, now_ms: int, partitions: Collection[Partition], reaches: Mapping[Partition, Reach] | None = None
    ) -> None:
        """Note that these partitions were polled, and all were taken. Others are forgotten."""
        self.version += 1
        self.first_ms = now_ms if self.first_ms is None else self.first_ms
        self.polled_ms, self._reaches = now_ms, reaches or {}
        for place in [place for place in self.bounds if place not in partitions]:
            del self.bounds[place], self._times[place], self._highs[place]
            self._begins.pop(place, None)

    def take(self, now_ms: int, bounds: Iterable[tuple[Partition, Bounds]]) -> None:
        """Take some of what was polled."""
        for place, log_bounds in bounds:
            before = self.bounds.get(place)
            self.bounds[place] = log_bounds
            times, highs = self._times.setdefault(place, []), self._highs.setdefault(place, [])
            if highs and log_bounds.end < highs[-1]:
                times.clear()  # the log was made anew: what was before says nothing
                highs.clear()
                self._begins.pop(place, None)
            elif highs and before is not None and log_bounds.begin > before.begin:
                begins = self._begins.setdefault(place, [(self.polled_ms, before.begin)])
                begins.append((now_ms, log_bounds.begin))
                del begins[1:-BEGINS_MAX]
            if len(highs) > 1 and highs[-1] == log_bounds.end == highs[-2]:
                times[-1] = now_ms  # of a log that stands still the first and the last moment are enough
                continue
            times.append(now_ms)
            highs.append(log_bounds.end)
            if len(times) > SAMPLES_MAX:
                # Every second one of the older half: the past gets coarser, and is not forgotten.
                keep = slice(0, SAMPLES_MAX // 2, 2)
                times[: SAMPLES_MAX // 2] = times[keep]
                highs[: SAMPLES_MAX // 2] = highs[keep]

    def samples(self, place: Partition) -> tuple[list[int], list[int]]:
        """Return the polled ends with their times."""
        return list(self._times.get(place, ())), list(self._highs.get(place, ()))

    def reach(self, place: Partition) -> Reach | None:
        """Return what the log says beyond its bounds. It is asked for from now on, where somebody wants to know it, and
        is not known before the next poll."""
        self._reach_wanted.add(place)
        return self._reaches.get(place)

    def take_wanted(self) -> set[Partition]:
        """Return the logs whose reach somebody wanted to know since the last call."""
        wanted, self._reach_wanted = self._reach_wanted, set()
        return wanted

    def arrived_ms(self, place: Partition, offset: int) -> int | None:
        """Return when the message with this offset was appended, interpolated between two polls, or the last poll where
        it was not yet. None: before polling began, or the log is not known."""
        times, highs = self._times.get(place), self._highs.get(place)
        if not times or not highs:
            return None
        after = bisect_right(highs, offset)
        if after == 0:
            return None
        if after == len(highs):
            return times[-1]
        span = highs[after] - highs[after - 1]
        return times[after - 1] + (times[after] - times[after - 1]) * (offset + 1 - highs[after - 1]) // span

    def growths(self, place: Partition, since_ms: int) -> list[tuple[int, int]]:
        """Return the polls after this time that found the log longer than the one before: when, and its end then."""
        times, highs = self._times.get(place, []), self._highs.get(place, [])
        pairs = zip(times[1:], highs[1:], highs, strict=False)
        return [(at_ms, high) for at_ms, high, before in pairs if at_ms > since_ms and high > before]

    def passed_ms(self, place: Partition, committed: int) -> int | None:
        """Return when the begin of the log was first seen beyond a committed offset. None: so it was from the first
        poll on."""
        begins = self._begins.get(place, [])
        at_ms, begin = next(((at_ms, begin) for at_ms, begin in begins if begin > committed), (0, 0))
        return None if not begin or (at_ms, begin) == begins[0] else at_ms

    def lag(self, place: Partition, committed: int, now_ms: int, committed_ms: int = 0) -> Lag | None:
        """Return the lag of a committed offset; None if the end of the log is not known.

        `committed_ms`: a commit after the last poll may lie beyond the end that was polled.
        """
        bounds = self.bounds.get(place)
        if bounds is None:
            return None
        if committed > bounds.end and committed_ms < self.polled_ms:
            return Lag(0, None, False, 1)
        messages, gone = bounds.unread(committed), bounds.gone(committed)
        if messages == 0:
            return Lag(0, 0, False, 0, gone)
        appended_ms = self.arrived_ms(place, bounds.end - messages)
        if appended_ms is None:
            return Lag(messages, now_ms - self._times[place][0], True, 0, gone)
        return Lag(messages, max(now_ms - appended_ms, 0), False, 0, gone)

    def lag_of(self, place: Partition, committed: Committed, now_ms: int) -> Lag | None:
        """Return the lag of what is committed. Of a share group its coordinator's count: it may be done with messages
        behind its start offset."""
        lag = self.lag(place, committed.offset, now_ms, committed.committed_ms)
        if lag is None or committed.share_lag is None:
            return lag
        return lag._replace(messages=committed.share_lag, behind_ms=lag.behind_ms if committed.share_lag else 0, gone=0)

    def group_lag(
        self, offsets: Mapping[Partition, Committed], now_ms: int, uncommitted: Iterable[Partition] = ()
    ) -> Lag | None:
        """Return all messages together, and the time of the partition that is furthest behind; None if no end is known.
        """
        lags = [self.lag_of(place, each, now_ms) for place, each in offsets.items()]
        without = [bounds.end - bounds.begin for place in uncommitted if (bounds := self.bounds.get(place)) is not None]
        return total([lag for lag in lags if lag is not None], without)


def total(lags: Iterable[Lag], without: Iterable[int] = ()) -> Lag | None:
    """Return the lags of several partitions together. `without`: the messages of each that has no commit."""
    messages = beyond = gone = 0
    behind_ms, at_least, is_known = None, False, False
    for lag in lags:
        is_known = True
        messages += lag.messages
        beyond += lag.beyond_end
        gone += lag.gone
        if lag.behind_ms is not None and (behind_ms is None or lag.behind_ms > behind_ms):
            behind_ms, at_least = lag.behind_ms, lag.at_least
    of_uncommitted = list(without)
    if not is_known and not of_uncommitted:
        return None
    return Lag(messages, behind_ms, at_least, beyond, gone, len(of_uncommitted), sum(of_uncommitted))
