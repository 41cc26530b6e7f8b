"""Whether what a line of a broker's log tells of a classic group is confirmed by what comes later.

A client can write a line that looks like the broker's into its own reasons and ids (`recordings.log_entries` tells most
of them apart). What it cannot write are records of the offsets topic, and the lines that follow from what a line says.
So a line that nothing later confirms, or that something later contradicts, is told as not confirmed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.observed.ahead import END
from group_coordinator.watching.observed.offsets_log import CommitRecord, deletes_classic_group
from group_coordinator.watching.observed.ordering import OF_RECORDS, Item, TimedLine
from group_coordinator.watching.observed.stored_groups import StoredGeneration
from schemas.history import MemberIdentity

StoredAt = Callable[[int], StoredGeneration | None]
_Event: TypeAlias = line_events.LineEvent | None
_Stored: TypeAlias = StoredGeneration | None
_Judge = Callable[[Item, _Event, _Stored, bool], bool | None]
"""The item, the line's event, the generation that a record stores, whether the matter is settled -> the answer."""
_Settles = Callable[[_Event], bool]
_JOINED = line_events.JoinPhaseEnded | line_events.GroupEmptied
_LOADED = line_events.GroupLoaded | line_events.PartitionLoaded
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
    instance_of: Callable[[str], str | None]
    """Returns the instance id that a member has in any record of the group."""


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
            return later.is_replaced(event)
        case line_events.InstanceFenced():
            return Confirmation(_is_fenced(standing, event), standing.place)
        case _:
            return CONFIRMED


def take_over_confirmed(
    event: line_events.LineEvent, standing: Standing, items: Sequence[Item], stored_at: StoredAt
) -> Confirmation:
    """Return whether the records and lines behind a line confirm that the group has another coordinator, which the line
    tells or shows: it is of another broker than those before."""
    return _Later(standing, items, stored_at).is_taken_over(event)


def _is_fenced(standing: Standing, fenced: line_events.InstanceFenced) -> bool:
    """Return whether a record has the fenced member with its instance id, and another member has that now."""
    return standing.instance_of(fenced.member_id) == fenced.group_instance_id and any(
        identity.group_instance_id == fenced.group_instance_id and member_id != fenced.member_id
        for member_id, identity in standing.members.items()
        if fenced.owner_member_id in (None, member_id)
    )


class _Later:
    """The records and lines behind a place."""

    def __init__(self, standing: Standing, items: Sequence[Item], stored_at: StoredAt) -> None:
        self._standing = standing
        self._items = items
        self._stored_at = stored_at

    def _judged(
        self, judge: _Judge, settles: _Settles = lambda event: False, *, is_settled: bool = False, most: int = END
    ) -> Confirmation:
        """Return the first answer of `judge` to what comes, of `most` places. Where it has none, return whether the
        matter was settled before, or by a line."""
        begin = self._standing.place + 1
        for place in range(begin, min(len(self._items), begin + most)):
            item = self._items[place]
            event = item.line.event if isinstance(item, TimedLine) else None
            answer = judge(item, event, self._stored_at(place), is_settled)
            if answer is not None:
                return Confirmation(answer, place)
            is_settled = is_settled or settles(event)
        return Confirmation(is_settled, END)

    def reaches(self, generation_id: int, *, is_told: bool) -> Confirmation:
        """Whether the group comes to this generation. `is_told`: a line says so already.

        A rebalance that its coordinator did not outlive leads to none: records have the leader epoch of the next one.
        """

        def judge(item: Item, event: _Event, stored: _Stored, is_told: bool) -> bool | None:
            if stored is not None and stored.generation_id >= generation_id:
                return True
            if deletes_classic_group(item) if stored is None else stored.generation_id < generation_id - 1:
                return is_told
            if self._is_of_a_later_epoch(item):
                return True
            if isinstance(event, line_events.RebalancePrepared):
                return event.old_generation_id >= generation_id
            return None

        return self._judged(
            judge, lambda event: isinstance(event, _JOINED) and event.generation_id >= generation_id, is_settled=is_told
        )

    def is_without(self, member_id: str) -> Confirmation:
        """Whether the member is not in the next generation."""

        def judge(item: Item, event: _Event, stored: _Stored, _: bool) -> bool | None:
            if stored is not None and stored.generation_id != self._standing.generation_id:
                return member_id not in stored.members
            return True if deletes_classic_group(item) else None

        return self._judged(judge, lambda event: isinstance(event, _JOINED))

    def has(self, member_id: str) -> Confirmation:
        """Whether the member is in the next generation, or went before it began."""

        def judge(item: Item, event: _Event, stored: _Stored, _: bool) -> bool | None:
            if stored is not None and stored.generation_id != self._standing.generation_id:
                return member_id in stored.members
            match event:
                case line_events.MemberFailed() | line_events.MemberDeparted() if event.member_id == member_id:
                    return True
                case line_events.MembersNotRejoined() if member_id in event.member_ids:
                    return True
                case _:
                    return None

        return self._judged(judge, lambda event: isinstance(event, line_events.JoinPhaseEnded))

    def is_used(self, member_id: str) -> Confirmation:
        """Whether a member with this id comes, or what became of the id is told, or nobody knows of it any more."""

        def judge(item: Item, event: _Event, stored: _Stored, _: bool) -> bool | None:
            if stored is not None and member_id in stored.members:
                return True
            match event:
                case line_events.MemberAdded() | line_events.PendingMemberExpired() | line_events.MemberDeparted():
                    is_told = event.member_id == member_id
                case line_events.RebalancePrepared():
                    is_told = member_id in event.member_ids
                case _:
                    is_told = False
            return True if is_told or self._is_of_a_later_epoch(item) else None

        return self._judged(judge, most=_USED_WITHIN)

    def is_replaced(self, replaced: line_events.StaticMemberReplaced) -> Confirmation:
        """Whether the instance id is another member's from then on: the one that is told, until it is replaced too."""
        instance_id, owners = replaced.group_instance_id, {replaced.member_id}

        def judge(item: Item, event: _Event, stored: _Stored, _: bool) -> bool | None:
            if isinstance(event, line_events.StaticMemberReplaced) and event.old_member_id in owners:
                owners.add(event.member_id)
            if stored is None:
                return True if deletes_classic_group(item) else None
            now = {each.identity.group_instance_id: member_id for member_id, each in stored.members.items()}
            is_other = replaced.old_member_id not in stored.members and instance_id in now
            return is_other and (None in owners or now[instance_id] in owners)

        return self._judged(judge, lambda event: isinstance(event, line_events.JoinPhaseEnded))

    def is_taken_over(self, event: line_events.LineEvent) -> Confirmation:
        """Whether a later record has a larger leader epoch, or another line tells of the same before a record that
        would have it."""
        known_epoch = self._standing.leader_epoch
        epoch = event.leader_epoch if isinstance(event, line_events.PartitionLoaded) else 0
        is_unloaded = isinstance(event, line_events.GroupUnloaded)

        def judge(item: Item, other: _Event, _: _Stored, is_told: bool) -> bool | None:
            if isinstance(item, TimedLine):
                if is_unloaded and not is_told and isinstance(other, line_events.JoinPhaseEnded):
                    return False  # it went on here
                if item.line.file == OF_RECORDS and isinstance(other, line_events.PartitionLoaded):
                    return other.leader_epoch >= epoch
                return None
            if item.leader_epoch is None:
                return None
            if known_epoch is None or item.leader_epoch > known_epoch:
                return item.leader_epoch >= epoch
            return False if item.timestamp_ms > self._standing.at_ms + _NEAR_MS else None

        found = self._judged(
            judge, lambda other: isinstance(other, _LOADED) and type(other) is not type(event),
            is_settled=known_epoch is None,
        )  # fmt: skip
        return Confirmation(True, END) if is_unloaded and found.place == END else found

    def ends(self) -> Confirmation:
        """Whether the group is not there any more, or begins anew."""
        known_id = self._standing.generation_id

        def judge(item: Item, event: _Event, stored: _Stored, _: bool) -> bool | None:
            if stored is not None:
                return stored.generation_id <= known_id
            if deletes_classic_group(item) or (isinstance(item, CommitRecord) and item.value is None):
                return True
            match event:
                case line_events.RebalancePrepared():
                    return event.old_generation_id < max(known_id, 1)
                case line_events.JoinPhaseEnded() | line_events.GroupEmptied():
                    return event.generation_id <= known_id
                case _:
                    return None

        return self._judged(judge)

    def _is_of_a_later_epoch(self, item: Item) -> bool:
        """Whether it is a record with a larger leader epoch than the known one."""
        epoch, known_epoch = None if isinstance(item, TimedLine) else item.leader_epoch, self._standing.leader_epoch
        return epoch is not None and known_epoch is not None and epoch > known_epoch
