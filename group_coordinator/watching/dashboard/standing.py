"""Partitions with an owner and messages waiting, whose committed offset stands longer than their past explains.

There is no threshold of messages: each partition is judged by its own pace, as Burrow does it over a window of commits.
A partition stands still when all of this holds:

- The offset has not moved for as long as `stalled_after_ms`, and for three times the longest of its latest pauses. Time
  in which no message waited counts for neither.
- More messages wait than it took for a commit lately: who commits every thousand messages leaves 999.
- It had as long since the last rebalance.
- A consumer that waits for the end of transactions could read some of them.

A partition that never had a commit has no pace; its neighbours' counts then. Messages that were there before it was
assigned say nothing, since `auto.offset.reset` may have passed over them, so some must have come at two polls or more.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard.committed import PAUSE_EXPLAINS_MS, Committed
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.findings import Finding, FindingKind, found_in
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.settings import HealthSettings
from schemas.group_states import GroupState

PAUSES = 3
"""So many of its longest pauses a partition may stand."""
UNKNOWN_PACE = 12
"""So many times longer it may stand when no earlier move is known: the offsets topic is compacted."""
NEIGHBOURS = 50
"""So many other partitions are asked for their pace."""
_BEFORE_MS, _AFTER_MS = 10_000, 60_000
"""So near to the moment when it stopped a rebalance has to do with it."""
_WITHOUT_OWNERS = (GroupState.PREPARING_REBALANCE.value, GroupState.COMPLETING_REBALANCE.value)


class Pace(NamedTuple):
    """What the past of a partition explains."""

    patience_ms: int
    step: int
    """So many messages it takes for a commit."""


def standing(group: GroupFacts, ends: EndOffsets, settings: HealthSettings) -> Iterator[Finding]:
    """Yield the group's partitions that stand still as of the last poll, and those that wait for a transaction."""
    if not group.members or group.state in _WITHOUT_OWNERS:
        return
    floor_ms, owners = settings.stalled_after_ms, None
    for place, committed in group.offsets.items():
        bounds = ends.bounds.get(place)
        if bounds is None or ends.polled_ms - committed.moved_ms <= floor_ms or bounds.unread(committed.offset) == 0:
            continue
        owners = group.owners() if owners is None else owners
        if (member := owners.get(place)) in group.members:
            yield from _standing(group, ends, place, committed, member, floor_ms)
    for place in group.uncommitted:
        owners = group.owners() if owners is None else owners
        if (member := owners.get(place)) in group.members:
            yield from _never_committed(group, ends, place, member, floor_ms)


def _standing(
    group: GroupFacts, ends: EndOffsets, place: Partition, committed: Committed, member: str | None, floor_ms: int
) -> Iterator[Finding]:
    position = max(committed.offset, ends.bounds[place].begin)
    since_ms = max(committed.moved_ms, ends.arrived_ms(place, position) or 0)
    pace = pace_of(place, committed, ends, floor_ms)
    if not _is_too_long(group, ends, since_ms, pace.patience_ms):
        return
    reach = ends.reach(place)
    if reach is None or ends.bounds[place].end - position <= pace.step:
        return
    is_readable = reach.stable_end > position
    if is_readable and reach.stable_end - position <= pace.step:
        return
    yield found_in(
        place,
        group,
        "stalled" if is_readable else "transaction",
        member,
        ends.bounds[place].end - position,
        since_ms,
        rebalance_ms=_rebalance_near(group, committed.moved_ms, since_ms),
        is_committed_again=committed.committed_ms > committed.moved_ms,
    )


def _never_committed(
    group: GroupFacts, ends: EndOffsets, place: Partition, member: str | None, floor_ms: int
) -> Iterator[Finding]:
    if ends.polled_ms - group.assigned_ms <= floor_ms:
        return
    growths = ends.growths(place, group.assigned_ms)
    if len(growths) < 2 or ends.polled_ms - growths[0][0] <= floor_ms:
        return
    of_topic = (each for each in group.offsets.items() if each[0][0] == place[0] and each[1].step)
    neighbours = [pace_of(*each, ends, floor_ms) for each in islice(of_topic, NEIGHBOURS)]
    patience_ms = max([pace.patience_ms for pace in neighbours], default=floor_ms)
    since_ms = growths[0][0]
    if not _is_too_long(group, ends, since_ms, patience_ms):
        return
    came = ends.bounds[place].end - growths[0][1]
    reach = ends.reach(place)
    if reach is None or came <= max([pace.step for pace in neighbours], default=0):
        return
    near_ms = _rebalance_near(group, group.assigned_ms, group.assigned_ms)
    kind: FindingKind = "stalled" if reach.stable_end > growths[0][1] else "transaction"
    yield found_in(place, group, kind, member, came, since_ms, rebalance_ms=near_ms)


def pace_of(place: Partition, committed: Committed, ends: EndOffsets, floor_ms: int) -> Pace:
    """Return the pace of a partition as of the last poll."""
    pauses = [pause for pause in committed.pauses() if ends.polled_ms - pause.until_ms <= PAUSE_EXPLAINS_MS]
    longest_ms = 0
    for pause in pauses:
        # Until the next message came there was nothing to commit.
        arrived_ms = ends.arrived_ms(place, pause.offset) if pause.offset >= 0 else None
        longest_ms = max(longest_ms, pause.until_ms - max(pause.since_ms, arrived_ms or 0))
    patience_ms = max(floor_ms, PAUSES * longest_ms)
    if not committed.step:
        return Pace(max(patience_ms, UNKNOWN_PACE * floor_ms), 0)
    steps = [pause.next_offset - pause.offset for pause in pauses if pause.offset >= 0]
    return Pace(patience_ms, min([committed.step, *steps]))


def _is_too_long(group: GroupFacts, ends: EndOffsets, since_ms: int, patience_ms: int) -> bool:
    now_ms = ends.polled_ms
    return now_ms - since_ms > patience_ms and now_ms - group.assigned_ms > patience_ms


def _rebalance_near(group: GroupFacts, stopped_ms: int, since_ms: int) -> int | None:
    near = [
        recent.started_ms
        for recent in group.recent
        if stopped_ms - _BEFORE_MS <= recent.started_ms <= since_ms + _AFTER_MS
    ]
    return near[-1] if near else None
