"""Timers as data: a group's timers are a dict, name -> Timer, in the order of arming.

Arming a name again deletes and inserts it, so the order of the dict is the order in which equal deadlines fire
(docs/architecture.md, rule 8: by deadline, then in the order of arming). No callback is stored: the state stays plain.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct

from schemas.history import TimerName

OFFSETS_EXPIRY = "offsets_expiry"
"""The next run of the retention check at which something of this group can expire."""
PUBLICATION = "publication"
"""A large group that has changed is published (`coordinator_state.publication`)."""


class Timer(Struct, array_like=True, frozen=True, gc=False):
    """One armed timer."""

    deadline_ms: int
    armed_ms: int
    armed_offset: int
    """The event that armed it; for a session, the last event of the member."""


Timers = dict[str, Timer]


class DueTimer(NamedTuple):
    """A timer that fires."""

    name: str
    timer: Timer


class TimerCause(NamedTuple):
    """A timer as history names it."""

    timer: TimerName
    member_id: str | None


def earliest(timers: Timers, check_interval_ms: int) -> DueTimer | None:
    """Return the timer that fires next, if any is armed.

    Kafka's retention check is one task that re-arms itself at each run. Ours is armed late, only where something can
    expire; among equal deadlines it takes the place that Kafka's task would have: armed one interval before.
    """
    best_name, best = None, None
    for name, timer in timers.items():
        if name != OFFSETS_EXPIRY and (best is None or timer.deadline_ms < best.deadline_ms):
            best_name, best = name, timer
    expiry = timers.get(OFFSETS_EXPIRY)
    if expiry is not None and (
        best is None
        or expiry.deadline_ms < best.deadline_ms
        or (expiry.deadline_ms == best.deadline_ms and runs_before(expiry.deadline_ms, best, check_interval_ms))
    ):
        return DueTimer(OFFSETS_EXPIRY, expiry)
    return None if best_name is None or best is None else DueTimer(best_name, best)


def runs_before(run_ms: int, timer: Timer, check_interval_ms: int) -> bool:
    """Return whether the retention check at `run_ms` comes before a timer of the same deadline."""
    return timer.armed_ms >= run_ms - check_interval_ms
