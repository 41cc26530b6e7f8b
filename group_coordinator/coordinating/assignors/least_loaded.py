"""The member with the fewest partitions, among some members, is found without walking all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush, heapreplace


class Loads:
    """The number of partitions of each member.

    Load and member are packed into one integer, `load * one + member`, so that the order of these is the order by
    load, then member.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        self.one = max(1, len(counts))
        """What one partition adds to a packed load."""
        self.packed = [count * self.one + member for member, count in enumerate(counts)]
        self.journal: list[int] = []
        """The members whose load has changed, one after the other."""

    def counts(self) -> list[int]:
        """Return the number of partitions of each member."""
        return [packed // self.one for packed in self.packed]

    def move_one(self, giver: int, taker: int) -> None:
        """Count one partition of `giver` for `taker`."""
        self.packed[giver] -= self.one
        self.packed[taker] += self.one
        self.journal += (giver, taker)


class LeastLoaded:
    """The least loaded member of a fixed, non-empty set; of equal ones the lowest number.

    A heap of packed loads, in which those that are no longer true are passed over. Before each use it catches up on
    the journal of changes, or starts anew where that is shorter.
    """

    def __init__(self, loads: Loads, members: Sequence[int]) -> None:
        self._loads = loads
        self._members = members
        self._start_anew()

    def packed(self) -> int:
        """Return the packed load of the least loaded member."""
        self._catch_up()
        heap, packed, one = self._heap, self._loads.packed, self._loads.one
        while packed[heap[0] % one] != heap[0]:
            heappop(heap)
        return heap[0]

    def give(self, partitions: int) -> list[int]:
        """Give so many partitions, each to the member that is the least loaded then; who got them, in order."""
        self._catch_up()
        heap, packed, one = self._heap, self._loads.packed, self._loads.one
        takers: list[int] = []
        while len(takers) < partitions:
            entry = heap[0]
            member = entry % one
            if packed[member] != entry:
                heappop(heap)
                continue
            packed[member] = entry + one
            heapreplace(heap, entry + one)
            takers.append(member)
        self._loads.journal += takers
        self._read = len(self._loads.journal)
        return takers

    @cached_property
    def _in_set(self) -> frozenset[int]:
        return frozenset(self._members)

    def _catch_up(self) -> None:
        journal = self._loads.journal
        if len(journal) - self._read >= len(self._members):
            self._start_anew()
            return
        if len(journal) > self._read:
            for member in journal[self._read :]:
                if member in self._in_set:
                    heappush(self._heap, self._loads.packed[member])
            self._read = len(journal)

    def _start_anew(self) -> None:
        self._heap = list(map(self._loads.packed.__getitem__, self._members))
        heapify(self._heap)
        self._read = len(self._loads.journal)
