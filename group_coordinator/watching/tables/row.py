"""What all rows of groups have."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Moment = Annotated[int, Meta(description="milliseconds since 1970")]
"""A point in time. Plain integers ending in `_ms` are durations."""


class Row(Struct, frozen=True, kw_only=True):
    """What every row of a group has."""

    group_id: str
    """The group."""
    epoch: int
    """Which life of the group: the offset of the event that began it. A group that died and came back has another."""
    seq: int
    """Number of the history record that began this row, within (group_id, epoch)."""
