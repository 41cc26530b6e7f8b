"""A consumer group as it is published on the assignments topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_state.consumer.member import ConsumerMember, PartitionsWithEpochs
from coordinator_state.group import Group
from coordinator_state.topics_image import NO_TOPICS, TopicsImage
from schemas.history import AssignedTopic, GroupSnapshot, MemberIdentity, SnapshotMember, SnapshotSubscription

if TYPE_CHECKING:
    from coordinator_state.consumer.group import ConsumerGroup


def snapshot(body: ConsumerGroup, group: Group, seq: int) -> GroupSnapshot:
    """Return the group as the assignments topic shows it; the generation is its epoch."""
    return GroupSnapshot(
        group_id=group.group_id,
        epoch=group.epoch,
        seq=seq,
        time_ms=group.now_ms,
        timestamp_ms=group.timestamp_ms,
        state=body.last_state,
        state_since_ms=body.state_since_ms,
        generation_id=body.group_epoch,
        protocol_type=body.protocol_type,
        protocol_name=None,
        leader_id=None,
        members=tuple([_member(member, group.topics or NO_TOPICS) for member in body.members.values()]),
        subscription=_subscription(body, group.topics or NO_TOPICS),
    )


def _subscription(body: ConsumerGroup, image: TopicsImage) -> SnapshotSubscription:
    resolved = body.resolved_regexes
    return SnapshotSubscription(
        topics=tuple(sorted(body.name_counts)),
        regexes={regex: resolved[regex].topics if regex in resolved else None for regex in sorted(body.regex_counts)},
        resolving_since_ms=body.regex_refresh_began_ms,
        metadata_hash=body.metadata_hash,
        topics_version=image.version,
    )


def _member(member: ConsumerMember, image: TopicsImage) -> SnapshotMember:
    return SnapshotMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=-1 if member.classic is None else member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        metadata=b"",
        assignment=b"",
        partitions=assigned_topics(member.assigned, image),
    )


def assigned_topics(partitions: PartitionsWithEpochs, image: TopicsImage) -> tuple[AssignedTopic, ...]:
    """Return partitions by the names of their topics; a topic that is gone goes by its id."""
    by_name = {image.names.get(topic_id, topic_id): sorted(epochs) for topic_id, epochs in partitions.items()}
    return tuple([AssignedTopic(topic=name, partitions=tuple(by_name[name])) for name in sorted(by_name)])


def identity(member: ConsumerMember) -> MemberIdentity:
    """Return who a member is, as history names it."""
    return MemberIdentity(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
