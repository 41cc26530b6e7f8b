"""By which rules the events of a partition are decided: the log says so, in records among its ticks.

A query must know of a change before it takes it in: what comes in a later batch has no other way to hear of it. So the
changes are bound to the operator, and a batch with one that is not among them fails, and changes nothing. Whoever runs
the query looks the change up, notes it with the checkpoint, and starts the query again (`streaming.rules_records`).
"""

from __future__ import annotations

from coordinator_state.rule_changes import RuleChange, rules_in
from schemas.events import EventError
from schemas.ticks import NO_CLOCK, read_tick

_UNKNOWN = "The log changes its rules at offset"


class UnknownRules(RuntimeError):
    """A batch has a change of the rules that its query does not know of."""

    def __init__(self, offset: int) -> None:
        super().__init__(f"{_UNKNOWN} {offset}, which this query has yet to hear of.")


def is_unknown_rules(cause: str) -> bool:
    """Return whether this is why a query has failed."""
    return _UNKNOWN in cause


class RulesScan:
    """Finds the changes of the rules among the records of a partition that have no key, in their order."""

    def __init__(self, ahead_max_ms: int, clock_ms: int = NO_CLOCK) -> None:
        """`ahead_max_ms`: see `read_tick`. `clock_ms`: the last valid tick before the first of the records."""
        self.clock_ms = clock_ms
        """The last valid tick."""
        self.changes: tuple[RuleChange, ...] = ()
        self._ahead_max_ms = ahead_max_ms

    def take(self, offset: int, value: bytes | None, timestamp_ms: int | None) -> bool:
        """Take the next record that has no key; return whether it is a tick or a change of the rules."""
        try:
            self.clock_ms = max(self.clock_ms, read_tick(value, timestamp_ms, self._ahead_max_ms))
        except EventError:
            rules = rules_in(value)
            if rules is None:
                return False
            self.changes = (*self.changes, RuleChange(offset, self.clock_ms, rules))
        return True
