"""An assignor gets the members and topics of a group and answers with an assignment. Source: Kafka's
`ConsumerPartitionAssignor`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from schemas.consumer_protocol import Subscription, TopicPartition


class RebalanceProtocol(Enum):
    """Members revoke all their partitions when a rebalance begins, or only those that move (KIP-429)."""

    EAGER = "eager"
    """They give up all of them before they join."""
    COOPERATIVE = "cooperative"
    """They keep them, and give up only what the new assignment takes away."""


class TopicMetadata(Struct, frozen=True, kw_only=True):
    """A topic that exists: its partitions are numbered 0 to `partition_count` - 1."""

    partition_count: int
    replica_racks: tuple[tuple[str | None, ...], ...] = ()
    """For each partition the racks of its replicas, None for a broker without one; empty when no rack is known."""

    def __post_init__(self) -> None:
        if self.partition_count < 0:
            raise ValueError(f"a topic cannot have {self.partition_count} partitions")
        if self.replica_racks and len(self.replica_racks) != self.partition_count:
            raise ValueError(f"racks of {len(self.replica_racks)} partitions for {self.partition_count} partitions")


class MemberSubscription(Struct, frozen=True, kw_only=True):
    """One member of the group, as the leader sees it in the JoinGroup response."""

    member_id: str
    subscription: Subscription
    group_instance_id: str | None = None
    """Of a static member (KIP-345)."""


Topics = Mapping[str, TopicMetadata]
"""The topics that exist, by name. Topics that nobody subscribes to are ignored."""

GroupAssignment = dict[str, list[TopicPartition]]
"""Member id -> its partitions, in the order in which Kafka's assignor lists them. Every member has an entry."""


class Assignor(Protocol):
    """Shares the partitions of topics among the members of a group: a pure function under a name.

    `assign` must depend on its arguments alone, the order of `members` included: Kafka's leader puts them into a
    `HashMap` in the order of the JoinGroup response, and members that share a bucket keep that order.
    """

    @property
    def name(self) -> str:
        """The protocol name that members offer in JoinGroup: not empty."""

    @property
    def rebalance_protocol(self) -> RebalanceProtocol:
        """The protocol that rejoining members must follow."""

    def assign(self, topics: Topics, members: Sequence[MemberSubscription]) -> GroupAssignment:
        """Give every partition of every subscribed topic to at most one subscriber.

        Subscribed topics that are not in `topics` are passed over. Raises ValueError when two members share an id.
        """

    def subscription_user_data(
        self, owned_partitions: Sequence[TopicPartition] | None, generation_id: int
    ) -> bytes | None:
        """Return the user data of a member's subscription, byte for byte as Kafka's client sends it.

        `owned_partitions` is the member's last assignment, None before the first; `generation_id` is the
        generation of that assignment, -1 before the first.
        """
