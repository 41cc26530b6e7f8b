"""The rebalance of a consumer group, as history tells it: from a rise of the group epoch until all members have
reconciled, the group is empty, or the next rise interrupts it.

It waits for the members that must give up partitions.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from msgspec.structs import replace

from coordinator_state.classic.member import Outcome, Rebalance
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.consumer.snapshot import identity
from coordinator_state.step import Step
from schemas.consumer_group_history import TRIGGERS, EpochReason
from schemas.history import RebalanceStarted


class Rise(NamedTuple):
    """A rise of the group epoch, and what led to it."""

    epoch: int
    reasons: tuple[EpochReason, ...]
    """The one that is named first in front."""
    member: ConsumerMember | None
    """Whose doing it is."""
    regexes: tuple[str, ...]
    """The expressions that were resolved."""
    initial: bool
    """The group was empty."""


def in_order(reasons: Iterable[EpochReason]) -> tuple[EpochReason, ...]:
    """Return each reason once, the one that is named first in front."""
    given = set(reasons)
    return tuple([reason for reason in TRIGGERS if reason in given]) or ("not_known",)


def begin(step: Step, group: ConsumerGroup, rise: Rise, interrupted: Rebalance | None) -> None:
    """Tell that a rebalance starts, and that the one before is interrupted. Both records are of the epoch before."""
    epoch_before, reason = rise.epoch - 1, rise.reasons[0]
    waited: dict[str, tuple[int | None, int | None]] = {}
    if interrupted is not None:
        step.append_history(
            replace(interrupted.completed(step.history_fields(), "interrupted"), generation_id=epoch_before)
        )
        waited = {
            member_id: (told_ms, None)
            for member_id, (told_ms, done_ms) in interrupted.waited.items()
            if done_ms is None and member_id in group.members and group.members[member_id].pending_revocation
        }
    started = RebalanceStarted(
        *step.history_fields(),
        trigger=TRIGGERS[reason],
        member=None if rise.member is None else identity(rise.member),
        reason=_words(rise, reason),
        initial=rise.initial,
        waiting_for=tuple(waited),
        deadline_ms=None,
        interrupts=None if interrupted is None else interrupted.seq,
    )
    seq = step.cause_seq = step.append_history(replace(started, generation_id=epoch_before))
    group.rebalance = Rebalance(seq, TRIGGERS[reason], step.timestamp_ms, waited, last_seq=seq)


def note_revocation(step: Step, group: ConsumerGroup, member: ConsumerMember) -> None:
    """Note that a member was told to give up partitions, or that it has."""
    if group.rebalance is None:
        return
    waited, member_id = group.rebalance.waited, member.member_id
    told_ms, done_ms = waited.get(member_id, (None, None))
    now_ms = group.rebalance.moment(step.timestamp_ms)
    if member.pending_revocation:
        waited[member_id] = now_ms if told_ms is None else told_ms, None
    elif member_id in waited and done_ms is None:
        waited[member_id] = told_ms, now_ms


def note_replacement(group: ConsumerGroup, old_member_id: str, member_id: str) -> None:
    """Note that a static member goes on under another id."""
    if group.rebalance is not None and old_member_id in group.rebalance.waited:
        group.rebalance.waited[member_id] = group.rebalance.waited.pop(old_member_id)


def complete(step: Step, group: ConsumerGroup, outcome: Outcome) -> None:
    """Tell how the rebalance ended, and forget it."""
    progress, group.rebalance = group.rebalance, None
    if progress is not None:
        step.append_history(progress.completed(step.history_fields(), outcome))


def _words(rise: Rise, reason: EpochReason) -> str:
    name = "a member" if rise.member is None else f"member {rise.member.client_id or rise.member.member_id}"
    match reason:
        case "member_joined":
            return f"{name} joined"
        case "member_left":
            return f"{name} left"
        case "member_expired":
            return f"{name} expired"
        case "member_dropped":
            return f"{name} was too slow"
        case "static_member_replaced":
            return f"static {name} came back"
        case "subscription_changed":
            return f"{name} subscribed to other topics"
        case "regexes_resolved":
            return f"other topics match {' and '.join(rise.regexes)}"
        case "topics_changed":
            return "topics that the group subscribes to changed"
        case "converted":
            return "the group goes over to the consumer protocol"
        case "member_gone" | "not_known":
            return "what changed is not known"
