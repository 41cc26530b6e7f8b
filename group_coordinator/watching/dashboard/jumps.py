"""Commits that went back, and commits that passed over messages. Pure.

A commit of a member that goes back is told where that is further than it reads for a commit, unless one that was sent
with it came later and made up for it. Of one that goes on nobody can see whether the messages were read, so it is told
only where that cannot be: nobody was in the group, which had members before, and whoever committed has not done so
again and again; or it lies beyond the end of the log.
"""

from __future__ import annotations

from collections.abc import Iterator

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.watching.dashboard.committed import OVERTAKEN_MS, Jump
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.findings import Finding, found_in, when
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.losing import REMEMBERED_MS
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.narrative import holding


def jumps(group: GroupFacts, ends: EndOffsets, settings: HealthSettings) -> Iterator[Finding]:
    """Yield the group's partitions with such commits in the hour before the last poll."""
    for place, jump in list(group.jumps.items()):
        bounds, age_ms = ends.bounds.get(place), ends.polled_ms - jump.at_ms
        if age_ms > REMEMBERED_MS:
            del group.jumps[place]
        elif bounds is not None and age_ms > (OVERTAKEN_MS if jump.offset < jump.before else settings.settling_ms):
            yield from _jumped(group, place, jump, bounds, ends.polled_ms)
    since_ms = ends.polled_ms - settings.settling_ms
    for place, committed in group.offsets.items():
        bounds = ends.bounds.get(place)
        if bounds is None or committed.offset <= bounds.end or committed.moved_ms >= since_ms:
            continue
        times, _ = ends.samples(place)
        if times and times[0] <= committed.moved_ms:  # else it may be that the log was made anew
            member, known = _member(group, place), group.jumps.get(place)
            who = known.who if known is not None else holding.called(member, group.members) if member else "somebody"
            says = f"committed {committed.offset:,} at {when(committed.moved_ms, ends.polled_ms)} in the log of"
            yield found_in(
                place, group, "skipped", member, committed.offset - bounds.end, committed.moved_ms,
                text=f"{who} {says} {place[0]}-{place[1]}, which ends at {bounds.end:,}: it was not there to be read",
            )  # fmt: skip


def _jumped(group: GroupFacts, place: Partition, jump: Jump, bounds: Bounds, now_ms: int) -> Iterator[Finding]:
    went = f"in {place[0]}-{place[1]} from offset {jump.before:,} to {jump.offset:,} at {when(jump.at_ms, now_ms)}"
    again = Bounds(max(jump.offset, bounds.begin), jump.before).unread(0)
    passed = min(jump.offset, bounds.end) - max(jump.before, bounds.begin)
    if jump.offset < jump.before <= bounds.end and again:
        says = f"{jump.who} went back {went}: {_messages(again)} read again"
        yield found_in(place, group, "rewound", _member(group, place), again, jump.at_ms, text=says)
    elif passed > 0:
        says = f"{jump.who} went on {went}, when nobody was there to read: {_messages(passed)} passed over"
        yield found_in(place, group, "skipped", _member(group, place), passed, jump.at_ms, text=says)


def _messages(number: int) -> str:
    return f"{number:,} messages are" if number > 1 else "1 message is"


def _member(group: GroupFacts, place: Partition) -> str | None:
    owner = group.owners().get(place)
    return owner if owner in group.members else None
