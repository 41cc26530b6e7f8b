"""The sticky engine where all members subscribe to the same topics: everybody gets the minimum or one more."""

from __future__ import annotations

from collections.abc import Iterable

from group_coordinator.coordinating.assignors.layout import GroupLayout
from group_coordinator.coordinating.assignors.rack_queues import MinimumQueue, UnderfilledRing
from group_coordinator.coordinating.assignors.racks import Racks
from group_coordinator.coordinating.assignors.sticky_claims import ResolvedClaims


def assign_same_subscriptions(
    layout: GroupLayout,
    claims: ResolvedClaims,
    rack_of: list[str | None],
    racks_of: list[Racks],
    *,
    rack_aware: bool,
) -> tuple[list[list[int]], set[int]]:
    """Return the partitions of each member, and those of them that another member has to give up first.

    `racks_of` is by partition, empty when no member has a rack. Source: `ConstrainedAssignmentBuilder`.
    """
    if not layout.members:
        return [], set()
    filling = _Filling(layout, claims)
    filling.keep_claims(rack_of if rack_aware else None, racks_of)
    unassigned = filling.unassigned()
    if racks_of:
        members_near = _members_near(rack_of, racks_of)
        unassigned.sort(key=lambda partition: members_near[racks_of[partition]])
    if rack_aware:
        unassigned = filling.share_by_racks(unassigned, rack_of, racks_of)
    filling.share(unassigned)
    return filling.assigned, filling.in_transfer()


def _members_near(rack_of: Iterable[str | None], racks_of: list[Racks]) -> dict[Racks, int]:
    """Return for each set of racks how many members are on one of them."""
    members_on: dict[str, int] = {}
    for rack in rack_of:
        if rack is not None:
            members_on[rack] = members_on.get(rack, 0) + 1
    return {racks: sum(members_on.get(rack, 0) for rack in racks) for racks in set(racks_of)}


class _Filling:
    """Members on their way to the minimum, and some to the one more that the remainder allows."""

    def __init__(self, layout: GroupLayout, claims: ResolvedClaims) -> None:
        self._layout = layout
        self._claims = claims
        self._minimum, self._extras = divmod(layout.partition_total, len(layout.members))
        self._maximum = self._minimum + (self._extras > 0)
        self._extras_given = 0
        self._below: list[int] = []
        """Members under the minimum."""
        self._at_minimum: list[int] = []
        """Members with the minimum that may get one more."""
        self._revoked_from: dict[int, int] = {}
        self.assigned: list[list[int]] = [[] for _ in layout.members]

    def keep_claims(self, rack_of: list[str | None] | None, racks_of: list[Racks]) -> None:
        """Let everybody keep what it claims up to its quota; with `rack_of` only what is on its rack."""
        contested = self._claims.contested
        order = self._by_number_then_topic()
        for member in self._layout.map_order:
            own = self._claims.kept[member]
            rack = rack_of[member] if rack_of else None
            if rack is not None:
                self._revoke(member, (partition for partition in own if rack not in racks_of[partition]))
                own = [partition for partition in own if rack in racks_of[partition]]
            own = sorted(own, key=order.__getitem__)
            if contested:
                own = [partition for partition in own if partition not in contested]
            self._keep(member, own)
        self._below.sort()
        self._at_minimum.sort()

    def _keep(self, member: int, own: list[int]) -> None:
        more_extras = self._extras_given < self._extras
        if len(own) < self._minimum:
            self._below.append(member)
            keep = len(own)
        elif len(own) >= self._maximum and more_extras:
            keep = self._maximum
            self._give_extra()
        else:
            keep = self._minimum
            if more_extras:
                self._at_minimum.append(member)
        self.assigned[member] = own[:keep]
        self._revoke(member, own[keep:])

    def _give_extra(self) -> None:
        self._extras_given += 1
        if self._extras_given == self._extras:
            self._at_minimum.clear()

    def _revoke(self, member: int, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._revoked_from[partition] = member

    def _by_number_then_topic(self) -> list[int]:
        """Return the place of each partition in the order by number inside the topic first, then by topic."""
        topics = len(self._layout.topic_names)
        places: list[int] = []
        for topic, metadata in enumerate(self._layout.metadata):
            places += range(topic, topic + topics * metadata.partition_count, topics)
        return places

    def unassigned(self) -> list[int]:
        """Return the partitions without an owner, by topic, then number."""
        return sorted(set(range(self._layout.partition_total)).difference(*self.assigned))

    def share_by_racks(self, partitions: list[int], rack_of: list[str | None], racks_of: list[Racks]) -> list[int]:
        """Give partitions to members on their racks, those under the minimum first; returns what found nobody."""
        below = UnderfilledRing(self._below, rack_of)
        at_minimum = MinimumQueue(self._at_minimum, rack_of)
        left = []
        for partition in partitions:
            racks = racks_of[partition]
            member = below.next_near(racks)
            if member is not None:
                self.assigned[member].append(partition)
                if len(self.assigned[member]) >= self._minimum:
                    below.remove(member)
                    if self._extras_given < self._extras:
                        at_minimum.append(member)
                else:
                    below.step_past(member)
                continue
            member = at_minimum.take_near(racks)
            if member is None:
                left.append(partition)
                continue
            self.assigned[member].append(partition)
            self._extras_given += 1
            if self._extras_given == self._extras:
                at_minimum.clear()
        self._below = below.members()
        self._at_minimum = at_minimum.members()
        return left

    def share(self, partitions: list[int]) -> None:
        """Deal the partitions round robin to the members under the minimum, then one each to those at it."""
        start = 0
        while self._below and start < len(partitions):
            # As many full rounds at once as the member nearest to the minimum can take.
            rounds = min(self._minimum - len(self.assigned[member]) for member in self._below)
            dealt = partitions[start : start + rounds * len(self._below)]
            for turn, member in enumerate(self._below):
                self.assigned[member] += dealt[turn :: len(self._below)]
            start += len(dealt)
            self._at_minimum += [member for member in self._below if len(self.assigned[member]) == self._minimum]
            self._below = [member for member in self._below if len(self.assigned[member]) < self._minimum]
        for partition, member in zip(partitions[start:], self._at_minimum, strict=False):
            self.assigned[member].append(partition)

    def in_transfer(self) -> set[int]:
        """Return the partitions taken from one member for another, and those that two members had claimed."""
        revoked_from = self._revoked_from
        moved = {
            partition
            for member, partitions in enumerate(self.assigned)
            for partition in partitions
            if revoked_from.get(partition, member) != member
        }
        return moved | self._claims.contested
