"""A member offers its assignors when it joins, and assigns with one of them when it leads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from group_coordinator.coordinating.assignors import Assignor, MemberSubscription, RebalanceProtocol, TopicMetadata
from schemas.consumer_protocol import (
    Assignment,
    Subscription,
    TopicPartition,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from schemas.messages import JoinGroupProtocol, JoinGroupResponseMember, SyncGroupAssignment
from schemas.wire import DecodeError

PROTOCOL_TYPE = "consumer"


def assignors_named(names: Sequence[str], assignors: Mapping[str, Assignor]) -> tuple[Assignor, ...]:
    """Return the assignors of these names. Raises ValueError for a name that none has."""
    unknown = [name for name in names if name not in assignors]
    if unknown:
        raise ValueError(f"there is no assignor {unknown[0]!r}; there are {', '.join(assignors)}")
    return tuple(assignors[name] for name in names)


def common_rebalance_protocol(assignors: Sequence[Assignor]) -> RebalanceProtocol:
    """Return cooperative only if all assignors are, since any of them may be chosen (KIP-429)."""
    if all(assignor.rebalance_protocol is RebalanceProtocol.COOPERATIVE for assignor in assignors):
        return RebalanceProtocol.COOPERATIVE
    return RebalanceProtocol.EAGER


class LastAssignment:
    """The member's last assignment: the assignors that are sticky put it into their user data."""

    def __init__(self) -> None:
        self.partitions: tuple[TopicPartition, ...] | None = None
        self.generation_id = -1

    def remember(self, partitions: tuple[TopicPartition, ...], generation_id: int) -> None:
        self.partitions = partitions
        self.generation_id = generation_id


def offered_protocols(
    assignors: Sequence[Assignor],
    topics: Sequence[str],
    owned: Sequence[TopicPartition],
    generation_id: int,
    last: LastAssignment,
    rack_id: str,
) -> tuple[JoinGroupProtocol, ...]:
    """Return the protocols of a JoinGroup: for each assignor the member's subscription with the assignor's data."""
    return tuple(
        JoinGroupProtocol(
            name=assignor.name,
            metadata=encode_subscription(
                Subscription(
                    topics=tuple(topics),
                    user_data=assignor.subscription_user_data(last.partitions, last.generation_id),
                    owned_partitions=tuple(owned),
                    generation_id=generation_id,
                    rack_id=rack_id or None,
                )
            ),
        )
        for assignor in assignors
    )


def group_subscriptions(members: Sequence[JoinGroupResponseMember]) -> tuple[MemberSubscription, ...]:
    """Return the members' subscriptions.

    A member whose subscription cannot be read gets nothing, and the others get their partitions; Kafka's leader would
    fail.
    """
    return tuple(
        MemberSubscription(
            member_id=member.member_id,
            subscription=_subscription(member.metadata),
            group_instance_id=member.group_instance_id,
        )
        for member in members
    )


def group_topics(subscriptions: Sequence[MemberSubscription]) -> tuple[str, ...]:
    """Return all topics that a member of the group subscribes to, sorted."""
    return tuple(sorted({topic for member in subscriptions for topic in member.subscription.topics}))


def assign(
    assignor: Assignor, subscriptions: Sequence[MemberSubscription], partition_counts: Mapping[str, int]
) -> tuple[SyncGroupAssignment, ...]:
    """Return the leader's assignment in the form of a SyncGroup. Topics without partitions do not exist."""
    topics = {
        topic: TopicMetadata(partition_count=partition_counts[topic])
        for topic in group_topics(subscriptions)
        if partition_counts.get(topic)
    }
    return tuple(
        SyncGroupAssignment(member_id=member_id, assignment=encode_assignment(Assignment(partitions=tuple(partitions))))
        for member_id, partitions in assignor.assign(topics, subscriptions).items()
    )


def _subscription(metadata: bytes) -> Subscription:
    try:
        return decode_subscription(metadata)
    except DecodeError:
        return Subscription(topics=())
