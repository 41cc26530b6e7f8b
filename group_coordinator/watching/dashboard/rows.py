"""A group as one row of the list. Pure."""

from __future__ import annotations

from collections import Counter
from itertools import chain

from msgspec import Struct

from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.findings import FINDINGS_SHOWN, Finding, FindingKind
from group_coordinator.watching.dashboard.health import verdict
from group_coordinator.watching.dashboard.jumps import jumps
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.losing import lost_and_losing
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.dashboard.standing import standing
from group_coordinator.watching.dashboard.uneven import uneven
from group_coordinator.watching.dashboard.verdicts import SEVERITY, VerdictKind
from group_coordinator.watching.history.current_group import CLASSIC
from group_coordinator.watching.narrative import sentences

SPARK_MAX = 48
_FINDERS = lost_and_losing, standing, jumps, uneven


class GroupRow(Struct, frozen=True, kw_only=True):
    """One row of the list. Times are milliseconds since 1970; the page computes how long ago that is."""

    id: str
    cluster: str
    """Where there are several, the group's id begins with it."""
    kind: str
    """`classic`, or one of those that count epochs: `consumer`, `share`, `streams`."""
    state: str
    since: int
    """When it came into this state."""
    members: int
    classic_members: int
    """Those of the classic protocol, also in a consumer group."""
    told: int | None
    """Since when a member has not given up what it was told to; null: nobody must."""
    generation: int
    target_epoch: int | None
    """The epoch of the target, if the group counts epochs."""
    topics: tuple[str, ...]
    partitions: int
    lag: int | None
    lag_ms: int | None
    lag_at_least: bool
    lost: int
    """Messages that were deleted before they were read: behind committed offsets, or passed over in the last hour.
    `lag` does not count them."""
    uncommitted: int
    """Partitions that were assigned and have no committed offset ..."""
    up_to: int
    """... and all their messages, of which nobody knows how many wait; `lag` does not count them."""
    beyond_end: int
    """Partitions whose committed offset lies beyond the end of the log."""
    stalled: int
    """Partitions that have an owner and messages waiting, and do not move."""
    losing: int
    """Partitions whose messages are deleted before they are read, or soon will be ..."""
    loses_in_ms: int | None
    """... in about so long."""
    found: dict[FindingKind, int]
    """How many partitions of each kind of finding there are ..."""
    findings: tuple[Finding, ...]
    """... and the first ones."""
    rebalanced: int | None
    """When its last rebalance began."""
    took_ms: int | None
    cause: str
    rebalances: int
    refusals: int
    spark: tuple[int, ...]
    """When its latest rebalances began."""
    committed: int | None
    last: int
    verdict: VerdictKind
    severity: int
    reason: str
    who: str | None
    holds_until_ms: int | None

    @property
    def id_in_cluster(self) -> str:
        """The id without the name of the cluster."""
        return self.id.removeprefix(f"{self.cluster}/") if self.cluster else self.id

    @property
    def labels(self) -> tuple[str, str]:
        """The cluster and the group, as labels of metrics."""
        return self.cluster, self.id_in_cluster


def group_row(
    group: GroupFacts, ends: EndOffsets, now_ms: int, settings: HealthSettings, cluster: str = ""
) -> GroupRow:
    """Return the group's row as it is now. `ends` are those of its cluster's logs."""
    lag = ends.group_lag(group.offsets, now_ms, group.uncommitted)
    found = list(chain.from_iterable(find(group, ends, settings) for find in _FINDERS)) if ends.version else []
    judgement = verdict(group, lag, now_ms, settings, found)
    kinds = Counter(finding.kind for finding in found)
    started, completed = group.started, group.completed
    return GroupRow(
        id=group.group_id,
        cluster=cluster,
        kind=group.kind,
        state=group.state,
        since=group.state_since_ms,
        members=len(group.members),
        classic_members=len(group.members) if group.kind == CLASSIC else len(group.classic_members),
        told=min((holder.told_ms for holder in group.holders() if holder.told_ms is not None), default=None),
        generation=group.generation_id,
        target_epoch=group.way.epoch if group.kind != CLASSIC and group.way.targets else None,
        topics=group.topics,
        partitions=group.partitions,
        lag=None if lag is None else lag.messages,
        lag_ms=None if lag is None else lag.behind_ms,
        lag_at_least=lag is not None and lag.at_least,
        lost=max(0 if lag is None else lag.gone, sum(each.messages for each in found if each.kind == "lost")),
        uncommitted=len(group.uncommitted),
        up_to=0 if lag is None else lag.up_to,
        beyond_end=0 if lag is None else lag.beyond_end,
        stalled=kinds["stalled"],
        losing=kinds["lost"] + kinds["will_lose"],
        loses_in_ms=min((each.in_ms for each in found if each.in_ms is not None), default=None),
        found=dict(kinds),
        findings=tuple(found[:FINDINGS_SHOWN]),
        rebalanced=None if started is None else started.timestamp_ms,
        took_ms=None if completed is None else completed.duration_ms,
        cause="" if started is None else sentences.because(started),
        rebalances=group.rebalances,
        refusals=group.refusals,
        spark=tuple(recent.started_ms for recent in group.recent)[-SPARK_MAX:],
        committed=group.last_commit_ms,
        last=group.last_ms,
        verdict=judgement.kind,
        severity=SEVERITY[judgement.kind],
        reason=judgement.reason,
        who=judgement.who,
        holds_until_ms=judgement.holds_until_ms,
    )
