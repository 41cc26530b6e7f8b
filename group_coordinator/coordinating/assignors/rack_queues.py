"""Members waiting for partitions near them; finding the next one costs no walk past those on other racks."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque

from group_coordinator.coordinating.assignors.racks import Racks


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
