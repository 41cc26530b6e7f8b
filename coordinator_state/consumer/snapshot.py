"""A consumer group as it is published on the assignments topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from coordinator_state.config import GroupConfig
from coordinator_state.consumer import timers
from coordinator_state.consumer.group import ConsumerGroup, consumer_group
from coordinator_state.consumer.member import ConsumerMember, MemberState
from coordinator_state.consumer.preferred_assignor import preferred_assignor
from coordinator_state.group import Group
from coordinator_state.topics_image import NO_TOPICS, TopicsImage
from schemas.history import (
    AssignedTopic,
    GroupSnapshot,
    MemberIdentity,
    SnapshotConsumerMember,
    SnapshotMember,
    SnapshotSubscription,
)

State = Literal["stable", "unrevoked_partitions", "unreleased_partitions", "unknown"]
_STATES: dict[MemberState, State] = {
    MemberState.STABLE: "stable",
    MemberState.UNREVOKED_PARTITIONS: "unrevoked_partitions",
    MemberState.UNRELEASED_PARTITIONS: "unreleased_partitions",
    MemberState.UNKNOWN: "unknown",
}


def snapshot(group: Group, seq: int, config: GroupConfig) -> GroupSnapshot:
    """Return the group as the assignments topic shows it; the generation is its epoch."""
    body = consumer_group(group)
    image = group.topics or NO_TOPICS
    return GroupSnapshot(
        group_id=group.group_id,
        epoch=group.epoch,
        seq=seq,
        time_ms=group.now_ms,
        timestamp_ms=group.timestamp_ms,
        state=body.last_state,
        state_since_ms=body.state_since_ms,
        generation_id=body.group_epoch,
        assignment_epoch=body.assignment_epoch,
        protocol_type=body.protocol_type,
        protocol_name=preferred_assignor(body, None, config.consumer_assignors),
        leader_id=None,
        members=tuple([_member(body, group, member, image) for member in body.members.values()]),
        subscription=_subscription(body, image),
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


def _member(body: ConsumerGroup, group: Group, member: ConsumerMember, image: TopicsImage) -> SnapshotMember:
    owned = {topic_id: set(epochs) for topic_id, epochs in member.assigned.items()}
    for topic_id, epochs in member.pending_revocation.items():
        owned.setdefault(topic_id, set()).update(epochs)
    return SnapshotMember(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=-1 if member.classic is None else member.classic.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        metadata=b"",
        assignment=b"",
        partitions=assigned_topics(owned, image),
        consumer=_consumer(body, group, member, owned, image),
    )


def _consumer(
    body: ConsumerGroup, group: Group, member: ConsumerMember, owned: dict[str, set[int]], image: TopicsImage
) -> SnapshotConsumerMember:
    targets = body.targets.get(member.member_id, ())
    target = {topic_id: set(partitions) for topic_id, partitions in targets if partitions}
    return SnapshotConsumerMember(
        member_epoch=member.member_epoch,
        previous_member_epoch=member.previous_member_epoch,
        state=state_name(member),
        target=None if target == owned else assigned_topics(target, image),
        pending_revocation=assigned_topics(member.pending_revocation, image),
        revoking_since_ms=_revoking_since_ms(group, member),
        subscribed_topics=member.subscribed_topic_names,
        subscribed_regex=member.subscribed_topic_regex or None,
        server_assignor=member.server_assignor,
        rack_id=member.rack_id,
        uses_classic_protocol=member.uses_classic_protocol,
    )


def _revoking_since_ms(group: Group, member: ConsumerMember) -> int | None:
    """The timer by which a member must give up partitions, or a classic one rejoin, was armed when it was told to."""
    if not member.pending_revocation:
        return None
    name = timers.join(member.member_id) if member.uses_classic_protocol else timers.rebalance(member.member_id)
    timer = group.timers.get(name)
    return None if timer is None else timer.armed_ms


def state_name(member: ConsumerMember) -> State:
    """Return a member's state as history and the assignments topic name it."""
    return _STATES[member.state]


def assigned_topics(partitions: Mapping[str, Iterable[int]], image: TopicsImage) -> tuple[AssignedTopic, ...]:
    """Return partitions by the names that their topics have or had. A topic that was made again is one with the earlier
    one of its name."""
    by_name: dict[str, set[int]] = {}
    for topic_id, numbers in partitions.items():
        by_name.setdefault(image.name_of(topic_id), set()).update(numbers)
    return tuple([AssignedTopic(topic=name, partitions=tuple(sorted(by_name[name]))) for name in sorted(by_name)])


def identity(member: ConsumerMember) -> MemberIdentity:
    """Return who a member is, as history names it."""
    return MemberIdentity(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
    )
