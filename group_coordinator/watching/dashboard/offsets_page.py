"""Committed offsets of a group over time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.lag import EndOffsets
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


def offset_documents(
    commits: Commits,
    offsets: Mapping[Partition, Committed],
    ends: EndOffsets,
    now_ms: int,
    expires_ms: Mapping[Partition, int],
    uncommitted: Iterable[Partition] = (),
    lost: Mapping[Partition, int] | None = None,
) -> list[dict[str, Any]]:
    """Return a document for each partition that has, or had, an offset, or was assigned; by topic and number.

    `lost`: messages that are gone where that is more than what the offset shows: it has jumped over the log's begin.
    """
    documents = []
    for place in sorted({*offsets, *commits.points, *uncommitted}):
        committed, bounds = offsets.get(place), ends.bounds.get(place)
        lag = None if committed is None else ends.lag(place, committed.offset, now_ms, committed.committed_ms)
        points = _thinned(commits.points.get(place, []))
        times, highs = ends.samples(place)
        documents.append(
            {
                "topic": place[0],
                "partition": place[1],
                "offset": None if committed is None else committed.offset,
                "committed": None if committed is None else committed.committed_ms,
                "metadata": "" if committed is None else committed.metadata,
                "by": commits.by.get(place),
                "lag": None if lag is None else lag.messages,
                "lag_ms": None if lag is None else lag.behind_ms,
                "lag_at_least": lag is not None and lag.at_least,
                "lost": max((lost or {}).get(place, 0), 0 if lag is None else lag.gone),
                "up_to": bounds.end - bounds.begin if committed is None and bounds is not None else None,
                "moved": None if committed is None else committed.moved_ms,
                "begin": None if bounds is None else bounds.begin,
                "end": None if bounds is None else bounds.end,
                "beyond_end": lag is not None and lag.beyond_end > 0,
                "expires": expires_ms.get(place),
                "times": [at_ms for at_ms, _ in points],
                "offsets": [offset for _, offset in points],
                "end_times": times,
                "ends": highs,
            }
        )
    return documents


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
