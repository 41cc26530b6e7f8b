"""A group's time goes on at another hour, as if none had gone by: the clock leaves behind what it will not catch up."""

from __future__ import annotations

from coordinator_state import timers
from coordinator_state.retention import plan_expiry
from coordinator_state.step import Step
from coordinator_state.timers import Timer


def move_time(step: Step, to_ms: int) -> None:
    """Move the group's time on to `to_ms`; all that it waits for, and what retention counts from, moves with it."""
    group = step.require_group()
    by_ms = to_ms - group.now_ms
    if by_ms <= 0:
        return
    group.now_ms = step.now_ms = to_ms
    group.body.move_time(by_ms)
    if group.next_publication_ms:
        group.next_publication_ms += by_ms
    for name, timer in group.timers.items():
        group.timers[name] = Timer(timer.deadline_ms + by_ms, timer.armed_ms + by_ms, timer.armed_offset)
    if group.retention or group.offsets.has_pending:
        group.offsets.move_time(by_ms)
    for retention in group.retention.values():
        retention.oldest_committed_ms += by_ms
        if retention.earliest_expire_ms is not None:
            retention.earliest_expire_ms += by_ms
    # The check runs at fixed instants: its timer is no wait of the group's.
    if group.timers.pop(timers.OFFSETS_EXPIRY, None) is not None:
        plan_expiry(step)
