"""Replays one group, and where the broker's side does not come out, looks for an order of requests in which it does.

A log tells when requests arrived and when they were answered, to the millisecond; when the broker's coordinator thread
took them up, in between, it does not tell. So a replay starts with the likely order. At the first disagreement, single
requests near it, then pairs, are moved inside the time that the log leaves them; what gets past the disagreement and
on is kept. Nothing is moved that the log contradicts: requests of one connection keep their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from operator import itemgetter

from msgspec import Struct, field
from msgspec.structs import replace

from coordinator_state import Group, GroupConfig
from group_coordinator.proving.recordings.absent_requests import Absent, absent_requests
from group_coordinator.proving.recordings.expectations import LONG_STALL_MS, Disagreement, Expected, Step
from group_coordinator.proving.recordings.group_replay import GroupReplay
from group_coordinator.proving.recordings.recorded_groups import HAND_OVER_US
from group_coordinator.proving.recordings.replay_state import NO_STEP, START, GroupInput, State
from group_coordinator.proving.recordings.track import Place, Track
from schemas.events import TransactionEnded

CHECKPOINT_EVERY_STEPS = 4
CHECKPOINTS_KEPT = 40
AHEAD_STEPS = 40
"""How far beyond a disagreement an order must agree to be taken at once."""
NEAR_STEPS = 10
"""How many steps to each side of a disagreement are moved in pairs."""
NEIGHBOURS = 8
PAIRS_MAX = 300


GIVE_UP_AFTER = 10
"""So many disagreements that nothing explains: the rest follows from them, and is searched less."""
_OF_LASTING_EFFECT = frozenset({"JoinGroup", "SyncGroup", "LeaveGroup", "OffsetCommit"})
"""Requests that are moved even far before a disagreement; where others were matters at once or not at all."""


class Move(Struct, frozen=True):
    """One request, or a fact, takes effect at another time."""

    step: int
    effect_us: int
    before_timers: bool = False
    fact: int | None = None
    """It is this one of the facts that moves, with those of the same time."""
    inserted: Step | None = None
    """A request that is not in the log; its index is the next one."""


class GroupResult(Struct, kw_only=True):
    """The result of the replay of one group."""

    group_id: str
    steps: list[Step]
    disagreements: list[Disagreement] = field(default_factory=list)
    places: int = 0
    """Disagreements that another order of requests resolved."""
    elections: set[int] = field(default_factory=set)
    """Generations whose leader Kafka elected by the order of a hash map: it is taken from the recording."""
    latest_ms: int = 0
    """The most by which the broker did something later than it was done here."""
    moved_facts: int = 0
    """Changes of topics that had their effect at another time than their lines tell."""
    late_lines: list[int] = field(default_factory=list)
    """Steps whose line was written late, as the broker's own times show."""
    order: list[int] = field(default_factory=list)
    """Indexes of the steps, as they were replayed in the end; up to where the group is known."""
    inputs: list[GroupInput] = field(default_factory=list)
    """All that the group was told in them: with this it comes to the same, replayed anywhere."""
    track: Track = field(default_factory=Track)
    """How far it can be followed."""
    records: int = 0
    entries: int = 0
    """How many of the broker's records and log entries were compared."""
    gave_up: int = 0


class OrderSearch:
    """The replay of one group."""

    def __init__(
        self,
        group_id: str,
        config: GroupConfig,
        expected: Expected,
        steps: Sequence[Step],
        end_ms: int,
        start: State = START,
        gave_up: int = 0,
    ) -> None:
        """`start`: what is known of the group before the first step; `end_ms`: when the log ends.

        `gave_up`: how many disagreements nothing explained in earlier parts of the group's log.
        """
        self.result = GroupResult(group_id=group_id, steps=list(steps))
        self._config = config
        self.expected = expected
        """The broker's side; what the group is told of topics may have moved in it."""
        self._steps = self.result.steps
        self._end_ms = end_ms
        self._order = sorted(range(len(self._steps)), key=lambda index: self._key(self._steps[index]))
        self._states: OrderedDict[int, State] = OrderedDict({0: start})
        self._start = start
        self._inputs: list[GroupInput] = []
        self._inputs_before: list[int] = []
        """Of each position in the order, how many inputs came before it."""
        self._gave_up = gave_up
        self._near_timers: set[int] = set()
        self._connections: dict[str, list[int]] = {}
        for step in self._steps:
            self._connections.setdefault(step.request.logged.connection, []).append(step.index)

    def run(self) -> GroupResult:
        """Replay all, and resolve what can be resolved; to where the replay has lost what the group is."""
        track = self.result.track
        position, replay = 0, self._replay_from(self._states[0], self._steps)
        while True:
            if not position % CHECKPOINT_EVERY_STEPS:
                self._keep(position, replay.state())
            self._inputs_before[position:] = [len(self._inputs)]
            if position < len(self._order):
                replay.take(self._steps[self._order[position]])
            else:
                replay.finish(self._end_ms)
            self._inputs += replay.inputs
            replay.inputs.clear()
            self.result.elections |= replay.elections
            self._near_timers |= replay.near_timers
            self.result.latest_ms = max(self.result.latest_ms, replay.latest_ms)
            if replay.disagreements:
                moved_from = self._repair(position, replay.disagreements[0], replay.group)
                if moved_from is not None:
                    position, state = self._before(moved_from)
                    del self._inputs[self._inputs_before[position] :]
                    replay = self._replay_from(state, self._steps)
                    continue
                self.result.disagreements += replay.disagreements
                for disagreement in replay.disagreements:
                    track.disagrees(disagreement, self._steps)
                replay.disagreements.clear()
            for agreed in replay.agreed:
                track.agrees(agreed, position)
            replay.agreed.clear()
            if track.is_lost or position == len(self._order):
                break
            position += 1
        self.result.order, self.result.gave_up, self.result.inputs = self._order, self._gave_up, self._inputs
        if track.doubt is not None:
            self._end_at(track.doubt[0])
        self.result.records, self.result.entries = replay.compared
        return self.result

    def _end_at(self, place: Place) -> None:
        """Let order and inputs end where the group is still known."""
        starts = ((at, state) for at, state in self._states.items() if at <= place.position)
        at, state = max(starts, default=(0, self._start), key=itemgetter(0))
        replay = self._replay_from(state, self._steps)
        for index in self._order[at : place.position]:
            replay.take(self._steps[index])
        replay.advance_to(place.time_ms)
        self.result.order = self._order[: place.position]
        self.result.inputs = self._inputs[: self._inputs_before[at]] + replay.inputs

    # ---------------------------------------------------------------------------------------------------- checkpoints

    @staticmethod
    def _key(step: Step) -> tuple[int, int]:
        return step.effect_us, step.index

    def _replay_from(self, state: State, steps: Sequence[Step], expected: Expected | None = None) -> GroupReplay:
        return GroupReplay(self.result.group_id, self._config, expected or self.expected, steps, state)

    def _keep(self, position: int, state: State) -> None:
        self._states[position] = state
        self._states.move_to_end(position)
        while len(self._states) > CHECKPOINTS_KEPT:
            self._states.popitem(last=False)

    def _before(self, position: int) -> tuple[int, State]:
        """The last state at or before a position. Later ones are forgotten: they are about to change."""
        for at in [at for at in self._states if at > position]:
            del self._states[at]
        return next(reversed(self._states.items()))

    # --------------------------------------------------------------------------------------------------------- search

    def _repair(self, position: int, disagreement: Disagreement, group: Group | None) -> int | None:
        """Find what makes the disagreement go away. Returns the first position that changed; None: nothing does."""
        if (moves := self._best(position, disagreement, self._candidates(position, disagreement))) is not None:
            self.result.places += 1
            return self._apply(moves)
        if disagreement.broker_ms is not None or self._gave_up > GIVE_UP_AFTER:
            return None
        candidates = absent_requests(self._steps, disagreement, group, self.expected)
        absent = (self._insertions(requests) for requests in candidates)
        if (moves := self._best(position, disagreement, absent)) is not None:
            return self._apply(moves)
        self._gave_up += 1
        return None

    def _best(
        self, position: int, disagreement: Disagreement, candidates: Iterable[tuple[Move, ...]]
    ) -> tuple[Move, ...] | None:
        """The candidate that gets furthest beyond the disagreement; None if none gets past it."""
        best: tuple[int, tuple[Move, ...]] | None = None
        for moves in candidates:
            reached_us = self._try(position, disagreement, moves)
            if reached_us is not None and (best is None or reached_us > best[0]):
                best = reached_us, moves
                if reached_us == self._far:
                    break
        return None if best is None else best[1]

    def _insertions(self, absent: Iterable[Absent]) -> tuple[Move, ...]:
        steps = (
            Step(
                index=index,
                request=request.request,
                effect_us=request.effect_us,
                earliest_us=request.effect_us,
                latest_us=request.effect_us,
                inferred=request.why,
            )
            for index, request in enumerate(absent, len(self._steps))
        )
        return tuple(Move(step.index, step.effect_us, inserted=step) for step in steps)

    _far = 2**62

    def _try(self, position: int, disagreement: Disagreement, moves: tuple[Move, ...]) -> int | None:
        """Up to which time a replay with these moves agrees; None if it does not get past the disagreement."""
        steps, order, first = self._moved(moves)
        start = next(((at, self._states[at]) for at in reversed(self._states) if at <= first), None)
        if start is None:
            return None
        at, state = start
        replay = self._replay_from(state, steps, self._with_facts(moves))
        end = min(position + AHEAD_STEPS, len(order))
        for index in order[at:end]:
            replay.take(steps[index])
            if replay.disagreements:
                break
        else:
            if end == len(order):
                replay.finish(self._end_ms)
        if not replay.disagreements:
            return self._far
        next_disagreement = replay.disagreements[0]
        passed_us = max(disagreement.at_us, *(move.effect_us for move in moves))
        return (
            next_disagreement.at_us
            if next_disagreement.at_us > passed_us and next_disagreement.about != disagreement.about
            else None
        )

    def _moved(self, moves: tuple[Move, ...]) -> tuple[list[Step], list[int], int]:
        """Steps and order after the moves, and the first position that is another."""
        steps, order = list(self._steps), list(self._order)
        first = len(order)
        for move in moves:
            if move.fact is not None:
                from_us = min(move.effect_us, self.expected.facts[move.fact].at_us)
                first = min(first, bisect_left(order, from_us, key=lambda index: steps[index].effect_us))
                continue
            if move.inserted is not None:
                steps.append(move.inserted)
            else:
                first = min(first, self._position(order, steps, steps[move.step]))
                order.remove(move.step)
            steps[move.step] = replace(steps[move.step], effect_us=move.effect_us, before_timers=move.before_timers)
            to = self._position(order, steps, steps[move.step])
            order.insert(to, move.step)
            first = min(first, to)
        return steps, order, first

    def _with_facts(self, moves: tuple[Move, ...]) -> Expected:
        """The broker's side with facts at other times; nothing changes where none moves."""
        facts = self.expected.facts
        for move in moves:
            if move.fact is not None:
                at_us = facts[move.fact].at_us
                facts = [replace(fact, at_us=move.effect_us) if fact.at_us == at_us else fact for fact in facts]
        return self.expected if facts is self.expected.facts else replace(self.expected, facts=facts)

    def _position(self, order: list[int], steps: list[Step], step: Step) -> int:
        return bisect_left(order, self._key(step), key=lambda index: self._key(steps[index]))

    def _apply(self, moves: tuple[Move, ...]) -> int:
        steps, order, first = self._moved(moves)
        self.expected = self._with_facts(moves)
        for move in moves:
            if move.fact is not None:
                self.result.moved_facts += 1
            elif move.inserted is not None:
                self._connections[move.inserted.request.logged.connection] = [move.step]
            elif move.effect_us < self._steps[move.step].earliest_us:
                self.result.late_lines.append(move.step)
        self._steps[:] = steps
        self._order = order
        return first

    # ----------------------------------------------------------------------------------------------------- candidates

    def _candidates(self, position: int, disagreement: Disagreement) -> Iterator[tuple[Move, ...]]:
        """Moves to try: what the broker's own times say, then single requests from near to far, then pairs."""
        yield from ((move,) for move in self._by_brokers_time(disagreement))
        yield from ((move,) for move in self._moves_of_facts(position))
        oldest = next(iter(self._states))
        places = range(max(oldest, 0), min(position + NEAR_STEPS, len(self._order)))
        near_moves: list[Move] = []
        for place in sorted(places, key=lambda place: abs(place - position)):
            api = self._steps[self._order[place]].request.logged.api
            far = abs(place - position) > NEAR_STEPS
            if far and (api not in _OF_LASTING_EFFECT or self._gave_up > GIVE_UP_AFTER):
                continue
            for move in self._moves_of(place):
                yield (move,)
                if abs(place - position) <= NEAR_STEPS:
                    near_moves.append(move)
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
        latest_us = min(before_us, step.effect_us + LONG_STALL_MS * 1000, step.request.logged.ready_us)
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
        ends = (fact.at_us for fact in self.expected.facts if isinstance(fact.value, TransactionEnded))
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
        facts = self.expected.facts
        near = [self._steps[index] for index in self._order[max(position - NEIGHBOURS, 0) : position + NEIGHBOURS]]
        for place, fact in enumerate(facts):
            if not fact.latest_us or (place and facts[place - 1].at_us == fact.at_us):
                continue
            before_us = facts[place - 1].at_us if place else 0
            after_us = next((later.at_us for later in facts[place:] if later.at_us > fact.at_us), self._far)
            earliest_us, latest_us = max(fact.earliest_us, before_us + 1), min(fact.latest_us, after_us - 1)
            for step in near:
                for at_us in (step.effect_us, step.effect_us + 1):
                    if earliest_us <= at_us <= latest_us and at_us != fact.at_us:
                        yield Move(NO_STEP, at_us, fact=place)

    def _bounds(self, step: Step) -> tuple[int, int]:
        """Between which times the other requests of its connection leave a request."""
        row = self._connections[step.request.logged.connection]
        place = bisect_left(row, step.index)
        after_us = self._steps[row[place - 1]].effect_us + 1 if place else 0
        before_us = self._steps[row[place + 1]].effect_us - 1 if place + 1 < len(row) else self._far
        return after_us, before_us

    def _keeps_connections(self, moves: tuple[Move, ...]) -> bool:
        """Each move alone keeps the order of its connection; two of one connection may not, so they are not tried."""
        connections = {self._steps[move.step].request.logged.connection for move in moves}
        return len(connections) == len(moves)
