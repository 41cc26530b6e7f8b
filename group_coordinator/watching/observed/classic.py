"""A classic group's history, put together from its records and the lines of its brokers.

A record tells a generation's end, its members and what each got. A line tells a rebalance's start and why. What neither
says is told as not known.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.observed.ahead import Ahead
from group_coordinator.watching.observed.classic_members import ClassicMembers
from group_coordinator.watching.observed.classic_rebalances import ClassicRebalances
from group_coordinator.watching.observed.hints import Hints
from group_coordinator.watching.observed.stored_groups import StoredGeneration, unrecorded_generation
from group_coordinator.watching.observed.teller import Teller
from schemas.history import (
    GroupCreated,
    GroupDead,
    GroupEmpty,
    MemberFenced,
    MemberIdentity,
    RecordingGap,
)

BEFORE = "nothing is known of the group before this"
NEAR_MS = 5_000
"""So near to the line that tells of it lies the moment that a record gives for the end of its join phase."""
LOADED = "what its new coordinator has of it is not in the evidence"
BACK = "its generation goes back: what lies between is not in the evidence"

Departure = tuple[int, MemberIdentity]
"""The record that says that a member is gone, and the member."""


class ClassicGroup:
    """One classic group, followed through what is known of it."""

    def __init__(self, teller: Teller, ahead: Ahead, hints: Hints) -> None:
        """`ahead`: what the group's later records say. `hints`: what lines say."""
        self._tell = teller
        self._ahead = ahead
        self._members = ClassicMembers(teller, ahead, hints)
        self._rebalances = ClassicRebalances(teller, self._members)
        self._is_known = False
        """Whether anything was told of this life of the group."""
        self._is_empty = False
        """Whether it was told that nobody is left."""
        self._has_offsets = False
        """Whether offsets were committed: a group may consist of them alone."""
        self._departures: Sequence[Departure] = ()
        """They are those of members of another protocol, and led to the group's conversion."""
        self._recorded: StoredGeneration | None = None
        """The last generation of this life of the group that has a record."""
        self._unrecorded: StoredGeneration | None = None
        """A later one that only a line tells of: its record is compacted, or was never written."""

    @property
    def is_known(self) -> bool:
        """Whether anything was told of the group as it is now."""
        return self._is_known

    # ------------------------------------------------------------------------------------------------------- records

    def stored(self, generation: StoredGeneration) -> None:
        """Note that the group's record was written."""
        if self._is_known and generation.generation_id < self._tell.generation_id:
            self._tell.say(RecordingGap, reason=BACK)
            self._begin_life()
        if not generation.members:
            self._stored_empty(generation)
        elif not self._is_known and (generation.generation_id > 1 or generation.is_written_again):
            self._record_existing(generation)
        else:
            self._stored_members(generation)
        self._note_stored(generation)

    def _note_stored(self, generation: StoredGeneration) -> None:
        self._recorded, self._unrecorded = generation, None
        self._members.are_stored()

    def _stored_empty(self, generation: StoredGeneration) -> None:
        if generation.generation_id == 0 and self._tell.generation_id == 0:
            # Written when the first member id is given out; lines may tell of that, and of more, before.
            self._is_empty = self._is_empty or not self._is_known
            if not self._is_known:
                self._is_known = True
                self._tell.say(GroupCreated)
        elif not self._is_known:
            self._be_known(generation.generation_id)
            self._empty(generation.generation_id)
        elif not self._is_empty or generation.generation_id > self._tell.generation_id:
            self._empty(generation.generation_id)

    def _stored_members(self, generation: StoredGeneration) -> None:
        self._create(generation.join_ended_ms)
        if generation.generation_id == self._tell.generation_id and self._members.present:
            for old, new in self._returned(generation):
                self._rebalances.rename(old, new)
            self._members.take_over(generation, rebalanced=False)
            self._members.become(generation)
        self._rebalances.settle(generation.generation_id, generation, generation.join_ended_ms)
        self._rebalances.assign(generation)
        self._is_empty = False

    def _returned(self, generation: StoredGeneration) -> list[tuple[str, str]]:
        """Return both ids of static members that are known under another id."""
        known = {member.group_instance_id: member.member_id for member in self._members.present.values()}
        ids = {member.identity.group_instance_id: member_id for member_id, member in generation.members.items()}
        return [
            (known[instance_id], ids[instance_id])
            for instance_id in ids
            if instance_id is not None and instance_id in known
        ]

    def _record_existing(self, generation: StoredGeneration) -> None:
        """Record the first generation that is known of the group; what led to it is not known."""
        self._is_known, self._is_empty = True, False
        self._tell.generation_id = generation.generation_id
        self._members.record(generation)
        self._rebalances.assign(generation)

    @property
    def members(self) -> Mapping[str, MemberIdentity]:
        """The members of the group, as far as they are known: another object when they change hands."""
        return self._members.present

    @property
    def given_ids(self) -> Collection[str]:
        """Member ids that were given out and not used yet."""
        return self._members.given_ids

    def leave_protocol(self) -> None:
        """End the classic group, which goes on under another protocol."""
        self._rebalances.complete("interrupted")
        self._members.forget()
        self._rebalances.forget()
        self._is_known = self._is_empty = False
        self._recorded = self._unrecorded = None

    def take_up_protocol(self, generation: StoredGeneration, departures: Sequence[Departure]) -> None:
        """Begin as a group that had another protocol until now. `departures` are what led to that."""
        self._departures = departures
        self._note_stored(generation)
        self._is_known, self._is_empty = True, not generation.members
        self._tell.generation_id = generation.generation_id
        self._members.present = {member_id: member.identity for member_id, member in generation.members.items()}
        if generation.members:
            self._rebalances.assign(generation)
        else:
            self._tell.say(GroupEmpty)

    def note_offsets(self) -> None:
        """Note that offsets of the group were written."""
        self._has_offsets = True

    def forget_offsets(self) -> None:
        """Note that the group has died while it had another protocol."""
        self._has_offsets = False

    def tombstone(self) -> None:
        """Note that the group's record was deleted, and the group with it."""
        if self._is_known or self._has_offsets:
            self.die("not_known")

    # --------------------------------------------------------------------------------------------------------- lines

    def line(self, event: line_events.LineEvent) -> None:
        """Take a line of a broker's log."""
        match event:
            case line_events.MemberIdGiven():
                self._create()
                self._members.give_id(event.member_id)
            case line_events.MemberAdded():
                self._create()
                self._members.join(event.member_id, event.group_instance_id)
            case line_events.RebalancePrepared():
                self._prepared(event)
            case line_events.JoinPhaseEnded():
                self._settled(event)
            case line_events.GroupEmptied():
                self._be_known(event.generation_id)
                self._empty(event.generation_id)
            case line_events.StaticMemberReplaced(in_consumer_group=False):
                self._replaced(event)
            case line_events.GroupDeleted():
                self.die("deleted")
            case line_events.GroupExpired():
                self.die("expired")
            case line_events.AssignmentTaken():
                self._assigned(event)
            case line_events.GroupUnloaded():
                self._rebalances.complete("coordinator_changed")
            case _:
                self._line_of_member(event)

    def _line_of_member(self, event: line_events.LineEvent) -> None:
        match event:
            case line_events.PendingMemberExpired():
                self._members.forget_id(event.member_id)
            case line_events.MemberFailed():
                self._members.expire(event.member_id)
            case line_events.MemberDeparted():
                self._members.leave(event.member_id, event.client_reason)
            case line_events.MembersNotRejoined():
                self._members.drop(event.member_ids, "did_not_rejoin")
                self._rebalances.drop(event.member_ids)
            case line_events.InstanceFenced():
                self._tell.say(
                    MemberFenced,
                    member_id=event.member_id,
                    group_instance_id=event.group_instance_id,
                    owner_member_id=event.owner_member_id,
                )
            case _:
                pass  # told of a consumer group, or nothing new

    def _prepared(self, event: line_events.RebalancePrepared) -> None:
        """Begin a rebalance. Its cause was told before, or is told by the same line."""
        self._be_known(event.old_generation_id)
        if event.old_generation_id > self._tell.generation_id:
            self._rebalances.skip_to(event.old_generation_id)
        self._rebalances.complete("interrupted")
        member, caused_by = self._cause_of(event)
        given_reason = event.client_reason or (
            None if member is None else self._members.given_reasons.get(member.member_id)
        )
        initial = self._tell.generation_id == 0 or self._is_empty
        self._is_empty = False
        self._rebalances.start(
            event.trigger,
            member,
            event.reason,
            given_reason=given_reason,
            initial=initial,
            caused_by=caused_by,
            following=self._ahead.next_generation(other_than=self._tell.generation_id),
        )

    def _cause_of(self, event: line_events.RebalancePrepared) -> tuple[MemberIdentity | None, int | None]:
        """Return the member that caused a rebalance, and the history record that led to it."""
        if event.trigger == "group_converted" and self._departures:
            caused_by, member = self._departures[-1]
            return member, caused_by
        self._note_cause(event)
        # Of a static member that an admin removes the line has no id; the line before it says who left.
        member_ids = event.member_ids or (self._members.left if event.trigger == "member_left" else ())
        if not member_ids:
            return None, None
        first = member_ids[0]
        return self._members.identity(first, event.group_instance_id), self._members.led.get(first)

    def _note_cause(self, event: line_events.RebalancePrepared) -> None:
        """Tell what the line says of its members, unless a line of its own did."""
        members = self._members
        present = [member_id for member_id in event.member_ids if member_id in members.present]
        if event.trigger == "member_joined":
            for member_id in event.member_ids:
                members.join(member_id, event.group_instance_id)
        elif event.trigger == "member_expired":
            for member_id in present:
                members.expire(member_id)
        elif event.trigger == "member_left":
            for member_id in present:
                members.leave(member_id)
        elif event.trigger == "members_did_not_sync":
            members.drop(present, "did_not_sync")

    def _settled(self, event: line_events.JoinPhaseEnded) -> None:
        self._be_known(event.generation_id - 1)
        self._rebalances.settle(event.generation_id, self._stored_of(event), self._tell.at_ms)
        self._is_empty = False

    def _assigned(self, event: line_events.AssignmentTaken) -> None:
        """End a rebalance whose leader has sent the assignment. Who got what is in the record, if there is one."""
        self._be_known(event.generation_id)
        if not self._is_recorded(event.generation_id):
            self._rebalances.assign_unrecorded(event.generation_id, event.leader_id)
            self._note_unrecorded(event.leader_id)

    def _is_recorded(self, generation_id: int) -> bool:
        """Return whether the record that comes next is that of a generation, and not of a later one of its number."""
        stored = self._ahead.next_generation()
        if stored is None or stored.generation_id != generation_id:
            return False
        return stored.stored_ms - self._tell.at_ms <= NEAR_MS

    def _note_unrecorded(self, leader_id: str | None = None) -> None:
        """Note that the group was stored as it is, by a record that is not in the evidence."""
        tell = self._tell
        self._unrecorded = unrecorded_generation(tell.generation_id, leader_id, self._members.present, tell.at_ms)

    def load(self, loaded: line_events.GroupLoaded | None) -> None:
        """Become what a new coordinator has of the group: what was stored last. `loaded`: its own line, if it has one.

        A rebalance that was going on, ids that were given out, and all that members did since are lost.
        """
        was_rebalancing = self._rebalances.complete("coordinator_changed")
        stored = self._last_stored(loaded)
        if stored is not None or (self._is_known and self._tell.generation_id == 0):
            self._become(stored)
        elif was_rebalancing:
            self._members.forget()
            self._members.are_unknown = True
            self._tell.say(RecordingGap, certainty="not_known", reason=LOADED)

    def _last_stored(self, loaded: line_events.GroupLoaded | None) -> StoredGeneration | None:
        """Return what a new coordinator finds; None if it finds nothing, or the evidence does not have it."""
        found, coming = self._unrecorded, self._ahead.next_generation()
        if found is not None and coming is not None and coming.generation_id <= found.generation_id:
            found = None  # it was lost, and the next one has its number
        for stored in (found, self._recorded):
            if stored is not None and (loaded is None or _may_be(loaded, stored)):
                return stored
        return None

    def _become(self, stored: StoredGeneration | None) -> None:
        generation_id = 0 if stored is None else stored.generation_id
        was_in_force = self._tell.generation_id == generation_id and self._rebalances.is_in_force(stored)
        if not self._members.load(stored) and was_in_force:
            return
        self._tell.generation_id = generation_id
        self._is_empty = stored is None or not stored.members
        self._rebalances.restore(stored)

    def _stored_of(self, event: line_events.JoinPhaseEnded) -> StoredGeneration | None:
        """Return the stored record of a generation that begins, if its leader sends the assignment.

        A record of another life is not one.
        """
        stored = self._ahead.next_generation(other_than=self._tell.generation_id)
        begins = event.generation_id, event.members
        if stored is None or stored.is_written_again or (stored.generation_id, len(stored.members)) != begins:
            return None
        since_ms = stored.state_since_ms
        return stored if since_ms is None or abs(since_ms - self._tell.at_ms) <= NEAR_MS else None

    def _replaced(self, event: line_events.StaticMemberReplaced) -> None:
        """Replace a static member that is back. The line tells its new id, or the record that follows."""
        stored = self._ahead.next_generation()
        if stored is None and self._ahead.is_beyond(self._tell.at_ms):
            self._rebalances.lose((event.old_member_id,))
            return
        members = () if stored is None else stored.members.values()
        ids = {member.identity.group_instance_id: member.identity.member_id for member in members}
        member_id = event.member_id or ids.get(event.group_instance_id)
        if member_id is None or member_id in self._members.present:
            return
        if not self._is_known and stored is not None and stored.is_written_again:
            self._be_known(stored.generation_id)
        rebalanced = stored is None or stored.generation_id != self._tell.generation_id
        if not rebalanced:
            self._rebalances.rename(event.old_member_id, member_id)
        self._members.replace(event.old_member_id, member_id, event.group_instance_id, rebalanced=rebalanced)

    # ---------------------------------------------------------------------------------------------- what both lead to

    def _create(self, at_ms: int | None = None) -> None:
        """Note that the group is there: it was created, if nothing was told of it before."""
        if not self._is_known:
            self._is_known = True
            self._tell.say(GroupCreated, at_ms=at_ms, certainty="inferred")

    def _be_known(self, generation_id: int) -> None:
        """Note that the group is in this generation: if nothing was told of it before, its past is not known."""
        if self._is_known or generation_id <= 0:
            self._create()
            return
        self._is_known = True
        self._tell.generation_id = generation_id
        self._members.are_unknown = True
        self._tell.say(RecordingGap, certainty="not_known", reason=BEFORE)

    def _empty(self, generation_id: int) -> None:
        self._rebalances.empty(generation_id)
        self._is_empty = True
        if not self._is_recorded(generation_id):
            self._note_unrecorded()

    def die(self, reason: Literal["deleted", "expired", "not_known"]) -> None:
        """Note that the group is gone."""
        if self._is_known or self._has_offsets:
            self._members.lose(self._members.present)
            self._tell.say(GroupDead, certainty="not_known" if reason == "not_known" else "told", reason=reason)
        self._begin_life()

    def _begin_life(self) -> None:
        self._is_known = self._is_empty = self._has_offsets = False
        self._recorded = self._unrecorded = None
        self._tell.life += 1
        self._tell.generation_id = 0
        self._members.forget()
        self._rebalances.forget()


def _may_be(loaded: line_events.GroupLoaded, stored: StoredGeneration) -> bool:
    """Return whether what a coordinator says that it has loaded may be this generation."""
    return loaded.generation_id in (None, stored.generation_id) and loaded.members in (None, len(stored.members))
