"""The lag of groups is computed in messages, and in seconds, from the ends of the logs as they were polled. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.watching.dashboard.facts import Committed

SAMPLES_MAX = 240


class Lag(NamedTuple):
    """The lag of one partition, or of a whole group."""

    messages: int
    behind_ms: int | None
    """How long ago the next message to read was appended; None: not known."""
    at_least: bool
    """It is longer than that: polling began later."""
    beyond_end: int
    """Partitions whose committed offset lies beyond the end: the topic was made anew, or truncated."""


class EndOffsets:
    """The ends of the logs over time."""

    def __init__(self) -> None:
        self.version = 0
        self.bounds: dict[Partition, Bounds] = {}
        self._times: dict[Partition, list[int]] = {}
        self._highs: dict[Partition, list[int]] = {}

    def poll(self, now_ms: int, bounds: Mapping[Partition, Bounds]) -> None:
        """Take all that was polled."""
        self.take(now_ms, bounds.items())
        self.polled(bounds)

    def polled(self, partitions: Collection[Partition]) -> None:
        """Note that these partitions were polled, and all were taken. Others are forgotten."""
        self.version += 1
        for place in [place for place in self.bounds if place not in partitions]:
            del self.bounds[place], self._times[place], self._highs[place]

    def take(self, now_ms: int, bounds: Iterable[tuple[Partition, Bounds]]) -> None:
        """Take some of what was polled."""
        for place, log_bounds in bounds:
            self.bounds[place] = log_bounds
            times, highs = self._times.setdefault(place, []), self._highs.setdefault(place, [])
            if highs and log_bounds.end < highs[-1]:
                times.clear()  # the log was made anew: what was before says nothing
                highs.clear()
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

    def lag(self, place: Partition, committed: int, now_ms: int) -> Lag | None:
        """Return the lag of a committed offset; None if the end of the log is not known."""
        bounds = self.bounds.get(place)
        if bounds is None:
            return None
        if committed > bounds.end:
            return Lag(0, None, False, 1)
        messages = bounds.unread(committed)
        if messages == 0:
            return Lag(0, 0, False, 0)
        position = bounds.end - messages
        times, highs = self._times[place], self._highs[place]
        after = bisect_right(highs, position)
        if after == 0:
            return Lag(messages, now_ms - times[0], True, 0)
        if after == len(highs):
            return Lag(messages, now_ms - times[-1], False, 0)
        span = highs[after] - highs[after - 1]
        # The first message that is not read came when the end went from `position` to one more.
        passed_ms = times[after - 1] + (times[after] - times[after - 1]) * (position + 1 - highs[after - 1]) // span
        return Lag(messages, max(now_ms - passed_ms, 0), False, 0)

    def group_lag(self, offsets: Mapping[Partition, Committed], now_ms: int) -> Lag | None:
        """Return all messages together, and the time of the partition that is furthest behind; None if no end is known.
        """
        messages, behind_ms, at_least, beyond, is_known = 0, None, False, 0, False
        for place, committed in offsets.items():
            lag = self.lag(place, committed.offset, now_ms)
            if lag is None:
                continue
            is_known = True
            messages += lag.messages
            beyond += lag.beyond_end
            if lag.behind_ms is not None and (behind_ms is None or lag.behind_ms > behind_ms):
                behind_ms, at_least = lag.behind_ms, lag.at_least
        return Lag(messages, behind_ms, at_least, beyond) if is_known else None
