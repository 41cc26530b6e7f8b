"""What led to the rebalances of groups that have epochs, or get them, or had them: by the steps alone."""

from __future__ import annotations

from collections.abc import Sequence

from group_coordinator.watching.narrative.rebalances import rebalances
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Rebalance
from schemas.consumer_group_history import (
    ConsumerMemberJoined,
    ConsumerMemberUpdated,
    GroupConverted,
    GroupEpochBumped,
    RegexResolved,
)
from schemas.history import (
    GroupCreated,
    History,
    MemberDropped,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    MemberReplaced,
    RebalanceStarted,
)
from schemas.observed_history import MemberGone

CAUSES = (
    GroupCreated | ConsumerMemberJoined | MemberJoined | MemberLeft | MemberExpired | MemberDropped | MemberGone
    | MemberReplaced | RegexResolved | GroupConverted
)  # fmt: skip


def led_to(step: Sequence[History]) -> dict[int, list[int]]:
    """Return what led to each rebalance that starts in one step of a group: all that came or went in it before, who
    asked for other topics in it, and that the group went over to another protocol."""
    causes: dict[int, list[int]] = {}
    before: list[int] = []
    for record in step:
        if isinstance(record, RebalanceStarted):
            causes[record.seq], before = before, []
        elif isinstance(record, CAUSES) or (
            isinstance(record, ConsumerMemberUpdated) and {"subscribed_topics", "subscribed_regex"} & {*record.changed}
        ):
            before.append(record.seq)
    return causes


def has_epochs(step: Sequence[History]) -> bool:
    """Return whether a group has epochs after a step, or had them before."""
    return any(isinstance(record, GroupConverted | GroupEpochBumped) for record in step)


def told(history: Sequence[History]) -> dict[int, list[int]]:
    """Return what explanations and tables say led to each rebalance of a group: they agree."""
    created = [record.seq for record in history if isinstance(record, GroupCreated)]
    in_tables = {row.seq: list(row.cause_seqs) for row in fold(history) if isinstance(row, Rebalance)}
    explained = {each.started.seq: [cause.seq for cause in each.causes] for each in rebalances(history)}
    assert explained == {
        seq: [cause for cause in causes if cause not in created] for seq, causes in in_tables.items()
    }
    return in_tables
