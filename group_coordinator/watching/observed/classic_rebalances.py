"""The rebalances of a watched classic group: where each begins and ends, and what it came to."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from group_coordinator.watching.observed.classic_members import ClassicMembers
from group_coordinator.watching.observed.rebalances import Rebalances
from group_coordinator.watching.observed.stored_groups import StoredGeneration
from group_coordinator.watching.observed.teller import Teller
from schemas.history import (
    AssignmentReceived,
    GroupEmpty,
    GroupStable,
    JoinPhaseCompleted,
    MemberAssignment,
    MemberIdentity,
    ProtocolChosen,
    RebalanceTrigger,
)
from schemas.observed_history import GenerationsNotRecorded, GroupRestored, OwnershipNotKnown

COOPERATIVE_PROTOCOLS = frozenset({"cooperative-sticky", "stream", "compatible", "sessioned"})
"""Protocols whose members keep what they have while they rejoin; the last two are Connect's."""
NOT_TOLD = "the offsets topic tells its end alone; its start and its cause are not known"


class ClassicRebalances(Rebalances):
    """The rebalance that runs, and the generation that is in force."""

    def __init__(self, teller: Teller, members: ClassicMembers) -> None:
        super().__init__(teller)
        self._members = members
        self._protocol_name: str | None = None
        self._assignments: tuple[MemberAssignment, ...] = ()
        self._eager: set[str] = set()
        """Members that give up all when they rejoin, whatever the assignor: they offer an eager one beside it."""

    def forget(self) -> None:
        """Forget all rebalances: another epoch of the group begins."""
        self._running, self._interrupted, self._protocol_name, self._assignments = None, None, None, ()
        self._eager = set()

    def start(
        self,
        trigger: RebalanceTrigger,
        member: MemberIdentity | None,
        reason: str,
        *,
        given_reason: str | None = None,
        initial: bool = False,
        caused_by: int | None = None,
        following: StoredGeneration | None,
        at_ms: int | None = None,
    ) -> None:
        """Begin a rebalance. `following`: the generation that is stored next, if one is."""
        self.begin(
            trigger,
            member,
            reason,
            certainty="not_known" if reason == NOT_TOLD else "told",
            initial=initial,
            caused_by=caused_by,
            given_reason=given_reason,
            at_ms=at_ms,
        )
        if self._running is not None and reason == NOT_TOLD:
            self._running.is_begin_known = False
        self._members.led.clear()
        self._give_up(following, at_ms)

    def _give_up(self, following: StoredGeneration | None, at_ms: int | None) -> None:
        """Note that members give up their partitions when they rejoin; when each does is not told."""
        owners = self._members.owners
        is_cooperative = self._protocol_name in COOPERATIVE_PROTOCOLS
        going = tuple(sorted(self._eager_of(owners, following) if is_cooperative else owners))
        if going:
            reason = "eager_member" if is_cooperative else "rejoining"
            self._tell.say(OwnershipNotKnown, at_ms=at_ms, certainty="not_known", member_ids=going, reason=reason)
            owners.difference_update(going)

    def _eager_of(self, owners: Iterable[str], following: StoredGeneration | None) -> list[str]:
        """Return the members that have given up all when they have rejoined: they say so then, or have said so."""
        coming = {} if following is None else following.members
        having = {share.member_id for share in self._assignments if share.topics}
        eager = []
        for member_id in owners:
            owned_before = coming[member_id].owned_before if member_id in coming else None
            if member_id in having and (member_id in self._eager if owned_before is None else not owned_before):
                eager.append(member_id)
        return eager

    def _note_eager(self, generation: StoredGeneration) -> None:
        """Learn from a new generation which members are eager: those that could have been in one of an eager assignor,
        and those that had partitions and came without."""
        had = {share.member_id for share in self._assignments if share.topics}
        is_cooperative = generation.protocol_name in COOPERATIVE_PROTOCOLS
        for member_id, member in generation.members.items():
            if not is_cooperative or (member.owned_before is False and member_id in had):
                self._eager.add(member_id)
            elif member.owned_before:
                self._eager.discard(member_id)
        self._eager &= generation.members.keys()

    def drop(self, member_ids: tuple[str, ...]) -> None:
        """Note members that were removed for not joining the rebalance that runs."""
        if self._running is not None:
            self._running.dropped += member_ids

    def settle(self, generation_id: int, generation: StoredGeneration | None, at_ms: int) -> None:
        """End the join phase. `generation` is what is stored of it, now or later; None if nothing is."""
        known_id = self._tell.generation_id
        if generation_id <= known_id:
            return
        if generation_id > known_id + 1:
            self.skip_to(generation_id - 1, at_ms)
        if self._running is not None and self._running.join_ms is not None:
            self.complete("interrupted", at_ms)
        if generation is not None:
            self._members.take_over(generation, rebalanced=True)
            self._members.become(generation, at_ms)
        if self._running is None:
            self.start("not_known", None, NOT_TOLD, following=generation, at_ms=at_ms, initial=known_id == 0)
        running = self._running
        assert running is not None
        running.join_ms = max(at_ms - running.started_ms, 0)
        self._tell.generation_id = generation_id
        self._tell.say(
            JoinPhaseCompleted,
            at_ms=at_ms,
            rebalance=running.seq,
            duration_ms=running.join_ms,
            is_begin_known=running.is_begin_known,
            members=tuple(self._members.present),
            waited_for=(),
            slowest=None,
            dropped=tuple(running.dropped),
        )

    def assign(self, generation: StoredGeneration) -> None:
        """Take the leader's assignment that is stored: it tells all owners from now on."""
        assignments = _assignments(generation)
        if assignments == self._assignments and self._running is None:
            return  # a record that was written again
        self._note_eager(generation)
        tell, protocol, leader_id = self._tell, generation.protocol_name, generation.leader_id or ""
        if protocol is not None and protocol != self._protocol_name:
            tell.say(ProtocolChosen, protocol_name=protocol, votes={}, tie=False)
        self._protocol_name, self._assignments = protocol, assignments
        rebalance = None if self._running is None else self._running.seq
        tell.say(AssignmentReceived, rebalance=rebalance, leader_id=leader_id, assignments=assignments)
        tell.say(GroupStable, leader_id=leader_id, protocol_name=protocol, members=tuple(generation.members))
        self._members.owners = set(generation.members)
        self.complete("stable")

    def assign_unrecorded(self, generation_id: int, leader_id: str | None) -> None:
        """End the rebalance whose leader sent an assignment that no record has: who owns what is not known."""
        running, tell = self._running, self._tell
        if running is None or running.join_ms is None or generation_id != tell.generation_id:
            return
        members = tuple(self._members.present)
        self._assignments = ()
        tell.say(GroupStable, leader_id=leader_id or "", protocol_name=None, members=members)
        self.lose(members)
        self.complete("stable")

    def lose(self, member_ids: tuple[str, ...]) -> None:
        """Note that no record has what these members own."""
        self._members.owners.difference_update(member_ids)
        self._tell.say(OwnershipNotKnown, certainty="not_known", member_ids=member_ids, reason="not_recorded")

    def is_in_force(self, stored: StoredGeneration | None) -> bool:
        """Return whether the owners are those of this generation."""
        return self._assignments == (() if stored is None else _assignments(stored))

    def restore(self, stored: StoredGeneration | None) -> None:
        """Make the owners those of a generation that was stored before: it is in force again. None: nothing was."""
        members = {} if stored is None else stored.members
        self._protocol_name = None if stored is None else stored.protocol_name
        self._assignments = () if stored is None else _assignments(stored)
        self._tell.say(
            GroupRestored,
            certainty="inferred",
            leader_id="" if stored is None else stored.leader_id or "",
            protocol_name=self._protocol_name,
            members=tuple(member.recorded(self._protocol_name) for member in members.values()),
            assignments=self._assignments,
        )
        self._members.owners = set(members)
        if members and self._protocol_name is None:
            self.lose(tuple(members))

    def rename(self, old_member_id: str, member_id: str) -> None:
        """Go on with a static member under another id, with what it has."""
        self._assignments = tuple(
            replace(assignment, member_id=member_id) if assignment.member_id == old_member_id else assignment
            for assignment in self._assignments
        )
        if old_member_id in self._eager:
            self._eager.remove(old_member_id)
            self._eager.add(member_id)

    def empty(self, generation_id: int) -> None:
        """Note that no member is left."""
        tell = self._tell
        self._members.lose(self._members.present)
        if self._running is None and generation_id > tell.generation_id:
            self.start("not_known", None, NOT_TOLD, following=None)
        if generation_id > tell.generation_id + 1:
            self.skip_to(generation_id - 1)
        tell.generation_id = max(generation_id, tell.generation_id)
        self._assignments = ()
        tell.say(GroupEmpty)
        self.complete("empty")

    def skip_to(self, generation_id: int, at_ms: int | None = None) -> None:
        """Skip generations up to this one, which left no trace."""
        first_id = self._tell.generation_id + 1
        self.complete("interrupted", at_ms)
        self._tell.say(
            GenerationsNotRecorded,
            at_ms=at_ms,
            certainty="not_known",
            first_generation_id=first_id,
            last_generation_id=generation_id,
        )
        self._tell.generation_id = generation_id


def _assignments(generation: StoredGeneration) -> tuple[MemberAssignment, ...]:
    return tuple(member.assignment for member in generation.members.values())
