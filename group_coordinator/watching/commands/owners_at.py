"""Who owned what at a moment, as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from group_coordinator.command_line.tables import aligned
from group_coordinator.watching.dashboard.lanes import Lane, Past
from group_coordinator.watching.narrative import words
from group_coordinator.watching.tables.fold import rows_of_group
from group_coordinator.watching.tables.rows import Ownership
from schemas.history import History

_NOBODY = {"unowned": "nobody", "empty": "nobody: the group was empty", "not_known": "not known"}


def owners_at(history: Sequence[History], at_ms: int, zone: tzinfo) -> Iterator[str]:
    """Yield who owned which partitions of a group; nothing where no source says so of any partition."""
    past = Past(history)
    partitions: dict[tuple[str, ...], list[int]] = {}
    for lane in past.lanes(rows_of_group(history), max(past.last_ms, at_ms)):
        owner = _owner(lane, at_ms, zone)
        if owner is not None:
            partitions.setdefault((lane.topic, *owner), []).append(lane.partition)
    if not partitions:
        return
    yield f"Owners at {words.precise_clock(at_ms, zone)}:"
    yield from aligned(
        ("TOPIC", "PARTITIONS", "OWNER", "HOST", "SINCE"),
        [(topic, words.ranges(numbers), *owner) for (topic, *owner), numbers in partitions.items()],
    )


def _owner(lane: Lane, at_ms: int, zone: tzinfo) -> tuple[str, str, str] | None:
    """Return owner, host and since when; None: the group did not read the partition then."""
    for row in lane.owned:
        if row.from_ms <= at_ms and (row.to_ms is None or at_ms < row.to_ms):
            return words.name(row.member_id), row.client_host or "-", _since(row, zone)
    kinds = [gap.kind for gap in lane.gaps if gap.from_ms <= at_ms and (gap.to_ms is None or at_ms < gap.to_ms)]
    return (_NOBODY[kinds[0]], "-", "-") if kinds else None


def _since(row: Ownership, zone: tzinfo) -> str:
    return f"{words.day(row.from_ms, zone)} {words.clock(row.from_ms, zone)}"
