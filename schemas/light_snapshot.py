"""A published group, decoded as far as those need it who look at every group: most of its bytes are skipped over."""

from __future__ import annotations

from typing import Generic, TypeVar

from msgspec import Struct

from schemas.group_metadata_events import GroupConfiguration
from schemas.snapshot_subscription import SnapshotSubscription

Members = TypeVar("Members")


class LightSnapshot(Struct, Generic[Members], frozen=True, gc=False):
    """A `schemas.history.GroupSnapshot`. Each reader says what it needs of the `Members`, which may have megabytes."""

    group_id: str
    state: str
    members: Members
    state_since_ms: int = 0
    protocol_type: str | None = None
    epoch: int = -1
    seq: int = -1
    subscription: SnapshotSubscription | None = None
    """Of a consumer group."""
    configuration: GroupConfiguration | None = None
    pending_topics: tuple[str, ...] = ()
