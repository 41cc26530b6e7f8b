"""The history records of a rebalance that goes on: the leader, the extensions, the end of each phase."""

from __future__ import annotations

from typing import Literal

from msgspec.structs import replace

from coordinator_state.classic.context import classic
from coordinator_state.classic.member import Rebalance
from coordinator_state.step import Step
from schemas.history import JoinPhaseCompleted, LeaderElected, RebalanceCompleted, RebalanceExtended

Outcome = Literal["stable", "empty", "interrupted", "coordinator_changed"]


def record_leader(step: Step) -> None:
    """Tell of a new leader, if there is one."""
    group = classic(step)
    previous, leader = group.elected_leader_id, group.leader_id
    if leader is None or leader == previous:
        return
    group.elected_leader_id = leader
    member = group.members[leader]
    reason: Literal["first_member", "leader_did_not_rejoin", "leader_gone"]
    if previous is None:
        reason = "first_member"
    elif previous in group.members:
        reason = "leader_did_not_rejoin"
    else:
        reason = "leader_gone"
    step.append_history(
        LeaderElected(*step.history_fields(), leader=member.identity, previous_leader_id=previous, reason=reason)
    )


def record_extension(
    step: Step, reason: Literal["members_arriving", "only_static_members_left"], delay_ms: int
) -> None:
    progress = classic(step).rebalance
    if progress is not None:
        progress.last_seq = step.append_history(
            RebalanceExtended(
                *step.history_fields(), rebalance=progress.seq, reason=reason, deadline_ms=step.now_ms + delay_ms
            )
        )


def record_join_phase(step: Step) -> None:
    group = classic(step)
    progress = group.rebalance
    if progress is None:
        return
    progress.join_ms = progress.moment(step.timestamp_ms) - progress.started_ms
    progress.last_seq = step.cause_seq = step.append_history(
        JoinPhaseCompleted(
            *step.history_fields(),
            rebalance=progress.seq,
            duration_ms=progress.join_ms,
            members=tuple(group.members),
            waited_for=progress.waited_for(),
            slowest=progress.slowest(),
            dropped=tuple(progress.dropped),
        )
    )


def complete_rebalance(step: Step, outcome: Outcome) -> None:
    """Tell how the rebalance ended, and forget it."""
    group = classic(step)
    progress, group.rebalance = group.rebalance, None
    if progress is not None:
        append_completed(step, progress, outcome)


def append_completed(step: Step, progress: Rebalance, outcome: Outcome, generation_id: int | None = None) -> None:
    """Tell how a rebalance ended. `generation_id`: of the record; None: that of the group."""
    record = RebalanceCompleted(
        *step.history_fields(),
        rebalance=progress.seq,
        outcome=outcome,
        trigger=progress.trigger,
        started_ms=progress.started_ms,
        duration_ms=progress.moment(step.timestamp_ms) - progress.started_ms,
        join_ms=progress.join_ms,
        waited_for=progress.waited_for(),
        slowest=progress.slowest(),
        dropped=tuple(progress.dropped),
    )
    step.append_history(record if generation_id is None else replace(record, generation_id=generation_id))
