"""How far members have come to the target of their group, record by record: what several views show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from group_coordinator.watching.history.holding import (
    Holder,
    Place,
    holder,
    longest_first,
    must_give_up,
    places,
    target_owners,
)
from schemas.consumer_group_history import MemberReconciled
from schemas.history import AssignedTopic, MemberAssignment

Kept = TypeVar("Kept")


class Reconciliation:
    """The target, what each member has, and who must give up partitions.

    A view passes on what it hears. It stays empty for classic groups.
    """

    __slots__ = ("_owners", "_since", "epoch", "held_up", "progress", "targets")

    def __init__(self) -> None:
        self.epoch = 0
        """Of the target."""
        self.targets: dict[str, tuple[AssignedTopic, ...]] = {}
        """What each member shall own ..."""
        self.progress: dict[str, MemberReconciled] = {}
        """... and how far it has come."""
        self.held_up: dict[str, Holder] = {}
        """The members that must give up partitions."""
        self._since: dict[str, dict[Place, int]] = {}
        """Since when each of them was told so, for each partition."""
        self._owners: dict[Place, str] | None = None
        """Those of the target; None: nobody has asked for them yet."""

    def holders(self) -> tuple[Holder, ...]:
        """Return who must give up partitions, the one that has known it longest first."""
        return tuple(longest_first(self.held_up.values()))

    def clear(self) -> None:
        """Forget everything: the group is empty, gone, or counts no epochs."""
        self.epoch, self._owners = 0, None
        for of_members in (self.targets, self.progress, self.held_up, self._since):
            of_members.clear()

    def aim(self, epoch: int, assignments: Iterable[MemberAssignment]) -> None:
        """Take a new target."""
        self.epoch, self._owners = epoch, None
        self.targets = {share.member_id: share.topics or () for share in assignments}
        for member_id in self.progress:
            self._look_at(member_id)

    def come(self, record: MemberReconciled) -> None:
        """Take a member's step to its target."""
        member_id = record.member.member_id
        self.progress[member_id] = record
        before = self._since.pop(member_id, {})
        if record.pending_revocation:
            self._since[member_id] = {
                place: before.get(place, record.timestamp_ms) for place in places(record.pending_revocation)
            }
        self._look_at(member_id)

    def replace(self, old_member_id: str, member_id: str) -> None:
        """Let a static member go on under another id."""
        rename(self.targets, old_member_id, member_id)
        rename(self.progress, old_member_id, member_id)
        rename(self._since, old_member_id, member_id)
        self._owners = None
        self.held_up.pop(old_member_id, None)
        if member_id in self.progress:
            self._look_at(member_id)

    def forget(self, member_id: str) -> None:
        """Forget a member that is gone."""
        for of_members in (self.targets, self.progress, self._since, self.held_up):
            of_members.pop(member_id, None)
        self._owners = None
        for each in list(self.held_up.values()):
            if member_id in each.waiting:
                self._look_at(each.member_id)

    def behind(self) -> list[str]:
        """Return the members that have not come to the target and need not give up anything."""
        return [
            member_id
            for member_id, target in self.targets.items()
            if member_id not in self.held_up and not self._is_settled(member_id, target)
        ]

    def _is_settled(self, member_id: str, target: tuple[AssignedTopic, ...]) -> bool:
        record = self.progress.get(member_id)
        return record is not None and record.state == "stable" and places(record.assigned) == places(target)

    def _look_at(self, member_id: str) -> None:
        record = self.progress[member_id]
        # What is pending besides what is assigned counts in any case.
        must_go = must_give_up(record.assigned, record.pending_revocation, self.targets.get(member_id))
        if not must_go:
            self.held_up.pop(member_id, None)
            return
        if self._owners is None:
            self._owners = target_owners(self.targets.items())
        since = self._since.get(member_id)
        self.held_up[member_id] = holder(member_id, must_go, min(since.values()) if since else None, self._owners)


def rename(of_members: dict[str, Kept], old_member_id: str, member_id: str) -> None:
    """Keep what is known of a member under another id."""
    if old_member_id in of_members:
        of_members[member_id] = of_members.pop(old_member_id)
