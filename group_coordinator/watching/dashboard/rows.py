"""A group as it is now, as the list has it. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from group_coordinator.watching.dashboard.api_types import Group
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.findings import FINDINGS_SHOWN
from group_coordinator.watching.dashboard.health import verdict
from group_coordinator.watching.dashboard.jumps import jumps
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.losing import lost_and_losing
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.dashboard.standing import standing
from group_coordinator.watching.dashboard.uneven import uneven
from group_coordinator.watching.dashboard.verdicts import SEVERITY
from group_coordinator.watching.history.current_group import CLASSIC, SHARE
from group_coordinator.watching.narrative import sentences

LATEST_SHOWN = 48
_FINDERS = lost_and_losing, standing, jumps, uneven


def group_row(group: GroupFacts, ends: EndOffsets, now_ms: int, settings: HealthSettings, cluster: str = "") -> Group:
    """Return the group as it is now. `ends` are those of its cluster's logs."""
    lag = ends.group_lag(group.offsets, now_ms, group.uncommitted)
    # A share group's start offset stands while any message before it is under way: its past explains nothing.
    finders = _FINDERS if ends.version and group.kind != SHARE else ()
    found = list(chain.from_iterable(find(group, ends, settings) for find in finders))
    judgement = verdict(group, lag, now_ms, settings, found)
    started, completed = group.started, group.completed
    took_ms = None if completed is None or completed.is_begin_known is False else completed.duration_ms
    return Group(
        group_id=group.group_id,
        cluster=cluster,
        type=group.kind,
        state=group.state,
        state_since_ms=group.state_since_ms,
        members=len(group.members),
        classic_members=len(group.members) if group.kind == CLASSIC else len(group.classic_members),
        held_up_since_ms=min((each.told_ms for each in group.holders() if each.told_ms is not None), default=None),
        generation=group.generation_id,
        target_epoch=group.way.epoch if group.kind != CLASSIC and group.way.targets else None,
        topics=group.topics,
        partitions=group.partitions,
        lag=None if lag is None else lag.messages,
        lag_ms=None if lag is None else lag.behind_ms,
        lag_ms_is_at_least=lag is not None and lag.at_least,
        lost=max(0 if lag is None else lag.gone, sum(each.messages for each in found if each.kind == "lost")),
        uncommitted_partitions=len(group.uncommitted),
        uncommitted_messages=0 if lag is None else lag.up_to,
        partitions_beyond_end=0 if lag is None else lag.beyond_end,
        loses_in_ms=min((each.in_ms for each in found if each.in_ms is not None), default=None),
        finding_counts=dict(Counter(finding.kind for finding in found)),
        findings=tuple(found[:FINDINGS_SHOWN]),
        last_commit_ms=group.last_commit_ms,
        last_event_ms=group.last_ms,
        last_rebalance_ms=None if started is None else started.timestamp_ms,
        last_rebalance_duration_ms=took_ms,
        last_rebalance_cause="" if started is None else sentences.because(started),
        latest_rebalances_ms=tuple(recent.started_ms for recent in group.recent)[-LATEST_SHOWN:],
        rebalances=group.rebalances,
        refusals=group.refusals,
        verdict=judgement.kind,
        severity=SEVERITY[judgement.kind],
        reason=judgement.reason,
        member=judgement.who,
        holds_until_ms=judgement.holds_until_ms,
    )
