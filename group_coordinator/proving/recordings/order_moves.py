"""What may have been otherwise than a replay takes it to be: requests, and what a group is told, that took effect a
little earlier or later. Nothing is moved that the log contradicts: requests of one connection keep their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import combinations

from msgspec import Struct

from group_coordinator.proving.recordings.expectations import (
    LATE_MS,
    LONG_STALL_MS,
    MAY_BE_PARKED,
    STORED_MS,
    Disagreement,
    Expected,
    Step,
)
from group_coordinator.proving.recordings.group_facts import resolution_written_ms
from group_coordinator.proving.recordings.recorded_groups import HAND_OVER_US
from group_coordinator.proving.recordings.replay_state import NO_STEP, GroupInput
from schemas.events import TransactionEnded
from schemas.group_metadata_events import RegexesResolved

NEAR_STEPS = 10
"""How many steps to each side of a disagreement are moved in pairs."""
NEIGHBOURS = 8
PAIRS_MAX = 300
_SHIFT_OF_A_LOAD_US = LATE_MS * 1000 // 2
_SHIFTS_OF_A_LOAD = 16
_PARTS_OF_A_STALL = 4
_PARTS = range(1, _PARTS_OF_A_STALL + 1)
_TOLD_TIMES_MAX = 8
_STALL_US = 20_000
"""What is shorter is among the moves of single requests."""
_FAR_US = 2**62
_OF_LASTING_EFFECT = frozenset({"JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit"})
"""Requests that are moved even far before a disagreement; where others were matters at once or not at all."""


class Move(Struct, frozen=True):
    """One request, or a fact, takes effect at another time."""

    step: int
    effect_us: int
    before_timers: bool = False
    fact: int | None = None
    """It is this one of the facts that moves, with those of the same time."""
    regexes_begun_ms: int | None = None
    """It is the result of what the group began to have resolved then that comes."""
    load: int | None = None
    """It is this one of the loads that is over at another time."""
    inserted: Step | None = None
    """A request that is not in the log; its index is the next one."""


class PossibleMoves:
    """The moves that may make a disagreement go away."""

    def __init__(
        self,
        steps: Sequence[Step],
        order: Sequence[int],
        connections: Mapping[str, Sequence[int]],
        near_timers: Collection[int],
        expected: Expected,
    ) -> None:
        """`connections`: the steps of each; `near_timers`: steps that were handled when a timer was just due."""
        self._steps, self._order, self._connections = steps, order, connections
        self._near_timers, self._expected = near_timers, expected

    def candidates(
        self, position: int, disagreement: Disagreement, oldest: int, inputs: Sequence[GroupInput], *,
        is_searched_less: bool,
    ) -> Iterator[tuple[Move, ...]]:  # fmt: skip
        """Moves to try: what the broker's own times say, then single requests from near to far, then pairs.

        `oldest`: the first position that may change; `inputs`: all that the group was told before.
        """
        yield from ((move,) for move in self._by_brokers_time(disagreement))
        yield from ((move,) for move in self._moves_of_facts(position))
        yield from ((move,) for move in self._moves_of_resolutions(position, inputs))
        yield from ((move,) for move in self._moves_of_loads(disagreement.at_us))
        places = range(max(oldest, 0), min(position + NEAR_STEPS, len(self._order)))
        near_moves: list[Move] = []
        for place in sorted(places, key=lambda place: abs(place - position)):
            api = self._steps[self._order[place]].request.logged.api
            far = abs(place - position) > NEAR_STEPS
            if far and (api not in _OF_LASTING_EFFECT or is_searched_less):
                continue
            for move in self._moves_of(place):
                yield (move,)
                if abs(place - position) <= NEAR_STEPS:
                    near_moves.append(move)
        yield from self._stalls(position, disagreement)
        if disagreement.broker_ms is not None or disagreement.kind == "time":
            return  # only the time is another
        pairs = ((first, second) for first, second in combinations(near_moves, 2) if first.step != second.step)
        for number, pair in enumerate(pairs):
            if number == PAIRS_MAX:
                return
            if self._keeps_connections(pair):
                yield pair

    def _by_brokers_time(self, disagreement: Disagreement) -> Iterator[Move]:
        """All is right but for its time: the broker's is the better one, as far as the request allows it."""
        if not 0 <= disagreement.step < len(self._steps) or (
            disagreement.broker_ms is None and not disagreement.late_ms
        ):
            return
        step = self._steps[disagreement.step]
        of_broker_ms = disagreement.broker_ms
        effect_us = step.effect_us + disagreement.late_ms * 1000 if of_broker_ms is None else of_broker_ms * 1000
        after_us, before_us = self._bounds(step)
        earliest_us = max(after_us, step.effect_us - LONG_STALL_MS * 1000)
        # A busy broker may take up a request long after it was handed over, though before it is answered.
        latest_us = min(before_us, step.request.logged.ready_us)
        if earliest_us <= effect_us <= latest_us and effect_us != step.effect_us:
            yield Move(step.index, effect_us)

    def _moves_of(self, place: int) -> Iterator[Move]:
        step = self._steps[self._order[place]]
        near_timer = step.index in self._near_timers
        if near_timer and not step.before_timers:
            yield Move(step.index, step.effect_us, before_timers=True)
        after_us, before_us = self._bounds(step)
        earliest_us, latest_us = max(step.earliest_us, after_us), min(step.latest_us, before_us)
        tried = {step.effect_us}
        around = self._order[max(place - NEIGHBOURS, 0) : place + NEIGHBOURS + 1]
        beside_us = [self._steps[index].effect_us for index in around if index != step.index]
        # A marker, too, may come behind a request that seems to follow it.
        ends = (fact.at_us for fact in self._expected.facts if isinstance(fact.value, TransactionEnded))
        beside_us += [us for us in ends if earliest_us < us <= latest_us]
        beside_us = [us - 1 if us <= step.effect_us else us + 1 for us in beside_us]
        beside_us.sort(key=lambda us: abs(us - step.effect_us))
        beside_us += [earliest_us, latest_us] if near_timer else [step.effect_us + HAND_OVER_US]
        for effect_us in beside_us:
            if earliest_us <= effect_us <= latest_us and effect_us not in tried:
                tried.add(effect_us)
                yield Move(step.index, effect_us)

    def _moves_of_facts(self, position: int) -> Iterator[Move]:
        """What a group is told of topics has its effect some time around the line that tells it: before or behind one
        of the requests there."""
        facts = self._expected.facts
        near = [self._steps[index] for index in self._order[max(position - NEIGHBOURS, 0) : position + NEIGHBOURS]]
        for place, fact in enumerate(facts):
            if not fact.latest_us or (place and facts[place - 1].at_us == fact.at_us):
                continue
            before_us = facts[place - 1].at_us if place else 0
            after_us = next((later.at_us for later in facts[place:] if later.at_us > fact.at_us), _FAR_US)
            earliest_us, latest_us = max(fact.earliest_us, before_us + 1), min(fact.latest_us, after_us - 1)
            for step in sorted(near, key=lambda step: abs(step.effect_us - fact.at_us)):
                for at_us in (step.effect_us, step.effect_us + 1):
                    if earliest_us <= at_us <= latest_us and at_us != fact.at_us:
                        yield Move(NO_STEP, at_us, fact=place)

    def _moves_of_resolutions(self, position: int, inputs: Sequence[GroupInput]) -> Iterator[Move]:
        """The broker resolves expressions beside its other work: behind one of the requests that follow. Where a record
        tells when it wrote the result, nothing moves."""
        resolved = (told.value for told in reversed(inputs) if isinstance(told.value, RegexesResolved))
        last = next(resolved, None)
        if last is None or resolution_written_ms(last.began_ms, self._expected.resolutions) is not None:
            return
        near = [self._steps[index] for index in self._order[max(position - NEIGHBOURS, 0) : position + NEIGHBOURS]]
        for effect_us in (*self._told_us(near), *(step.effect_us for step in near)):
            if 0 <= effect_us - last.began_ms * 1000 <= STORED_MS * 1000:
                yield Move(NO_STEP, effect_us + 1, regexes_begun_ms=last.began_ms)

    def _moves_of_loads(self, until_us: int) -> Iterator[Move]:
        """The last load was over earlier or later than it seemed: with it, sessions end at other times."""
        for place, load in list(enumerate(self._expected.loads))[::-1]:
            if load.from_us < until_us:
                shifts = (number * _SHIFT_OF_A_LOAD_US for number in range(1, _SHIFTS_OF_A_LOAD + 1))
                for shift_us in shifts if load.not_after_us else ():
                    for loaded_us in (load.loaded_us - shift_us, load.loaded_us + shift_us):
                        if load.not_before_us <= loaded_us <= load.not_after_us:
                            yield Move(NO_STEP, loaded_us, load=place)
                return

    def _stalls(self, position: int, disagreement: Disagreement) -> Iterator[tuple[Move, ...]]:
        """The coordinator's thread stood still: what had arrived meanwhile was taken up after it, in its order."""
        near = [self._steps[index] for index in self._order[max(position - NEIGHBOURS, 0) : position + NEIGHBOURS]]
        for move in self._by_brokers_time(disagreement):
            yield from self._stall(near, self._steps[move.step], move.effect_us)
        told_us = self._told_us(near)
        yield from self._answered_behind(near, told_us)
        for first in near:
            room_us = first.latest_us - len(near) - first.effect_us
            ends_us = [us for us in told_us if 0 < us - first.effect_us <= room_us]
            if room_us >= _STALL_US:
                ends_us += [first.effect_us + room_us * part // _PARTS_OF_A_STALL for part in _PARTS]
            for end_us in ends_us:
                yield from self._stall(near, first, end_us)

    def _answered_behind(self, near: Sequence[Step], told_us: Iterable[int]) -> Iterator[tuple[Move, ...]]:
        """All that was not answered when the broker did something was taken up just before it was answered."""
        single = [step for step in near if step.request.logged.api not in MAY_BE_PARKED]
        for us in told_us:
            waiting = [step for step in single if step.effect_us <= us < step.latest_us]
            moves = tuple(Move(step.index, step.latest_us) for step in waiting)
            if len(moves) > 1 and all(move.effect_us <= self._bounds(self._steps[move.step])[1] for move in moves):
                yield moves

    def _stall(self, near: Sequence[Step], first: Step, end_us: int) -> Iterator[tuple[Move, ...]]:
        waiting = [step for step in near if first.effect_us <= step.effect_us <= end_us < step.request.logged.ready_us]
        moves = [Move(step.index, end_us + place) for place, step in enumerate(waiting)]
        if moves and all(move.effect_us <= self._bounds(self._steps[move.step])[1] for move in moves):
            yield tuple(moves)

    def _told_us(self, near: Sequence[Step]) -> list[int]:
        """Return when the broker did something, by its records and its log, while one of these was not answered."""
        times_ms = {record.timestamp_ms for record in self._expected.records or ()} | self._expected.assigned_ms
        times_ms |= {entry.time_ms for entry in self._expected.entries or ()}
        from_us, until_us = min(step.effect_us for step in near), max(step.latest_us for step in near)
        return sorted(time_ms * 1000 for time_ms in times_ms if from_us <= time_ms * 1000 <= until_us)[:_TOLD_TIMES_MAX]

    def _bounds(self, step: Step) -> tuple[int, int]:
        """Between which times the other requests of its connection leave a request."""
        row = self._connections[step.request.logged.connection]
        place = bisect_left(row, step.index)
        after_us = self._steps[row[place - 1]].effect_us + 1 if place else 0
        before_us = self._steps[row[place + 1]].effect_us - 1 if place + 1 < len(row) else _FAR_US
        return after_us, before_us

    def _keeps_connections(self, moves: tuple[Move, ...]) -> bool:
        """Each move alone keeps the order of its connection; two of one connection may not, so they are not tried."""
        connections = {self._steps[move.step].request.logged.connection for move in moves}
        return len(connections) == len(moves)
