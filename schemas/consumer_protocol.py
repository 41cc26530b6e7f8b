"""The consumer protocol: the subscription and assignment blobs inside JoinGroup and SyncGroup, versions 0-3.

Source: Kafka's ConsumerProtocolSubscription.json and ConsumerProtocolAssignment.json; KIP-429, KIP-792, KIP-881.
"""

from __future__ import annotations

from typing import NamedTuple

from msgspec import Struct


class TopicPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    partition: int


class Subscription(Struct, frozen=True, kw_only=True):
    """What a member tells the leader: JoinGroup's metadata of a protocol of type `consumer`."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[TopicPartition, ...] = ()
    """Version 1: what a cooperative member holds while it joins (KIP-429)."""
    generation_id: int = -1
    """Version 2: the generation in which it held them; -1 for none (KIP-792)."""
    rack_id: str | None = None
    """Version 3: the member's rack (KIP-881)."""


class Assignment(Struct, frozen=True, kw_only=True):
    """What the leader gives a member: the partitions, in the assignor's order."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes | None = None
