"""What the records of a classic group that come later say of what is followed now, and how much of it was asked for.

The history up to some place follows from the evidence before it and from these answers, and from nothing else.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from group_coordinator.watching.observed.stored_groups import StoredGeneration, StoredMember

_QUIET_MS = 5_000
_JITTER_MS = 1_000
"""So much earlier than its record a line may be."""
END = sys.maxsize
"""Something was asked that no record answers yet: any later one may."""

Stored = tuple[int, StoredGeneration]
"""A generation, and the place of its record."""
Profile = tuple[object, ...]
"""What is told of a member because of its last stored form."""


class Asked(Struct, kw_only=True):
    """What was asked."""

    to_place: int = -1
    """The last place of a record or line that was asked for."""
    profiles: dict[str, Profile | None] = {}
    """By member, its last stored form; None: no record tells of it."""


class DumpEnd(NamedTuple):
    """Where the records end, where no more will come: a dump may end before the brokers' logs do."""

    of_partition_ms: int
    """The time of the last record of the group's partition ..."""
    of_dump_ms: int
    """... and of all partitions."""
    of_lines_ms: int
    """The time of the last line of any group."""

    @property
    def is_early(self) -> bool:
        """Return whether the logs go on for longer than a cluster whose groups commit writes nothing."""
        return self.of_lines_ms > self.of_dump_ms + _QUIET_MS


class Ahead:
    """Answers about the records behind a place."""

    def __init__(self, profiles: Mapping[str, StoredMember] | None = None) -> None:
        """`profiles`: the last stored form of each member."""
        self._profiles = {} if profiles is None else profiles
        self._places: list[int] = []
        self._generations: list[StoredGeneration] = []
        self._by_place: dict[int, StoredGeneration] = {}
        self._place = self._last_place = -1
        self._end: DumpEnd | None = None
        self.asked = Asked()

    def __reduce__(self) -> Any:
        """It is told anew where it is wanted again."""
        return Ahead, ()

    def tell(self, generations: Sequence[Stored], profiles: Mapping[str, StoredMember], asked: Asked) -> None:
        """Take the generations from here on, and what was asked before."""
        self._profiles, self.asked = profiles, asked
        self._places = [place for place, _ in generations]
        self._generations = [generation for _, generation in generations]
        self._by_place = dict(generations)

    def end_at(self, last_place: int, end: DumpEnd) -> None:
        """Note where the last record of the group stands, and that none will come."""
        self._last_place, self._end = last_place, end

    def is_beyond(self, at_ms: int) -> bool:
        """Return whether what a line of this time tells would have a record behind the end of the dump."""
        end = self._end
        return end is not None and self._place > self._last_place and at_ms >= end.of_partition_ms - _JITTER_MS

    def stand_at(self, place: int) -> None:
        """Answer about what is behind this place from now on."""
        self._place = place

    def ask_up_to(self, place: int) -> None:
        """Note that an answer follows from all records and lines up to this place."""
        self.asked.to_place = max(self.asked.to_place, place)

    def stored_at(self, place: int) -> StoredGeneration | None:
        """Return the generation that the record at this place stores."""
        return self._by_place.get(place)

    def profile(self, member_id: str) -> StoredMember | None:
        """Return the last stored form of a member."""
        found = self._profiles.get(member_id)
        self.asked.profiles[member_id] = None if found is None else profile_of(found)
        return found

    def next_generation(self, other_than: int | None = None) -> StoredGeneration | None:
        """Return the generation that is stored next, of those with another number."""
        for number in range(bisect_right(self._places, self._place), len(self._places)):
            if self._generations[number].generation_id != other_than:
                self.asked.to_place = max(self.asked.to_place, self._places[number])
                return self._generations[number]
        self.asked.to_place = END
        return None


def profile_of(member: StoredMember) -> Profile:
    """Return what is told of a member, whatever it got."""
    return member.identity, member.session_timeout_ms, member.rebalance_timeout_ms, member.subscribed_topics
