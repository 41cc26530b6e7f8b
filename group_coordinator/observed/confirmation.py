"""Whether what a line of a broker's log tells of a classic group is confirmed by what comes later.

A client can write a line that looks like the broker's into its own reasons and ids (`recordings.log_entries` tells most
of them apart). What it cannot write are records of the offsets topic, and the lines that follow from what a line says.
So a line that nothing later confirms, or that something later contradicts, is told as not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from group_coordinator.observed.ahead import END
from group_coordinator.observed.offsets_log import CommitRecord, LogRecord
from group_coordinator.observed.ordering import Item, TimedLine
from group_coordinator.observed.stored_groups import StoredGeneration
from group_coordinator.recordings import broker_lines as line_events

StoredAt = Callable[[int], StoredGeneration | None]
_GROUP_METADATA = "GroupMetadata"


class Confirmation(NamedTuple):
    """The answer, and the last place that was looked at for it."""

    is_confirmed: bool
    place: int


class Standing(NamedTuple):
    """What is known of the group where the line stands."""

    place: int
    generation_id: int
    leader_epoch: int | None


CONFIRMED = Confirmation(True, -1)


def confirmation(
    event: line_events.LineEvent, standing: Standing, items: Sequence[Item], stored_at: StoredAt
) -> Confirmation:
    """Return whether the records and lines behind a line of a classic group's confirm it. `stored_at` returns the
    generation that the record at a place stores."""
    later = _Later(standing, items, stored_at)
    match event:
        case line_events.RebalancePrepared():
            return later.reaches(event.old_generation_id + 1, is_told=False)
        case line_events.JoinPhaseEnded() | line_events.GroupEmptied():
            return later.reaches(event.generation_id, is_told=True)
        case line_events.MemberFailed() | line_events.MemberDeparted():
            return later.is_without(event.member_id)
        case line_events.MembersNotRejoined() if event.member_ids:
            return later.is_without(event.member_ids[0])
        case line_events.MemberAdded():
            return later.has(event.member_id)
        case line_events.GroupDeleted() | line_events.GroupExpired():
            return later.ends()
        case _:
            return CONFIRMED


class _Later:
    """The records and lines behind a place."""

    def __init__(self, standing: Standing, items: Sequence[Item], stored_at: StoredAt) -> None:
        self._standing = standing
        self._items = items
        self._stored_at = stored_at

    def _behind(self) -> Iterator[tuple[int, Item, line_events.LineEvent | None, StoredGeneration | None]]:
        for place in range(self._standing.place + 1, len(self._items)):
            item = self._items[place]
            yield place, item, item.line.event if isinstance(item, TimedLine) else None, self._stored_at(place)

    def reaches(self, generation_id: int, *, is_told: bool) -> Confirmation:
        """Whether the group comes to this generation. `is_told`: a line says so already.

        A rebalance that its coordinator did not outlive leads to none: records have the leader epoch of the next one.
        """
        known_epoch = self._standing.leader_epoch
        for place, item, event, stored in self._behind():
            if stored is not None:
                if stored.generation_id >= generation_id:
                    return Confirmation(True, place)
                if stored.generation_id < generation_id - 1:
                    return Confirmation(is_told, place)
            elif _is_tombstone(item):
                return Confirmation(is_told, place)
            if not isinstance(item, TimedLine):
                epoch = item.leader_epoch
                if epoch is not None and known_epoch is not None and epoch > known_epoch:
                    return Confirmation(True, place)
            match event:
                case line_events.RebalancePrepared():
                    return Confirmation(event.old_generation_id >= generation_id, place)
                case line_events.JoinPhaseEnded() | line_events.GroupEmptied():
                    is_told = is_told or event.generation_id >= generation_id
                case _:
                    pass
        return Confirmation(is_told, END)

    def is_without(self, member_id: str) -> Confirmation:
        """Whether the member is not in the next generation."""
        is_settled = False
        for place, item, event, stored in self._behind():
            if stored is not None and stored.generation_id != self._standing.generation_id:
                return Confirmation(member_id not in stored.members, place)
            if _is_tombstone(item):
                return Confirmation(True, place)
            is_settled = is_settled or isinstance(event, line_events.JoinPhaseEnded | line_events.GroupEmptied)
        return Confirmation(is_settled, END)

    def has(self, member_id: str) -> Confirmation:
        """Whether the member is in the next generation, or went before it began."""
        is_settled = False
        for place, _, event, stored in self._behind():
            if stored is not None and stored.generation_id != self._standing.generation_id:
                return Confirmation(member_id in stored.members, place)
            match event:
                case line_events.MemberFailed(member_id=gone) | line_events.MemberDeparted(member_id=gone):
                    if gone == member_id:
                        return Confirmation(True, place)
                case line_events.MembersNotRejoined():
                    if member_id in event.member_ids:
                        return Confirmation(True, place)
                case line_events.JoinPhaseEnded():
                    is_settled = True
                case _:
                    pass
        return Confirmation(is_settled, END)

    def ends(self) -> Confirmation:
        """Whether the group is not there any more, or begins anew."""
        known_id = self._standing.generation_id
        for place, item, event, stored in self._behind():
            if stored is not None:
                return Confirmation(stored.generation_id <= known_id, place)
            if _is_tombstone(item) or (isinstance(item, CommitRecord) and item.value is None):
                return Confirmation(True, place)
            match event:
                case line_events.RebalancePrepared():
                    return Confirmation(event.old_generation_id < max(known_id, 1), place)
                case line_events.JoinPhaseEnded() | line_events.GroupEmptied():
                    return Confirmation(event.generation_id <= known_id, place)
                case _:
                    pass
        return Confirmation(False, END)


def _is_tombstone(item: Item) -> bool:
    return isinstance(item, LogRecord) and item.name == _GROUP_METADATA and item.value is None
