"""Whether what a line of a broker's log tells of a classic group is confirmed by what comes later.

A client can write a line that looks like the broker's into its own reasons and ids (`recordings.log_entries` tells most
of them apart). What it cannot write are records of the offsets topic, and the lines that follow from what a line says.
So a line that nothing later confirms, or that something later contradicts, is told as not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.observed.ahead import END
from group_coordinator.watching.observed.offsets_log import CommitRecord, LogRecord
from group_coordinator.watching.observed.ordering import OF_RECORDS, Item, TimedLine
from group_coordinator.watching.observed.stored_groups import StoredGeneration
from schemas.history import MemberIdentity

StoredAt = Callable[[int], StoredGeneration | None]
_GROUP_METADATA = "GroupMetadata"
_NEAR_MS = 5_000
"""Clocks of brokers may differ by less: a record that was written before another broker took over stands behind it."""
_USED_WITHIN = 2_000
"""So many records and lines are looked at for what became of an id."""


class Confirmation(NamedTuple):
    """The answer, and the last place that was looked at for it."""

    is_confirmed: bool
    place: int


class Standing(NamedTuple):
    """What is known of the group where the line stands."""

    place: int
    at_ms: int
    generation_id: int
    leader_epoch: int | None
    members: Mapping[str, MemberIdentity]
    given_ids: Collection[str]
    """Ids that were given out and not used yet."""


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
        case line_events.AssignmentTaken():
            return later.reaches(event.generation_id, is_told=event.generation_id == standing.generation_id)
        case line_events.MemberIdGiven():
            return later.is_used(event.member_id)
        case line_events.PendingMemberExpired():
            used = later.is_used(event.member_id)
            return Confirmation(event.member_id in standing.given_ids and not used.is_confirmed, used.place)
        case line_events.StaticMemberReplaced():
            return later.is_replaced(event.old_member_id, event.group_instance_id)
        case line_events.InstanceFenced():
            return Confirmation(_holds(standing.members, event), standing.place)
        case _:
            return CONFIRMED


def take_over_confirmed(
    event: line_events.LineEvent, standing: Standing, items: Sequence[Item], stored_at: StoredAt
) -> Confirmation:
    """Return whether the records and lines behind a line confirm that the group has another coordinator, which the line
    tells or shows: it is of another broker than those before."""
    return _Later(standing, items, stored_at).is_taken_over(event)


def _holds(members: Mapping[str, MemberIdentity], fenced: line_events.InstanceFenced) -> bool:
    """Return whether another member than the fenced one has its instance id, as far as it is known."""
    return any(
        identity.group_instance_id == fenced.group_instance_id and member_id != fenced.member_id
        for member_id, identity in members.items()
        if fenced.owner_member_id in (None, member_id)
    )


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

    def is_used(self, member_id: str) -> Confirmation:
        """Whether a member with this id comes, or what became of the id is told, or nobody knows of it any more."""
        known_epoch = self._standing.leader_epoch
        for place, item, event, stored in islice(self._behind(), _USED_WITHIN):
            if stored is not None and member_id in stored.members:
                return Confirmation(True, place)
            match event:
                case line_events.MemberAdded() | line_events.PendingMemberExpired() | line_events.MemberDeparted():
                    if event.member_id == member_id:
                        return Confirmation(True, place)
                case line_events.RebalancePrepared():
                    if member_id in event.member_ids:
                        return Confirmation(True, place)
                case _:
                    pass
            if not isinstance(item, TimedLine) and _is_later(item.leader_epoch, known_epoch):
                return Confirmation(True, place)
        return Confirmation(False, END)

    def is_replaced(self, old_member_id: str, instance_id: str) -> Confirmation:
        """Whether the instance id is another member's from then on."""
        is_settled = False
        for place, item, event, stored in self._behind():
            if stored is not None:
                holders = [
                    member_id
                    for member_id, member in stored.members.items()
                    if member.identity.group_instance_id == instance_id
                ]
                return Confirmation(old_member_id not in stored.members and bool(holders), place)
            if _is_tombstone(item):
                return Confirmation(True, place)
            is_settled = is_settled or isinstance(event, line_events.JoinPhaseEnded)
        return Confirmation(is_settled, END)

    def is_taken_over(self, event: line_events.LineEvent) -> Confirmation:
        """Whether a later record has a larger leader epoch, or another line tells of the same before a record that
        would have it."""
        known_epoch = self._standing.leader_epoch
        epoch = event.leader_epoch if isinstance(event, line_events.PartitionLoaded) else 0
        is_unloaded = isinstance(event, line_events.GroupUnloaded)
        is_told = known_epoch is None
        for place, item, other, _ in self._behind():
            if isinstance(item, TimedLine):
                if is_unloaded and not is_told and isinstance(other, line_events.JoinPhaseEnded):
                    return Confirmation(False, place)  # it went on here
                if not isinstance(other, line_events.GroupLoaded | line_events.PartitionLoaded):
                    continue
                if item.line.file == OF_RECORDS and isinstance(other, line_events.PartitionLoaded):
                    return Confirmation(other.leader_epoch >= epoch, place)
                is_told = is_told or type(other) is not type(event)
            elif item.leader_epoch is not None:
                if known_epoch is None or item.leader_epoch > known_epoch:
                    return Confirmation(item.leader_epoch >= epoch, place)
                if item.timestamp_ms > self._standing.at_ms + _NEAR_MS:
                    return Confirmation(False, place)
        return Confirmation(is_told or is_unloaded, END)

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


def _is_later(leader_epoch: int | None, known_epoch: int | None) -> bool:
    return leader_epoch is not None and known_epoch is not None and leader_epoch > known_epoch


def _is_tombstone(item: Item) -> bool:
    return isinstance(item, LogRecord) and item.name == _GROUP_METADATA and item.value is None
