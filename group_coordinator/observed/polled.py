"""What polls alone tell of groups, where the offsets topic may not be read: who owns what, as of each poll.

What happens between two polls is not seen, and no reason is. Generations are counted here, one for each change that is
seen; they are not Kafka's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from group_coordinator.observed.classic import ClassicGroup
from group_coordinator.observed.observer import OFFSETS_PARTITIONS, Told
from group_coordinator.observed.stored_groups import StoredGeneration, StoredMember
from group_coordinator.observed.teller import Look, Teller
from group_coordinator.recordings import broker_lines as line_events
from schemas.history import AssignedTopic, History, MemberIdentity, OffsetChange, OffsetsCommitted
from schemas.java_hash import group_partition
from schemas.observed_history import OffsetsRemoved

STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"
_BEFORE_FIRST = 1
"""Something was there before the first poll."""
_REBALANCES = "a poll finds the group rebalancing; why is not known"


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


class Polls:
    """All groups of a cluster, poll by poll."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}

    def take(self, at_ms: int, groups: Iterable[PolledGroup]) -> Iterator[Told]:
        """Yield what is new in a poll of all groups. A group that is not in the poll any more is gone."""
        found = {group.group_id: group for group in groups}
        for group_id in sorted(self._groups.keys() | found.keys()):
            group = self._groups.get(group_id)
            if group is None:
                group = self._groups[group_id] = _Group(group_id)
            history = group.look(at_ms, found.get(group_id))
            if history:
                yield Told(group_id=group_id, history=history, is_whole=False)


class _Group:
    """One group."""

    def __init__(self, group_id: str) -> None:
        self._tell = Teller(group_id, group_partition(group_id, OFFSETS_PARTITIONS))
        self._profiles: dict[str, StoredMember] = {}
        self._classic = ClassicGroup(self._tell, self._profiles)
        self._counted = _BEFORE_FIRST
        self._shown: Mapping[str, object] | None = None
        """The members as of the last stable poll; None: the group rebalances, or nothing is known of it."""
        self._offsets: dict[tuple[str, int], int] = {}

    def look(self, at_ms: int, group: PolledGroup | None) -> list[History]:
        """None: the group is not there."""
        self._tell.look_at(Look(timestamp_ms=at_ms))
        if group is None or group.state == DEAD:
            self._classic.tombstone()
            self._shown, self._counted, self._offsets = None, _BEFORE_FIRST, {}
        elif group.state in (STABLE, EMPTY):
            if self._shown != group.members:
                self._store(at_ms, group)
        elif self._shown is not None:
            self._shown = None
            self._classic.line(_rebalancing(group.group_id, self._tell.generation_id), ())
        if group is not None and group.offsets is not None:
            self._commit(group.offsets)
        return self._tell.take_history()

    def _store(self, at_ms: int, group: PolledGroup) -> None:
        self._shown = group.members
        self._counted += 1
        members = {
            member_id: StoredMember(
                identity=identity,
                session_timeout_ms=None,
                rebalance_timeout_ms=None,
                subscribed_topics=None,
                topics=topics,
            )
            for member_id, (identity, topics) in group.members.items()
        }
        self._profiles.clear()
        self._profiles.update(members)
        self._classic.stored(
            StoredGeneration(
                generation_id=self._counted,
                protocol_type=group.protocol_type,
                protocol_name=group.assignor,
                leader_id=None,
                state_since_ms=None,
                stored_ms=at_ms,
                members=members,
            )
        )

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


def _rebalancing(group_id: str, generation_id: int) -> line_events.RebalancePrepared:
    return line_events.RebalancePrepared(
        group_id=group_id,
        old_generation_id=generation_id,
        trigger="not_known",
        member_ids=(),
        group_instance_id=None,
        reason=_REBALANCES,
        client_reason=None,
    )
