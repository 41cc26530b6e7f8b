"""What polls alone tell of groups, where the offsets topic may not be read: who owns what, as of each poll.

What happens between two polls is not seen, and no reason is. Generations are counted here, one for each change that is
seen; they are not Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, TypeVar

from msgspec import Struct

from group_coordinator.watching.broker_logs import broker_lines as line_events
from group_coordinator.watching.observed.ahead import Ahead
from group_coordinator.watching.observed.classic import ClassicGroup
from group_coordinator.watching.observed.following import OFFSETS_PARTITIONS
from group_coordinator.watching.observed.hints import Hints
from group_coordinator.watching.observed.modern import ModernGroup, member_of_unknown_subscription
from group_coordinator.watching.observed.modern_records import Current, State, Step
from group_coordinator.watching.observed.observer import GroupUpdate
from group_coordinator.watching.observed.stored_groups import StoredGeneration, StoredMember
from group_coordinator.watching.observed.teller import Look, Teller
from schemas.consumer_group_history import ConsumerMember, GroupConverted, GroupKind, MembersReconciled
from schemas.history import AssignedTopic, History, MemberIdentity, OffsetChange, OffsetsCommitted
from schemas.java_hash import group_partition
from schemas.observed_history import OffsetsRemoved

STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"
_T = TypeVar("_T")

_BEFORE_FIRST = 1
"""Something was there before the first poll."""
_REBALANCES = "a poll finds the group rebalancing; why is not known"


Targets = Mapping[str, tuple[AssignedTopic, ...]]
"""By member id: what the member shall have."""


class PolledGroup(Struct, frozen=True, kw_only=True):
    """A group as a poll shows it."""

    group_id: str
    state: str
    """As Kafka's admin clients call it."""
    protocol_type: str
    assignor: str | None
    members: Mapping[str, tuple[MemberIdentity, tuple[AssignedTopic, ...]]]
    """By member id: who it is, and what it has."""
    offsets: Mapping[tuple[str, int], int] | None
    """The committed offset of each topic and partition; None: they were not asked for, or not told."""
    kind: Literal["classic"] | GroupKind = "classic"
    targets: Targets = {}
    """Where the group has a target assignment."""


class Polls:
    """All groups of a cluster, poll by poll."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def take(self, at_ms: int, groups: Iterable[PolledGroup], unanswered: Iterable[str] = ()) -> Iterator[GroupUpdate]:
        """Yield what is new in a poll of all groups. A group that is not in the poll any more is gone.

        `unanswered`: nothing is said of these.
        """
        polled = {group.group_id: group for group in groups}
        for group_id in sorted((self._groups.keys() | polled.keys()) - set(unanswered)):
            group = self._groups.get(group_id)
            if group is None:
                group = self._groups[group_id] = _Group(group_id)
            history = group.look(at_ms, polled.get(group_id))
            if history:
                yield GroupUpdate(group_id=group_id, history=history, unchanged=None)


class _Group:
    """One group."""

    def __init__(self, group_id: str) -> None:
        self._tell = Teller(group_id, group_partition(group_id, OFFSETS_PARTITIONS))
        self._profiles: dict[str, StoredMember] = {}
        self._classic = ClassicGroup(self._tell, Ahead(self._profiles), Hints())
        self._counted = _BEFORE_FIRST
        self._shown: Mapping[str, object] | None = None
        """The members as of the last stable poll; None: the group rebalances, or nothing is known of it."""
        self._offsets: dict[tuple[str, int], int] = {}
        self._modern: ModernGroup | None = None
        """While the group is not a classic one."""
        self._current: dict[str, Current] = {}
        self._targets: Targets = {}

    def look(self, at_ms: int, group: PolledGroup | None) -> list[History]:
        """None: the group is not there."""
        self._tell.look_at(Look(timestamp_ms=at_ms))
        if group is None or group.state == DEAD:
            self._die()
        elif group.kind != "classic":
            self._look_at_modern(group, group.kind)
        elif group.state in (STABLE, EMPTY):
            if self._shown != group.members:
                self._store(at_ms, group)
        elif self._shown is not None and self._modern is None:
            self._shown = None
            self._classic.line(
                line_events.RebalancePrepared(
                    group_id=group.group_id,
                    old_generation_id=self._tell.generation_id,
                    trigger="not_known",
                    reason=_REBALANCES,
                )
            )
        if group is not None and group.offsets is not None:
            self._commit(group.offsets)
        return self._tell.take_history()

    def _die(self) -> None:
        if self._modern is None:
            self._classic.tombstone()
        else:
            members = dict.fromkeys(self._modern.members)
            self._modern.step(Step(kind=self._modern.kind, members=members, is_deleted=True))
            self._tell.life += 1
            self._tell.generation_id = 0
        self._modern, self._shown, self._counted, self._offsets = None, None, _BEFORE_FIRST, {}
        self._current, self._targets = {}, {}

    def _look_at_modern(self, group: PolledGroup, kind: GroupKind) -> None:
        """Take a group that has a target assignment, and members that come to it one by one."""
        conversion, is_first = None, False
        if self._modern is None:
            self._modern = ModernGroup(self._tell, kind, Hints())
            if self._classic.members:
                classic_members = self._classic.members
                self._classic.leave_protocol()
                conversion = self._tell.say(GroupConverted, to_protocol=kind)
                self._modern.convert(classic_members)
            else:
                is_first = True
                self._counted += 1
                self._modern.find(_consumer_members(group, {}).values(), self._counted)
        members = _consumer_members(group, self._modern.members)
        changed = _changes(self._modern.members, members)
        if conversion is not None:
            changed |= members  # as when a group is converted: all are written anew
        step = Step(
            kind=kind,
            is_poll=True,
            members=changed,
            targets=_changes(self._targets, group.targets),
        )
        if conversion is not None or not self._only_came_back(members, group.targets):
            if step.members or (step.targets and self._shown is not None):
                self._counted += 1
            if step.members or step.targets:
                step.epoch = step.target_epoch = self._counted
        self._targets, self._shown = dict(group.targets), group.members
        current = {member_id: self._current_of(group, member_id) for member_id in group.members}
        step.current = _changes(self._current, current)
        self._current = current
        if step.members or step.targets or step.current:
            self._modern.step(step, conversion)
        if is_first and group.state == STABLE:
            self._tell.say(MembersReconciled, assignment_epoch=self._counted)

    def _only_came_back(self, members: Mapping[str, ConsumerMember], targets: Targets) -> bool:
        """Return whether nobody came, went or shall own something else, though static members are back by other ids."""
        assert self._modern is not None
        ids = {member.member.group_instance_id: member_id for member_id, member in members.items()}
        now = {
            member_id: ids.get(member.member.group_instance_id or "", member_id)
            for member_id, member in self._modern.members.items()
        }
        shall_own = {now.get(member_id, member_id): topics for member_id, topics in self._targets.items()}
        return set(now.values()) == members.keys() and shall_own == targets

    def _current_of(self, group: PolledGroup, member_id: str) -> Current:
        """Return how far a member has come. A poll does not show its epoch: it has ours once the group is stable."""
        _, assigned = group.members[member_id]
        before = self._current.get(member_id)
        is_there = group.state == STABLE
        epoch = self._counted if is_there or before is None else before.member_epoch
        state: State = "stable" if is_there else "unknown"
        if before is not None and (before.assigned, before.member_epoch, before.state) == (assigned, epoch, state):
            return before
        return Current(
            member_epoch=epoch,
            previous_epoch=epoch if before is None else before.member_epoch,
            state=state,
            assigned=assigned,
            pending_revocation=(),
        )

    def _store(self, at_ms: int, group: PolledGroup) -> None:
        self._shown = group.members
        self._counted += 1
        members = {
            member_id: StoredMember(identity=identity, topics=topics)
            for member_id, (identity, topics) in group.members.items()
        }
        self._profiles.clear()
        self._profiles.update(members)
        generation = StoredGeneration(
            generation_id=self._counted,
            protocol_type=group.protocol_type,
            protocol_name=group.assignor,
            stored_ms=at_ms,
            members=members,
        )
        if self._modern is None:
            self._classic.stored(generation)
            return
        departures = self._modern.become_classic(members)
        self._modern, self._current, self._targets = None, {}, {}
        self._tell.say(GroupConverted, caused_by=departures[-1][0] if departures else None, to_protocol="classic")
        self._classic.take_up_protocol(generation, departures)

    def _commit(self, offsets: Mapping[tuple[str, int], int]) -> None:
        before = self._offsets
        changed = [place for place in sorted(offsets) if before.get(place) != offsets[place]]
        gone = sorted(before.keys() - offsets.keys())
        self._offsets = dict(offsets)
        if changed:
            changes = tuple(OffsetChange(*place, offsets[place], before.get(place)) for place in changed)
            self._tell.say(OffsetsCommitted, certainty="inferred", member_id=None, offsets=changes)
        if gone:
            removed = tuple(OffsetChange(*place, None, before[place]) for place in gone)
            self._tell.say(OffsetsRemoved, certainty="not_known", offsets=removed)


def _changes(before: Mapping[str, _T], now: Mapping[str, _T]) -> dict[str, _T | None]:
    """Return what is there now and was not, or was another; and None for what has gone."""
    changes: dict[str, _T | None] = dict.fromkeys(key for key in before if key not in now)
    return changes | {key: value for key, value in now.items() if before.get(key) != value}


def _consumer_members(group: PolledGroup, known: Mapping[str, ConsumerMember]) -> dict[str, ConsumerMember]:
    """Return the members of a poll, by id. A poll does not show which protocol a member speaks: one that was known
    before, also a static one by another id, speaks what it spoke."""
    classic = [member.member for member in known.values() if member.uses_classic_protocol]
    classic_ids = {identity.member_id for identity in classic}
    instance_ids = {identity.group_instance_id for identity in classic} - {None}
    return {
        member_id: member_of_unknown_subscription(
            identity,
            uses_classic_protocol=member_id in classic_ids or identity.group_instance_id in instance_ids,
        )
        for member_id, (identity, _) in group.members.items()
    }
