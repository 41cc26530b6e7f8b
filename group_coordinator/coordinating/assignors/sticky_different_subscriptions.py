"""The sticky engine where members subscribe to different topics: fill up from below, then move what lies too high."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from heapq import heapify, heappop, heappush, heapreplace
from itertools import groupby

from group_coordinator.coordinating.assignors.java_hash_map import JavaHashSet, java_topic_partition_hash
from group_coordinator.coordinating.assignors.layout import GroupLayout
from group_coordinator.coordinating.assignors.racks import Racks
from group_coordinator.coordinating.assignors.sticky_claims import NO_GENERATION, ResolvedClaims
from schemas.java_hash import java_string_hash


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


class PartitionMoves:
    """The present owner of each partition, and all moves so far.

    Source: `AbstractStickyAssignor.PartitionMovements`. A partition that moves on counts as moved from where it was at
    first; back there, as not moved.
    """

    def __init__(self, layout: GroupLayout, owner: list[int], loads: Loads) -> None:
        self._layout = layout
        self._loads = loads
        self.owner = owner
        self.moved: dict[int, None] = {}
        """Partitions that have changed hands at least once, by their last move."""
        self._way_of: dict[int, tuple[int, int]] = {}
        """Of each partition that is not where it was: from whom, to whom."""
        self._on_way: dict[tuple[int, int, int], JavaHashSet[int]] = {}
        """Partitions by topic, from whom, to whom."""
        self._hash_codes: dict[int, Callable[[int], int]] = {}

    def move(self, partition: int, taker: int) -> None:
        """Give `taker` one partition of this topic: a partition that went the other way, if there is one, else this.

        Kafka takes the first such partition in the order of a Java `HashSet`.
        """
        topic = self._layout.topic_of_partition[partition]
        source, _ = self._way_of.get(partition, (self.owner[partition], taker))
        opposite = self._on_way.get((topic, taker, source))
        self._hand_over(opposite.first() if opposite else partition, topic, taker)

    def _hand_over(self, partition: int, topic: int, taker: int) -> None:
        giver = self.owner[partition]
        self.owner[partition] = taker
        self._loads.move_one(giver, taker)
        self.moved.pop(partition, None)
        self.moved[partition] = None
        source, before = self._way_of.pop(partition, (giver, giver))
        if before != source:
            self._leave_way(partition, (topic, source, before))
        if source != taker:
            self._way_of[partition] = (source, taker)
            self._partitions_on_way(topic, source, taker).add(partition)

    def _leave_way(self, partition: int, way: tuple[int, int, int]) -> None:
        self._on_way[way].remove(partition)
        if not self._on_way[way]:
            del self._on_way[way]  # as in Kafka: the next set begins small again, which shows in its order

    def _partitions_on_way(self, topic: int, source: int, taker: int) -> JavaHashSet[int]:
        way = (topic, source, taker)
        if way not in self._on_way:
            self._on_way[way] = JavaHashSet(self._hash_code_in(topic))
        return self._on_way[way]

    def _hash_code_in(self, topic: int) -> Callable[[int], int]:
        if topic not in self._hash_codes:
            topic_hash = java_string_hash(self._layout.topic_names[topic])
            first = self._layout.first_partition[topic]
            self._hash_codes[topic] = lambda number: java_topic_partition_hash(topic_hash, number - first)
        return self._hash_codes[topic]


_PASSES_MAX = 1_000
"""Random groups settle in fewer than ten passes. Nobody has proved that all do, and no group may block its leader."""


def assign_different_subscriptions(
    layout: GroupLayout, claims: ResolvedClaims, rack_of: list[str | None], racks_of: list[Racks]
) -> list[list[int]]:
    """Return the partitions of each member. `racks_of` is by partition, empty when racks do not matter.

    Source: `GeneralAssignmentBuilder`. Kafka asks before every partition whether all is balanced; that only saves
    it time, for in a balanced group no rule moves anything.
    """
    balancing = _Balancing(layout, rack_of, racks_of)
    claims_are_valid = balancing.keep_claims(claims.kept)
    from_scratch = not any(balancing.assigned)
    unassigned = balancing.assign_unassigned()
    before = balancing.participating_loads()
    moves = PartitionMoves(layout, balancing.owner, balancing.loads)
    previous_owners = balancing.previous_owners(claims)
    if claims_are_valid:
        balancing.rebalance(unassigned, previous_owners, moves)
    moved = balancing.rebalance(balancing.all_partitions(), previous_owners, moves)
    if moved and not from_scratch and balance_score(balancing.participating_loads()) >= balance_score(before):
        return balancing.assigned
    return _apply_moves(balancing.assigned, moves)


def balance_score(loads: Iterable[int]) -> int:
    """Return the sum of the differences of all pairs of loads; 0 is a perfect balance."""
    ordered = sorted(loads)
    return sum((2 * place + 1 - len(ordered)) * load for place, load in enumerate(ordered))


def _apply_moves(assigned: list[list[int]], moves: PartitionMoves) -> list[list[int]]:
    if not moves.moved:
        return assigned
    result = [[partition for partition in partitions if partition not in moves.moved] for partitions in assigned]
    for partition in moves.moved:
        result[moves.owner[partition]].append(partition)
    return result


class _Balancing:
    """The assignment while it is made."""

    def __init__(self, layout: GroupLayout, rack_of: list[str | None], racks_of: list[Racks]) -> None:
        members = range(len(layout.members))
        self._layout = layout
        self._rack_of = rack_of
        self._racks_of = racks_of
        self._subscribers = layout.subscribers(members)
        self._topic_order = sorted(range(len(layout.topic_names)), key=lambda topic: len(self._subscribers.of(topic)))
        self._least_loaded: dict[int, LeastLoaded] = {}
        self._least_loaded_on: dict[tuple[int, Racks], LeastLoaded | None] = {}
        self.assigned: list[list[int]] = [[] for _ in members]
        self.owner = [-1] * layout.partition_total
        self.loads = Loads([0] * len(members))

    def keep_claims(self, kept: list[list[int]]) -> bool:
        """Let members keep what they claim, subscribe to and are near to; whether that is all that they claim."""
        topic_of, racks_of = self._layout.topic_of_partition, self._racks_of
        all_valid = True
        for member, claimed in enumerate(kept):
            topics, rack = self._layout.topics_of(member), self._rack_of[member]
            own = [partition for partition in claimed if topic_of[partition] in topics]
            if rack is not None:
                own = [partition for partition in own if rack in racks_of[partition]]
            all_valid = all_valid and len(own) == len(claimed)
            self.assigned[member] = own
            for partition in own:
                self.owner[partition] = member
        self.loads = Loads(list(map(len, self.assigned)))
        return all_valid

    def assign_unassigned(self) -> dict[int, list[int]]:
        """Give what nobody has to the least loaded subscriber, near ones first; returns it by topic, in order."""
        owner = self.owner
        unassigned = {
            topic: [partition for partition in self._layout.partitions_of(topic) if owner[partition] < 0]
            for topic in self._topic_order
        }
        if self._racks_of:
            for topic, partitions in unassigned.items():
                for racks, run in groupby(partitions, self._racks_of.__getitem__):
                    self._give(list(run), self._least_loaded_near(topic, racks))
        for topic, partitions in unassigned.items():
            self._give([partition for partition in partitions if owner[partition] < 0], self._least_loaded_of(topic))
        return unassigned

    def _give(self, partitions: list[int], members: LeastLoaded | None) -> None:
        if members is None:
            return
        for partition, member in zip(partitions, members.give(len(partitions)), strict=True):
            self.owner[partition] = member
            self.assigned[member].append(partition)

    def _least_loaded_of(self, topic: int) -> LeastLoaded:
        group = self._subscribers.group_of_topic[topic]
        if group not in self._least_loaded:
            self._least_loaded[group] = LeastLoaded(self.loads, self._subscribers.groups[group])
        return self._least_loaded[group]

    def _least_loaded_near(self, topic: int, racks: Racks) -> LeastLoaded | None:
        """Among the subscribers on one of the racks, or without a rack; None when there are none."""
        key = (self._subscribers.group_of_topic[topic], racks)
        if key not in self._least_loaded_on:
            near: list[int] = [
                member for member in self._subscribers.of(topic) if self._rack_of[member] in (None, *racks)
            ]
            self._least_loaded_on[key] = LeastLoaded(self.loads, near) if near else None
        return self._least_loaded_on[key]

    def participating_loads(self) -> list[int]:
        """Return the loads of the members that share some topic with another member; the others can neither give nor
        take."""
        shared = {topic for topic in self._topic_order if len(self._subscribers.of(topic)) > 1}
        return [
            load
            for member, load in enumerate(self.loads.counts())
            if not shared.isdisjoint(self._layout.topics_of(member))
        ]

    def previous_owners(self, claims: ResolvedClaims) -> dict[int, int]:
        """Return the members that claim a partition with an older generation than the newest one. The newest of these
        wins, then map order.

        An owner that has left the topic since is none: Kafka would give the partition back to it, or crash.
        """
        newest = max(NO_GENERATION, *claims.generation_ids)
        best: dict[int, int] = {}
        generation_ids = claims.generation_ids
        for member in self._layout.map_order:
            generation_id = generation_ids[member]
            if generation_id >= newest:
                continue
            for partition in claims.claimed[member]:
                if partition not in best or generation_ids[best[partition]] < generation_id:
                    best[partition] = member
        topic_of = self._layout.topic_of_partition
        return {
            partition: member
            for partition, member in best.items()
            if topic_of[partition] in self._layout.topics_of(member)
        }

    def all_partitions(self) -> dict[int, range]:
        """Return all partitions by topic: topics of few subscribers first, then by name."""
        return {topic: self._layout.partitions_of(topic) for topic in self._topic_order}

    def rebalance(
        self, partitions: Mapping[int, Sequence[int]], previous_owners: dict[int, int], moves: PartitionMoves
    ) -> bool:
        """Pass over the partitions until nothing moves any more; whether anything moved."""
        for passes in range(_PASSES_MAX):
            if not self._pass(partitions, previous_owners, moves):
                return passes > 0
        return True

    def _pass(
        self, partitions: Mapping[int, Sequence[int]], previous_owners: dict[int, int], moves: PartitionMoves
    ) -> bool:
        """Move each partition whose owner holds at least two more than its previous owner or some other subscriber."""
        packed, one, owner = self.loads.packed, self.loads.one, self.owner
        highest = max(packed)  # a move lifts nobody above it
        if highest < _two_more(min(packed), one):
            return False
        any_moved = False
        for topic, numbers in partitions.items():
            least_loaded = self._least_loaded_of(topic)
            too_high = _two_more(least_loaded.packed(), one)
            if highest < too_high:
                continue
            for partition in numbers:
                load = packed[owner[partition]]
                if load < too_high:
                    continue
                taker = previous_owners.get(partition)
                if taker is None or load < _two_more(packed[taker], one):
                    taker = least_loaded.packed() % one
                moves.move(partition, taker)
                too_high = _two_more(least_loaded.packed(), one)
                any_moved = True
        return any_moved


def _two_more(packed: int, one: int) -> int:
    """The smallest packed load of at least two partitions more."""
    return packed - packed % one + 2 * one
