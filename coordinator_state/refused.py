"""Refusals in history: a request, or a part of one, that is refused; and a client that is fenced by it."""

from __future__ import annotations

from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.history import MemberFenced, RequestRefused

REFUSALS_RECORDED_MAX = 100
"""History records so many refused parts of one request: each record has the names of group and client again."""


def record_refusal(step: Step, refusal: Refusal) -> None:
    """Record what is refused of the request of this step."""
    step.refused += 1
    if step.refused > REFUSALS_RECORDED_MAX:
        return
    detail = refusal.detail
    if step.refused == REFUSALS_RECORDED_MAX:
        detail += "; of further parts of the request that are refused nothing is told"
    record_kept_out(step, step.envelope.api, refusal, detail)
    cause, group = step.cause, step.group
    if refusal.error_code is ErrorCode.FENCED_INSTANCE_ID and group is not None and cause.group_instance_id:
        step.append_history(
            MemberFenced(
                *step.history_fields(),
                member_id=cause.member_id or "",
                group_instance_id=cause.group_instance_id,
                owner_member_id=group.body.instance_owner(cause.group_instance_id),
            )
        )


def record_kept_out(step: Step, api: str, refusal: Refusal, detail: str | None = None) -> None:
    """Record what is refused of a request, or of an event that has no answer."""
    step.append_history(
        RequestRefused(
            *step.history_fields(),
            api=api,
            error_code=int(refusal.error_code),
            error=refusal.error_code.name,
            rule=refusal.rule,
            detail=refusal.detail if detail is None else detail,
            state=step.group.body.state_name if step.group is not None else "none",
        )
    )
