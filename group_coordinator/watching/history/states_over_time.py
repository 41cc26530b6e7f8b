"""The states that a group was in, and since when: few bytes for each."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import NamedTuple

from group_coordinator.watching.history.current_group import CurrentGroup
from schemas.group_states import ASSIGNING, NO_GROUP, RECONCILING, UNKNOWN, GroupState
from schemas.history import History, HistoryRecord

STATES: tuple[str, ...] = (NO_GROUP, *(state.value for state in GroupState), UNKNOWN, ASSIGNING, RECONCILING)
"""A state is kept as its number in this list."""
TRANSITIONS_MAX = 1_024
_WIDTH = 4


class Moment(NamedTuple):
    """The group as it was at some time."""

    since_ms: int
    state: str
    generation_id: int
    members: int


class StatesOverTime(CurrentGroup):
    """A group as it is now, and when it was in which state."""

    __slots__ = ("_transitions", "first_ms", "last_ms", "version")

    def __init__(self) -> None:
        super().__init__()
        self.version = 0
        """Grows with every record."""
        self.first_ms = 0
        self.last_ms = 0
        self._transitions = array("q")

    def at(self, time_ms: int) -> Moment | None:
        """Return the group as it was; None if it did not exist, or if that is longer ago than is remembered."""
        starts = self._transitions[0::_WIDTH]
        number = bisect_right(starts, time_ms) - 1
        if number < 0:
            return None
        since_ms, state, generation_id, members = self._transitions[number * _WIDTH : (number + 1) * _WIDTH]
        return Moment(since_ms, STATES[state], generation_id, members)

    def moments(self) -> list[Moment]:
        """Return all remembered moments, the oldest first."""
        transitions = self._transitions
        return [
            Moment(transitions[i], STATES[transitions[i + 1]], transitions[i + 2], transitions[i + 3])
            for i in range(0, len(transitions), _WIDTH)
        ]

    def follow(self, record: History) -> None:
        self.version += 1
        self.first_ms = self.first_ms or record.timestamp_ms
        self.last_ms = max(self.last_ms, record.timestamp_ms)
        super().follow(record)

    def state_entered(self, record: HistoryRecord, state: str) -> None:
        if (state, record.timestamp_ms, record.generation_id) == (self.state, self.state_since_ms, self.generation_id):
            return  # as when a life began
        super().state_entered(record, state)
        # A moment is never before the one that came first, so that it can be found by bisection.
        last_ms = self._transitions[-_WIDTH] if self._transitions else record.timestamp_ms
        at_ms = max(last_ms, record.timestamp_ms)
        self._transitions.extend((at_ms, STATES.index(state), record.generation_id, len(self.members)))
        if len(self._transitions) > TRANSITIONS_MAX * _WIDTH:
            del self._transitions[: TRANSITIONS_MAX // 4 * _WIDTH]
