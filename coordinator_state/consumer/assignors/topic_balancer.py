"""The subscribers of one topic by their load, while partitions of the topic move between them.

The least loaded are walked upwards and the most loaded downwards, level by level, until the two meet.

Source: `UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Iterable


class TopicBalancer:
    """Names the members between which the next partition is to move. Members go by number; loads are the caller's."""

    def __init__(self, subscribers: Iterable[int], loads: list[int]) -> None:
        """`subscribers` are ascending, and not none; the caller keeps `loads` up to date."""
        self._loads = loads
        self._members = sorted(subscribers, key=loads.__getitem__)
        self._least_end = 0
        """Members before this place are the least loaded ones."""
        self._least_load = loads[self._members[0]] - 1
        self._next_least = 0
        self._most_start = self._most_end = len(self._members)
        """Members between these places are the most loaded ones; those behind are excluded."""
        self._most_load = loads[self._members[-1]] + 1
        self._next_most = len(self._members) - 1

    def is_balanced(self) -> bool:
        """Return whether the most and the least loaded are within one partition of each other."""
        return self._most_load - self._least_load <= 1

    def least_loaded(self) -> int:
        """Return the next of the least loaded members, which is about to get a partition."""
        if self._next_least >= self._least_end:
            self._least_load += 1
            members, loads = self._members, self._loads
            while self._least_end < len(members) and loads[members[self._least_end]] == self._least_load:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def most_loaded(self) -> int | None:
        """Return the next of the most loaded members, which is about to give a partition; None: all are excluded."""
        if self._next_most < self._most_start:
            members, loads = self._members, self._loads
            if self._most_end <= self._most_start and self._most_start > 0:
                self._most_load = loads[members[self._most_start - 1]]
            else:
                self._most_load -= 1
            while self._most_start > 0 and loads[members[self._most_start - 1]] == self._most_load:
                self._most_start -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return None
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def exclude_most_loaded(self) -> None:
        """Let the member that `most_loaded` has just returned be: it has no partition of the topic."""
        place, last, members = self._next_most + 1, self._most_end - 1, self._members
        members[place], members[last] = members[last], members[place]
        self._most_end = last
