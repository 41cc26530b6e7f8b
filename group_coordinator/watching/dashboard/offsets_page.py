"""Committed offsets of a group over time. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard import api_types as api
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.lag import EndOffsets, Lag
from group_coordinator.watching.tables.record_rows import commit_rows
from schemas.history import History, OffsetsCommitted

POINTS_MAX = 240
"""So many commits of a partition are shown; those that went back are always among them."""
REWINDS_MAX = 200


class Commits:
    """The commits that are within the window."""

    def __init__(self) -> None:
        self.points: dict[Partition, list[tuple[int, int | None]]] = {}
        self.by: dict[Partition, str | None] = {}
        self.rewinds: list[dict[str, Any]] = []

    def read(self, records: Iterable[History]) -> None:
        for record in records:
            if not isinstance(record, OffsetsCommitted):
                continue
            for row in commit_rows(record):
                place = row.topic, row.partition
                self.points.setdefault(place, []).append((row.committed_ms, row.offset))
                self.by[place] = row.member_id or row.client_id
                if row.rewind:
                    self.rewinds.append(
                        {"t": row.committed_ms, "topic": row.topic, "partition": row.partition,
                         "from": row.previous_offset, "to": row.offset, "by": row.member_id, "client": row.client_id,
                         "host": row.client_host,
                         "generation": row.generation_id, "offset": row.request_offset}
                    )  # fmt: skip


def partition(
    place: Partition, owner: str | None, committed: Committed | None, ends: EndOffsets, now_ms: int, lost: int = 0
) -> api.Partition:
    """Return a partition as it is now. `lost`: so many messages are gone at least: the offset jumped over them."""
    bounds = ends.bounds.get(place)
    known = None if committed is None else ends.lag_of(place, committed, now_ms)
    lag = known or Lag(0, None, False, 0)
    return api.Partition(
        topic=place[0],
        partition=place[1],
        member_id=owner,
        committed_offset=None if committed is None else committed.offset,
        committed_ms=None if committed is None else committed.committed_ms or None,
        log_start_offset=None if bounds is None else bounds.begin,
        log_end_offset=None if bounds is None else bounds.end,
        lag=None if known is None else lag.messages,
        lag_ms=lag.behind_ms,
        lag_ms_is_at_least=lag.at_least,
        lost=max(lost, lag.gone),
        is_beyond_end=lag.beyond_end > 0,
        uncommitted_messages=bounds.end - bounds.begin if committed is None and bounds is not None else None,
        metadata="" if committed is None else committed.metadata,
    )


def over_time(
    now: api.Partition, commits: Commits, ends: EndOffsets, expires_ms: int | None
) -> api.PartitionOverTime:
    """Return the same partition with what was committed."""
    place = now.topic, now.partition
    points = _thinned(commits.points.get(place, []))
    end_times_ms, end_offsets = ends.samples(place)
    return api.PartitionOverTime(
        **structs.asdict(now),
        committed_by=commits.by.get(place),
        expires_ms=expires_ms,
        times_ms=tuple(at_ms for at_ms, _ in points),
        offsets=tuple(offset for _, offset in points),
        end_times_ms=tuple(end_times_ms),
        end_offsets=tuple(end_offsets),
    )


def _thinned(points: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    """Return evenly fewer points; the first, the last and those around a rewind stay."""
    if len(points) <= POINTS_MAX:
        return points
    step = len(points) / POINTS_MAX
    keep = {int(number * step) for number in range(POINTS_MAX)} | {len(points) - 1}
    for number in range(1, len(points)):
        before, now = points[number - 1][1], points[number][1]
        if before is not None and now is not None and now < before:
            keep |= {number - 1, number}
    return [points[number] for number in sorted(keep)]
