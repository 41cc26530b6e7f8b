"""Who owned what at a moment, as data and as lines. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo

from msgspec import Struct

from group_coordinator.command_line.tables import aligned
from group_coordinator.watching.dashboard.lanes import Lane, Past
from group_coordinator.watching.narrative import words
from group_coordinator.watching.tables.fold import rows_of_group
from schemas.history import History

_NOBODY = {"unowned": "nobody", "empty": "nobody: the group was empty", "not_known": "not known"}


class OwnerAt(Struct, frozen=True, kw_only=True):
    """Who owned a partition at a moment."""

    topic: str
    partition: int
    member_id: str | None = None
    client_host: str | None = None
    since_ms: int | None = None
    without_owner: str | None = None
    """`unowned`, `empty` (the group had no members) or `not_known`."""


def is_within(at_ms: int, from_ms: int, to_ms: int | None) -> bool:
    """Return whether a moment is between two; `to_ms` None: there is no end yet."""
    return from_ms <= at_ms and (to_ms is None or at_ms < to_ms)


def owners_at(history: Sequence[History], at_ms: int) -> list[OwnerAt]:
    """Return who owned the partitions of a group; nothing where no source says so of any partition."""
    past = Past(history)
    lanes = past.lanes(rows_of_group(history), max(past.last_ms, at_ms))
    return [owner for lane in lanes if (owner := _owner(lane, at_ms)) is not None]


def owner_lines(owners: Sequence[OwnerAt], at_ms: int, zone: tzinfo) -> Iterator[str]:
    """Yield them as a table, one line for all partitions of a topic that have the same owner."""
    if not owners:
        return
    partitions: dict[tuple[str, ...], list[int]] = {}
    for owner in owners:
        partitions.setdefault((owner.topic, *_cells(owner, zone)), []).append(owner.partition)
    yield f"Owners at {words.precise_clock(at_ms, zone)}:"
    yield from aligned(
        ("TOPIC", "PARTITIONS", "OWNER", "HOST", "SINCE"),
        [(topic, words.ranges(numbers), *cells) for (topic, *cells), numbers in partitions.items()],
    )


def _owner(lane: Lane, at_ms: int) -> OwnerAt | None:
    """Return None where the group did not read the partition then."""
    for row in lane.owned:
        if is_within(at_ms, row.from_ms, row.to_ms):
            return OwnerAt(
                topic=lane.topic, partition=lane.partition, member_id=row.member_id, client_host=row.client_host,
                since_ms=row.from_ms,
            )  # fmt: skip
    for gap in lane.gaps:
        if is_within(at_ms, gap.from_ms, gap.to_ms):
            return OwnerAt(topic=lane.topic, partition=lane.partition, without_owner=gap.kind)
    return None


def _cells(owner: OwnerAt, zone: tzinfo) -> tuple[str, str, str]:
    if owner.member_id is None or owner.since_ms is None:
        return _NOBODY[owner.without_owner or "not_known"], "-", "-"
    since = f"{words.day(owner.since_ms, zone)} {words.clock(owner.since_ms, zone)}"
    return words.name(owner.member_id), owner.client_host or "-", since
