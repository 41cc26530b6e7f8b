"""The sticky engine where all members subscribe to the same topics: everybody gets the minimum or one more."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable

from group_coordinator.coordinating.assignors.layout import GroupLayout
from group_coordinator.coordinating.assignors.racks import Racks
from group_coordinator.coordinating.assignors.sticky_claims import ResolvedClaims


class UnderfilledRing:
    """Members in a ring, and a place in it from which the next one on some rack is looked for."""

    def __init__(self, members: list[int], rack_of: list[str | None]) -> None:
        self._members = members
        self._seat_of = {member: seat for seat, member in enumerate(members)}
        self._removed: set[int] = set()
        self._start = 0
        self._seats_on: dict[str, _Seats] = {}
        seats: dict[str, list[int]] = {}
        for seat, member in enumerate(members):
            rack = rack_of[member]
            if rack is not None:
                seats.setdefault(rack, []).append(seat)
        self._seats_on = {rack: _Seats(numbers) for rack, numbers in seats.items()}
        self._rack_of = rack_of

    def next_near(self, racks: Racks) -> int | None:
        """Return the first member on one of the racks, from the place on, once around."""
        size = len(self._members)
        distances = []
        for rack in racks:
            seats = self._seats_on.get(rack)
            seat = seats.next_from(self._start) if seats else None
            if seat is not None:
                distances.append((seat - self._start) % size)
        return self._members[(self._start + min(distances)) % size] if distances else None

    def step_past(self, member: int) -> None:
        """Look from behind this member next time."""
        self._start = (self._seat_of[member] + 1) % len(self._members)

    def remove(self, member: int) -> None:
        """Take the member out, and look from its neighbour next time."""
        self._start = self._seat_of[member]
        self._removed.add(member)
        rack = self._rack_of[member]
        if rack is not None:
            self._seats_on[rack].remove(self._start)

    def members(self) -> list[int]:
        """Return the members that are still in the ring, in order."""
        return [member for member in self._members if member not in self._removed]


class _Seats:
    """Ascending numbers of which some get removed; each entry leads to the next one that is left."""

    def __init__(self, numbers: list[int]) -> None:
        self._numbers = numbers
        self._next = list(range(len(numbers) + 1))

    def next_from(self, number: int) -> int | None:
        """Return the first number that is left at or above `number`, else the first of all, else None."""
        index = self._left_from(bisect_left(self._numbers, number))
        if index == len(self._numbers):
            index = self._left_from(0)
        return self._numbers[index] if index < len(self._numbers) else None

    def remove(self, number: int) -> None:
        index = bisect_left(self._numbers, number)
        self._next[index] = index + 1

    def _left_from(self, index: int) -> int:
        leads_to = self._next
        end = index
        while leads_to[end] != end:
            end = leads_to[end]
        while leads_to[index] != end:  # shorten the way for the next search
            leads_to[index], index = end, leads_to[index]
        return end


class MinimumQueue:
    """Members in a queue that is taken from at the first member on some rack."""

    def __init__(self, members: list[int], rack_of: list[str | None]) -> None:
        self._rack_of = rack_of
        self._waiting: dict[int, None] = {}
        self._queue_on: dict[str | None, deque[tuple[int, int]]] = {}
        self._appended = 0
        for member in members:
            self.append(member)

    def append(self, member: int) -> None:
        self._waiting[member] = None
        self._queue_on.setdefault(self._rack_of[member], deque()).append((self._appended, member))
        self._appended += 1

    def take_near(self, racks: Racks) -> int | None:
        """Take out the first member that is on one of the racks."""
        fronts = [(self._queue_on[rack][0], rack) for rack in racks if self._queue_on.get(rack)]
        if not fronts:
            return None
        (_, member), rack = min(fronts)
        self._queue_on[rack].popleft()
        del self._waiting[member]
        return member

    def clear(self) -> None:
        self._waiting.clear()
        self._queue_on.clear()

    def members(self) -> list[int]:
        """Return the members that still wait, in order."""
        return list(self._waiting)


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
