"""The changes of a log's rules: from which event on its groups are decided as another version of Kafka does.

The log says so by `kafka_rules`, an event of the whole partition, and nothing else does: no setting of a process. What
comes before the first of them is decided by the rules of 4.3, as it was when there was no choice.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from coordinator_state.kafka_versions import rules_named
from coordinator_state.timers import Timer
from schemas.events import EventError, EventProblem
from schemas.rules_events import decode_rules


class RuleChange(NamedTuple):
    """One change, at its place in the log. Everything between two events is decided by these two numbers, so that no
    batching can be seen."""

    offset: int
    """Events behind it are decided by the new rules."""
    clock_ms: int
    """The clock there, that is the last valid tick before it. Timers with later deadlines fire by the new rules, and so
    do those that events behind it arm."""
    rules: str
    """Their name, see `kafka_versions.rules_named`."""


def read_rules(value: bytes | None) -> str:
    """Return the rules that a record with a null key names. Raises `EventError`: it names none, or unknown ones."""
    rules = decode_rules(value or b"").rules
    try:
        rules_named(rules)
    except ValueError as problem:
        raise EventError(EventProblem.MALFORMED_RULES, str(problem)) from None
    return rules


def rules_in(value: bytes | None) -> str | None:
    """Return the rules that a record with a null key names; None if it is no change of them."""
    if not names_rules(value):
        return None
    try:
        return read_rules(value)
    except EventError:
        return None


def names_rules(value: bytes | None) -> bool:
    """Return whether a record with a null key is meant to change the rules, well or badly."""
    return b'"kafka_rules"' in (value or b"")[:64]


def changes_before(changes: Sequence[RuleChange], offset: int) -> int:
    """Return how many of the changes count for an event."""
    return bisect_left(changes, (offset,))


def changes_until(changes: Sequence[RuleChange], timer: Timer) -> int:
    """Return how many of the changes count for a timer: those before the event that has armed it, and those that the
    clock left behind before the deadline."""
    passed = sum([change.clock_ms < timer.deadline_ms for change in changes])
    return max(passed, changes_before(changes, timer.armed_offset))
