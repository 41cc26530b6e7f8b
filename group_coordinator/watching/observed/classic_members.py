"""The members of a watched classic group: how each comes and goes, as far as it is told."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from msgspec import UNSET

from group_coordinator.watching.observed.ahead import Ahead
from group_coordinator.watching.observed.hints import Hints
from group_coordinator.watching.observed.stored_groups import StoredGeneration
from group_coordinator.watching.observed.teller import Teller
from schemas.history import (
    GroupRecorded,
    MemberDropped,
    MemberExpired,
    MemberIdAssigned,
    MemberIdentity,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    PendingMemberRemoved,
)
from schemas.observed_history import MemberGone, MemberRestored

DropReason = Literal["did_not_rejoin", "did_not_sync", "not_stored"]
Departure = Literal["left", "expired", "dropped", "replaced", "unknown"]


class ClassicMembers:
    """The members that are in the group."""

    def __init__(self, teller: Teller, ahead: Ahead, hints: Hints) -> None:
        """`ahead`: what the group's records say of members, whenever they were written. `hints`: what lines say."""
        self._hints = hints
        self._tell = teller
        self._ahead = ahead
        self.present: dict[str, MemberIdentity] = {}
        self.owners: set[str] = set()
        """Those of which it is known what they own."""
        self._given_ids: set[str] = set()
        """Ids that were given out and not used yet."""
        self.led: dict[str, int] = {}
        """Member -> the record of its coming or going that a rebalance may follow."""
        self.given_reasons: dict[str, str | None] = {}
        """Member -> the reason that it gave when it left."""
        self.are_unknown = False
        """Nothing is known of the group's past: members may be there that nothing was told of."""
        self._gone: dict[str, Departure] = {}
        """How members went since the group was stored last."""

    def forget(self) -> None:
        """Forget all members: another epoch of the group begins."""
        self.present, self.owners, self._given_ids, self.led, self.given_reasons = {}, set(), set(), {}, {}
        self._gone, self.are_unknown = {}, False

    @property
    def given_ids(self) -> Collection[str]:
        """Ids that were given out and not used yet."""
        return self._given_ids

    @property
    def left(self) -> tuple[str, ...]:
        """The members that have left since the last rebalance began, the last one first."""
        gone = [member_id for member_id in reversed(self.led) if member_id not in self.present]
        return tuple(member_id for member_id in gone if member_id in self.given_reasons)

    def identity(self, member_id: str, instance_id: str | None = None) -> MemberIdentity:
        """Return a member's identity, as far as any evidence tells it."""
        if member_id in self.present:
            return self.present[member_id]
        profile = self._ahead.profile(member_id)
        if profile is not None:
            return profile.identity
        return MemberIdentity(member_id=member_id, group_instance_id=instance_id, client_id="", client_host="")

    def give_id(self, member_id: str) -> None:
        self._given_ids.add(member_id)
        self._tell.say(MemberIdAssigned, member=self.identity(member_id), session_timeout_ms=None)

    def forget_id(self, member_id: str) -> None:
        """Forget a member id that was not used in time."""
        self._given_ids.discard(member_id)
        self._tell.say(PendingMemberRemoved, member_id=member_id, reason="expired")

    def join(
        self, member_id: str, instance_id: str | None = None, *, at_ms: int | None = None, is_told: bool = True
    ) -> None:
        if member_id in self.present:
            return
        self.present[member_id] = self.identity(member_id, instance_id)
        self._given_ids.discard(member_id)
        profile = self._ahead.profile(member_id)
        self.led[member_id] = self._tell.say(
            MemberJoined,
            at_ms=at_ms,
            certainty="told" if is_told else "inferred",
            member=self.present[member_id],
            session_timeout_ms=None if profile is None else profile.session_timeout_ms,
            rebalance_timeout_ms=None if profile is None else profile.rebalance_timeout_ms,
            protocols=(),
            subscribed_topics=None if profile is None else profile.subscribed_topics,
        )

    def leave(self, member_id: str, given_reason: str | None = None) -> None:
        self.given_reasons[member_id] = given_reason
        if member_id in self._given_ids:
            self._given_ids.discard(member_id)
            self.led[member_id] = self._tell.say(
                PendingMemberRemoved, member_id=member_id, reason="left", given_reason=given_reason
            )
        else:
            self.led[member_id] = self._tell.say(
                MemberLeft, member=self._remove(member_id, "left"), given_reason=given_reason
            )

    def expire(self, member_id: str) -> None:
        profile = self._ahead.profile(member_id)
        timeout_ms = None if profile is None else profile.session_timeout_ms
        caused_by, broker_id = self._hints.stalled.pop(member_id, (None, UNSET))
        self.led[member_id] = self._tell.say(
            MemberExpired,
            caused_by=caused_by,
            member=self._remove(member_id, "expired"),
            last_heard_ms=None,
            session_timeout_ms=timeout_ms,
            stalled_broker_id=broker_id,
        )

    def drop(self, member_ids: Iterable[str], reason: DropReason) -> None:
        for member_id in member_ids:
            identity = self._remove(member_id, "dropped")
            self.led[member_id] = self._tell.say(MemberDropped, member=identity, reason=reason)

    def lose(self, member_ids: Iterable[str], at_ms: int | None = None) -> None:
        """Remove members that are not in the group any more, for a reason that is not told."""
        for member_id in list(member_ids):
            self._tell.say(MemberGone, at_ms=at_ms, certainty="not_known", member=self._remove(member_id, "unknown"))

    def replace(self, old_member_id: str, member_id: str, instance_id: str, *, rebalanced: bool) -> None:
        """Replace a static member that is back under another id."""
        owned = old_member_id in self.owners
        self._remove(old_member_id, "replaced")
        self.present[member_id] = self.identity(member_id, instance_id)
        if owned and not rebalanced:
            self.owners.add(member_id)
        self.led[member_id] = self._tell.say(
            MemberReplaced, member=self.present[member_id], old_member_id=old_member_id, rebalanced=rebalanced
        )

    def take_over(self, generation: StoredGeneration, *, rebalanced: bool) -> None:
        """Replace static members of the generation that are known under other ids."""
        known = {
            member.group_instance_id: member.member_id for member in self.present.values() if member.group_instance_id
        }
        for member_id, member in generation.members.items():
            instance_id = member.identity.group_instance_id
            old = known.get(instance_id or "")
            if instance_id and old and old not in generation.members and member_id not in self.present:
                self.replace(old, member_id, instance_id, rebalanced=rebalanced)

    def become(self, generation: StoredGeneration, at_ms: int | None = None) -> None:
        """Make the members those of the generation: others have come or gone without a trace."""
        self.lose([member_id for member_id in self.present if member_id not in generation.members], at_ms)
        if self.are_unknown:
            self.are_unknown = False
            self._record_members(generation, at_ms)
        for member_id in generation.members:
            self.join(member_id, at_ms=at_ms, is_told=False)

    def record(self, generation: StoredGeneration) -> None:
        """Record the members of the generation; since when they are in the group is not known."""
        self.present = {}
        self._record_members(generation, None)

    def _record_members(self, generation: StoredGeneration, at_ms: int | None) -> None:
        """Record members of which nothing was told before; since when they are in the group is not known."""
        members = {
            member_id: member for member_id, member in generation.members.items() if member_id not in self.present
        }
        self.present |= {member_id: member.identity for member_id, member in members.items()}
        if members:
            self._tell.say(
                GroupRecorded,
                at_ms=at_ms,
                leader_id=generation.leader_id or "",
                protocol_name=generation.protocol_name or "",
                members=tuple(member.recorded(generation.protocol_name) for member in members.values()),
            )

    def are_stored(self) -> None:
        """Note that the members were stored as they are now: whoever coordinates the group next knows them."""
        self._gone.clear()

    def load(self, stored: StoredGeneration | None) -> bool:
        """Make the members those that were stored last. Returns whether they were others."""
        for member_id in self._given_ids:
            self._tell.say(PendingMemberRemoved, certainty="inferred", member_id=member_id, reason="not_stored")
        self._given_ids.clear()
        members = {} if stored is None else stored.members
        unstored = [member_id for member_id in self.present if member_id not in members]
        for member_id in unstored:
            identity = self._remove(member_id, "dropped")
            self._tell.say(MemberDropped, certainty="inferred", member=identity, reason="not_stored")
        restored = [member_id for member_id in members if member_id not in self.present]
        for member_id in restored:
            identity, departure = members[member_id].identity, self._gone.get(member_id, "unknown")
            self._tell.say(MemberRestored, certainty="inferred", member=identity, departure=departure)
            self.present[member_id] = identity
            self.given_reasons.pop(member_id, None)
        self._gone.clear()
        self.led.clear()
        return bool(unstored or restored)

    def _remove(self, member_id: str, departure: Departure) -> MemberIdentity:
        identity = self.identity(member_id)
        self.present.pop(member_id, None)
        self.owners.discard(member_id)
        self._gone[member_id] = departure
        return identity
