"""Partitions whose messages are deleted before they are read, and when that will be. Pure.

Messages are lost where the committed offset lies before the begin of the log. They soon will be where the offset lies
in the older half of the log, and goes on slower than the log's begin does: as many messages a second as the log has on
average over its age. The begin moves in segments, so this is an estimate.

A consumer whose offset is gone goes on elsewhere at once, mostly at the begin, and soon commits that. So offsets in the
older half are looked at from poll to poll: one that the begin has passed, and that went on much faster than before,
has jumped.
"""

from __future__ import annotations

from collections.abc import Iterator

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.watching.dashboard.committed import Committed, NearBegin
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.findings import Finding, found_in
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.settings import HealthSettings

MARKERS_MAX = 10
"""So few offsets at the end of a log may have been ends of transactions, which no consumer commits."""
JUMPS = 3
"""So many times farther than between the polls before an offset goes that jumps."""
REMEMBERED_MS = 3_600_000
"""So long after the last message was lost in passing it is told."""
_PURGED = "-repartition"
"""Such topics' messages are deleted by the Kafka Streams application that has read them."""


def lost_and_losing(group: GroupFacts, ends: EndOffsets, settings: HealthSettings) -> Iterator[Finding]:
    """Yield the group's partitions that lose messages as of the last poll, or soon will."""
    owners = None
    for place, committed in group.offsets.items():
        bounds = ends.bounds.get(place)
        is_old = bounds is not None and committed.offset - bounds.begin < (bounds.end - bounds.begin) / 2
        if not is_old and place not in group.near_begin:
            continue
        owners = group.owners() if owners is None else owners
        member = owners.get(place)
        if bounds is None or (owners and member is None):
            continue  # nobody reads this topic any more
        reader = member if member in group.members else None
        yield from _look(group, place, committed, bounds, reader, ends, settings)


def _look(
    group: GroupFacts,
    place: Partition,
    committed: Committed,
    bounds: Bounds,
    member: str | None,
    ends: EndOffsets,
    settings: HealthSettings,
) -> Iterator[Finding]:
    near = _near_begin(group, place, committed, bounds, ends.polled_ms)
    gone = bounds.gone(committed.offset)
    if gone <= MARKERS_MAX and bounds.begin == bounds.end:
        gone = 0
    since_ms = ends.passed_ms(place, committed.offset) if gone else committed.moved_ms
    if near.lost:
        since_ms = near.since_ms
    elif not gone:
        in_ms = _loses_in_ms(place, committed, bounds, ends, settings)
        if in_ms is None:
            return
        yield found_in(place, group, "will_lose", member, bounds.unread(committed.offset), since_ms, in_ms=in_ms)
        return
    yield found_in(place, group, "lost", member, near.lost + gone, since_ms)


def _near_begin(group: GroupFacts, place: Partition, committed: Committed, bounds: Bounds, now_ms: int) -> NearBegin:
    """Return the offset as it is near the begin of its log, and remember it for the next poll."""
    near, offset = group.near_begin.get(place), committed.offset
    if near is None:
        near = NearBegin(offset, now_ms, -1.0)  # it may be fast
    elif near.polled_ms < now_ms:
        passed_ms = now_ms - near.polled_ms
        passed_over = bounds.begin - near.offset if near.offset < bounds.begin <= offset else 0
        if near.per_ms >= 0 and passed_over > max(JUMPS * near.per_ms * passed_ms, MARKERS_MAX):
            near = NearBegin(offset, now_ms, near.per_ms, near.lost + passed_over, near.since_ms or now_ms, now_ms)
        else:
            near = near._replace(offset=offset, polled_ms=now_ms, per_ms=(offset - near.offset) / passed_ms)
    if near.lost and now_ms - near.last_ms > REMEMBERED_MS:
        near = NearBegin(offset, now_ms, near.per_ms)
    group.near_begin[place] = near
    if not near.lost and offset - bounds.begin >= (bounds.end - bounds.begin) / 2:
        del group.near_begin[place]
    return near


def _loses_in_ms(
    place: Partition, committed: Committed, bounds: Bounds, ends: EndOffsets, settings: HealthSettings
) -> int | None:
    """Return in how long, if that is near; None: it is not, or cannot be told."""
    if bounds.begin == 0 or bounds.unread(committed.offset) == 0 or place[0].endswith(_PURGED):
        return None
    before_ms, before_offset = committed.moment_before()
    if ends.polled_ms - before_ms < settings.stalled_after_ms:
        return None  # how fast it goes on is not known yet
    reach = ends.reach(place)
    if reach is None or reach.first_ms is None or reach.first_ms >= ends.polled_ms:
        return None
    read_per_ms = (committed.offset - before_offset) / (ends.polled_ms - before_ms)
    deleted_per_ms = (bounds.end - bounds.begin) / (ends.polled_ms - reach.first_ms)
    if read_per_ms >= deleted_per_ms:
        return None
    in_ms = int((committed.offset - bounds.begin) / (deleted_per_ms - read_per_ms))
    return in_ms if in_ms <= settings.losing_warning_ms else None
