"""What a published consumer group says of its subscription: part of `schemas.history.GroupSnapshot`."""

from __future__ import annotations

from msgspec import Struct


class SnapshotSubscription(Struct, frozen=True, kw_only=True, gc=False):
    """What the members of a consumer group subscribe to, and what the group knows of it."""

    topics: tuple[str, ...]
    """Those that a member names."""
    regexes: dict[str, tuple[str, ...] | None]
    """Expression -> the topics that match, as the group was told; null: it has not been told."""
    resolving_since_ms: int | None
    """The group waits since then, by its clock, to be told which topics match; null: it does not."""
    metadata_hash: int
    """Kafka's hash of the subscribed topics as the group took them in last."""
    topics_version: int
    """The last version of the cluster's topics that the group was told of; -1: of none."""
