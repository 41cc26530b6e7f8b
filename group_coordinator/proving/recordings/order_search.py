"""Replays one group, and where the broker's side does not come out, looks for an order of requests in which it does.

A log tells when requests arrived and when they were answered, to the millisecond; when the broker's coordinator thread
took them up, in between, it does not tell. So a replay starts with the likely order. At the first disagreement, single
requests near it, then pairs, are moved inside the time that the log leaves them; what gets past the disagreement and
on is kept. Nothing is moved that the log contradicts: requests of one connection keep their order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import itemgetter

from msgspec import Struct, field
from msgspec.structs import replace

from coordinator_state import Group, GroupConfig
from group_coordinator.proving.recordings.absent_requests import Absent, absent_requests
from group_coordinator.proving.recordings.expectations import Disagreement, Expected, Step
from group_coordinator.proving.recordings.group_replay import GroupReplay
from group_coordinator.proving.recordings.order_moves import Move, PossibleMoves
from group_coordinator.proving.recordings.replay_state import START, GroupInput, State
from group_coordinator.proving.recordings.track import Place, Track

CHECKPOINT_EVERY_STEPS = 4
CHECKPOINTS_KEPT = 40
AHEAD_STEPS = 40
"""How far beyond a disagreement an order must agree to be taken at once."""
GIVE_UP_AFTER = 10
"""So many disagreements that nothing explains: the rest follows from them, and is searched less."""


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
    moved_loads: int = 0
    """Loads that were over at another time than the next answers alone let seem."""
    late_resolutions: int = 0
    """Regular expressions that were resolved later than at once."""
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
        late_lines = [step.index for step in steps if step.effect_us < step.earliest_us]
        self.result = GroupResult(group_id=group_id, steps=list(steps), late_lines=late_lines)
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
        possible = PossibleMoves(self._steps, self._order, self._connections, self._near_timers, self.expected)
        first, is_hopeless = next(iter(self._states)), self._gave_up > GIVE_UP_AFTER
        moves_to_try = possible.candidates(position, disagreement, first, self._inputs, is_searched_less=is_hopeless)
        if (moves := self._best(position, disagreement, moves_to_try)) is not None:
            self.result.places += 1
            return self._apply(moves)
        if disagreement.broker_ms is not None or is_hopeless:
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
            if (from_us := self._changes_from_us(move)) is not None:
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

    def _changes_from_us(self, move: Move) -> int | None:
        """Return since when something else is moved than a request; None if it is a request."""
        if move.fact is not None:
            return min(move.effect_us, self.expected.facts[move.fact].at_us)
        if move.load is not None:
            return self.expected.loads[move.load].from_us
        return None if move.regexes_begun_ms is None else move.regexes_begun_ms * 1000

    def _with_facts(self, moves: tuple[Move, ...]) -> Expected:
        """The broker's side with facts at other times; nothing changes where none moves."""
        facts, loads, resolved_us = self.expected.facts, self.expected.loads, self.expected.regexes_resolved_us
        for move in moves:
            if move.fact is not None:
                at_us = facts[move.fact].at_us
                facts = [replace(fact, at_us=move.effect_us) if fact.at_us == at_us else fact for fact in facts]
            elif move.regexes_begun_ms is not None:
                resolved_us = resolved_us | {move.regexes_begun_ms: move.effect_us}
            elif move.load is not None:
                loads = [
                    *loads[: move.load],
                    replace(loads[move.load], loaded_us=move.effect_us),
                    *loads[move.load + 1 :],
                ]
        return replace(self.expected, facts=facts, loads=loads, regexes_resolved_us=resolved_us)

    def _position(self, order: list[int], steps: list[Step], step: Step) -> int:
        return bisect_left(order, self._key(step), key=lambda index: self._key(steps[index]))

    def _apply(self, moves: tuple[Move, ...]) -> int:
        steps, order, first = self._moved(moves)
        self.expected = self._with_facts(moves)
        for move in moves:
            if move.fact is not None:
                self.result.moved_facts += 1
            elif move.regexes_begun_ms is not None:
                self.result.late_resolutions += 1
            elif move.load is not None:
                self.result.moved_loads += 1
            elif move.inserted is not None:
                self._connections[move.inserted.request.logged.connection] = [move.step]
            elif move.effect_us < self._steps[move.step].earliest_us:
                self.result.late_lines.append(move.step)
        self._steps[:] = steps
        self._order = order
        return first
