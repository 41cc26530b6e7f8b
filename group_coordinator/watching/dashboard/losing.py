"""Partitions whose messages are deleted before they are read, and when that will be. Pure.

Messages are lost where the committed offset lies before the begin of the log. They soon will be where the offset lies
in the older half of the log, and goes on slower than the log's begin does: as many messages a second as the log has on
average over its age. The begin moves in segments, so this is an estimate.
"""

from __future__ import annotations

from collections.abc import Iterator

from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.findings import Finding
from group_coordinator.watching.dashboard.lag import EndOffsets
from group_coordinator.watching.dashboard.settings import HealthSettings

MARKERS_MAX = 10
"""So few offsets at the end of a log may have been ends of transactions, which no consumer commits."""
_PURGED = "-repartition"
"""Such topics' messages are deleted by the Kafka Streams application that has read them."""


def lost_and_losing(group: GroupFacts, ends: EndOffsets, settings: HealthSettings) -> Iterator[Finding]:
    """Yield the group's partitions that lose messages as of the last poll, or soon will."""
    owners = None
    for place, committed in group.offsets.items():
        bounds = ends.bounds.get(place)
        if bounds is None or committed.offset - bounds.begin >= (bounds.end - bounds.begin) / 2:
            continue
        owners = group.owners() if owners is None else owners
        member = owners.get(place)
        if owners and member is None:
            continue  # nobody reads this topic any more
        lost, in_ms = bounds.gone(committed.offset), None
        if not lost:
            in_ms = _loses_in_ms(place, committed, bounds, ends, settings)
            if in_ms is None:
                continue
        elif lost <= MARKERS_MAX and bounds.begin == bounds.end:
            continue
        yield Finding(
            kind="lost" if lost else "will_lose",
            topic=place[0],
            partition=place[1],
            member=member if member in group.members else None,
            offset=committed.offset,
            messages=lost or bounds.unread(committed.offset),
            since=ends.passed_ms(place, committed.offset) if lost else committed.moved_ms,
            in_ms=in_ms,
        )


def _loses_in_ms(
    place: Partition, committed: Committed, bounds: Bounds, ends: EndOffsets, settings: HealthSettings
) -> int | None:
    """Return in how long, if that is near; None: it is not, or cannot be told."""
    if bounds.begin == 0 or place[0].endswith(_PURGED):
        return None  # nothing was ever deleted there
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
