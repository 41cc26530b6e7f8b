"""A classic group in a step."""

from __future__ import annotations

from coordinator_state.classic.group import ClassicGroup
from coordinator_state.classic.states import GroupState
from coordinator_state.step import Step


def classic(step: Step) -> ClassicGroup:
    """Return the classic group of a step that has one."""
    group = step.group
    assert group is not None
    body = group.body
    assert type(body) is ClassicGroup
    return body


def classic_or_none(step: Step) -> ClassicGroup | None:
    """Return the classic group of a step, if there is a group."""
    group = step.group
    if group is None:
        return None
    body = group.body
    assert type(body) is ClassicGroup
    return body


def create_classic_group(step: Step) -> ClassicGroup:
    """Begin a life of the group with the event of this step. A consumer group without members that is there goes on in
    it, with its offsets."""
    body = ClassicGroup(state_since_ms=step.now_ms)
    if step.group is None:
        step.create_group(body)
    else:
        body.regex_refresh_began_ms = step.group.body.regex_refresh_began_ms
        step.group.body = body
        step.note_change()
    return body


def transition_to(step: Step, state: GroupState) -> None:
    """Let the group go to another state; it is published at the end of the step."""
    classic(step).transition_to(state, step.now_ms)
    step.note_change()
