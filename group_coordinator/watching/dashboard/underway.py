"""What holds up a group that counts epochs, and when that is too long. Pure."""

from __future__ import annotations

from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.dashboard.verdicts import Verdict
from group_coordinator.watching.history.holding import Holder
from group_coordinator.watching.narrative import holding, sentences, words
from schemas.group_states import ASSIGNING, RECONCILING

_LOOK_AGAIN_MS = 5_000


def stuck(group: GroupFacts, now_ms: int, settings: HealthSettings) -> Verdict | None:
    """Return the verdict on a group that has had no target, or has been held up, for too long."""
    due = due_ms(group, settings)
    if due is None or now_ms <= due:
        return None
    running = words.duration(now_ms - group.state_since_ms)
    culprit = next((holder for holder in group.holders() if _is_late(group, holder, now_ms, settings)), None)
    if culprit is not None and culprit.told_ms is not None:
        names = [holding.called(culprit.member_id, group.members)]
        by_ms = group.gives_up_by_ms(culprit.member_id)
        overdue = ", beyond its rebalance timeout" if by_ms is not None and now_ms > by_ms else ""
        reason = holding.since(culprit, now_ms - culprit.told_ms, group.members) + overdue
    elif group.state == ASSIGNING:
        names = []
        reason = f"epoch {group.generation_id} has had no target assignment for {running}: no heartbeat has brought it"
    else:
        behind = [holder.member_id for holder in group.holders()] or group.way.behind()
        names = [holding.called(member_id, group.members) for member_id in behind]
        whom = words.listed(names) or "nobody that this history names"
        reason = f"waits for {whom} to come to the target of epoch {group.way.epoch} for {running}"
    because = f"; it began because {sentences.because(group.started)}" if group.started is not None else ""
    return Verdict(
        kind="stuck", reason=reason + because, who=names[0] if names else None, holds_until_ms=now_ms + _LOOK_AGAIN_MS
    )


def due_ms(group: GroupFacts, settings: HealthSettings) -> int | None:
    """Return until when all is well with a group that is on the way to its target; None: it is not on the way."""
    if group.state not in (ASSIGNING, RECONCILING):
        return None
    # An epoch that rises meanwhile does not excuse who was told before.
    dues = [due for holder in group.holders() if (due := _due_ms(group, holder, settings)) is not None]
    if group.state == ASSIGNING:
        dues.append(group.state_since_ms + settings.assigning_max_ms)
    elif not dues:
        dues.append(group.state_since_ms + settings.stuck_after_ms)
    return min(dues)


def _due_ms(group: GroupFacts, holder: Holder, settings: HealthSettings) -> int | None:
    """Return until when a member may take to give up partitions; None: it does not know of it."""
    if holder.told_ms is None:
        return None
    by_ms = group.gives_up_by_ms(holder.member_id)
    due = holder.told_ms + settings.stuck_after_ms
    return due if by_ms is None else min(due, by_ms + settings.deadline_grace_ms)


def _is_late(group: GroupFacts, holder: Holder, now_ms: int, settings: HealthSettings) -> bool:
    due = _due_ms(group, holder, settings)
    return due is not None and now_ms > due


def waits(group: GroupFacts) -> str:
    """Return whom a group waits for, as the end of a sentence; empty: for nobody in particular."""
    holders = group.holders()
    if not holders:
        return ""
    texts = [
        f"{holding.called(holder.member_id, group.members)} to give up {words.owned(holder.topics)}"
        for holder in holders
    ]
    return f", waits for {words.listed(texts)}"
