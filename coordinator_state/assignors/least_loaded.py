"""How many partitions each member holds, and who of a set of members holds the fewest: without walking all of them."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush, heapreplace


class Loads:
    """The number of partitions of each member, and a journal of the members whose number changed."""

    def __init__(self, counts: list[int]) -> None:
        self.counts = counts
        self.journal: list[int] = []

    def move_one(self, giver: int, taker: int) -> None:
        """Count one partition of `giver` for `taker`."""
        self.counts[giver] -= 1
        self.counts[taker] += 1
        self.journal += (giver, taker)


class LeastLoaded:
    """The least loaded member of a fixed, non-empty set; of equal ones the lowest number.

    A heap of (load, member), packed in one integer each, in which entries of another load than the present one are
    passed over. Before each use it catches up on the journal, or starts anew where that is shorter.
    """

    def __init__(self, loads: Loads, members: Sequence[int]) -> None:
        self._loads = loads
        self._members = members
        self._in_set = frozenset(members)
        self._heap: list[int] = []
        self._base = len(loads.counts)
        self._read = 0
        self._start_anew()

    def member(self) -> int:
        """The least loaded member."""
        self._catch_up()
        heap, counts, base = self._heap, self._loads.counts, self._base
        while True:
            count, member = divmod(heap[0], base)
            if counts[member] == count:
                return member
            heappop(heap)

    def load(self) -> int:
        """How many partitions the least loaded member holds."""
        return self._loads.counts[self.member()]

    def give(self, partitions: int) -> list[int]:
        """Give so many partitions, each to the member that is the least loaded then; who got them, in order."""
        self._catch_up()
        heap, counts, base = self._heap, self._loads.counts, self._base
        takers: list[int] = []
        while len(takers) < partitions:
            entry = heap[0]
            count, member = divmod(entry, base)
            if counts[member] != count:
                heappop(heap)
                continue
            counts[member] = count + 1
            heapreplace(heap, entry + base)
            takers.append(member)
        self._loads.journal += takers
        self._read = len(self._loads.journal)
        return takers

    def _catch_up(self) -> None:
        journal = self._loads.journal
        if len(journal) - self._read >= len(self._members):
            self._start_anew()
            return
        counts = self._loads.counts
        for member in journal[self._read :]:
            if member in self._in_set:
                heappush(self._heap, counts[member] * self._base + member)
        self._read = len(journal)

    def _start_anew(self) -> None:
        counts, base = self._loads.counts, self._base
        self._heap = [counts[member] * base + member for member in self._members]
        heapify(self._heap)
        self._read = len(self._loads.journal)
