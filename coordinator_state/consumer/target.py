"""The target assignment: when it is computed, for whom, and what is written of it.

Source: `maybeUpdateTargetAssignment`, `TargetAssignmentBuilder` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from coordinator_state.consumer.assignors import (
    AssignorError,
    AssignorGroup,
    AssignorMember,
    AssignorTopic,
    ServerAssignor,
    SubscriptionType,
    server_assignor,
)
from coordinator_state.consumer.assignors.java_order import assignor_member_order, subscribed_topic_id_order
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.configuration import assignment_interval_ms
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ConsumerMember, TargetAssignment
from coordinator_state.consumer.preferred_assignor import preferred_assignor
from coordinator_state.consumer.subscription import SubscriptionUpdate
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.error_codes import ErrorCode
from schemas.java_hash import java_map_order


class Target(NamedTuple):
    """What a member shall own, and from which epoch on."""

    epoch: int
    assignment: TargetAssignment


def update_target(changes: Changes, updated: ConsumerMember, subscription: SubscriptionUpdate) -> Target:
    """Compute the target assignment if the group epoch is ahead of it and its interval is over. Raises `Refusal`."""
    group, step = changes.group, changes.step
    if group.assignment_epoch >= subscription.epoch or _is_too_early(changes):
        return Target(group.assignment_epoch, _target_before(group, updated))
    assignor = preferred_assignor(group, updated, step.config.consumer_assignors)
    members = _members(changes, updated, in_hash_order=step.config.group_consumer_hash_order)
    try:
        assigned = _assignor(step, assignor).assign(
            _assignor_group(changes, members, subscription.subscription_type)
        )
    except AssignorError as error:
        raise Refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "no_target_assignment",
            f"there is no target assignment for epoch {subscription.epoch}: {error!s:.1000}",
        ) from error
    targets = _targets_before(group, updated) if step.config.kafka_version.instance_keeps_target else group.targets
    for member_id in members:
        target = assigned.get(member_id, ())
        before = targets.get(member_id)
        if before is None or not _are_the_same(target, before):
            changes.put_target(member_id, target)
    changes.put_target_epoch(subscription.epoch, step.now_ms)
    changes.narrator.target(subscription.epoch, assignor)
    return Target(subscription.epoch, assigned.get(updated.member_id, ()))


def _assignor(step: Step, name: str) -> ServerAssignor:
    """Return an assignor. A member may still ask for one that the settings have had. Raises `AssignorError`."""
    if name not in step.config.consumer_assignors:
        raise AssignorError(f"members ask for {name!r}, which group.consumer.assignors does not have any more")
    return server_assignor(name)


def _is_too_early(changes: Changes) -> bool:
    """Return whether the last target assignment is not yet as old as the interval."""
    if not changes.step.config.kafka_version.has_assignment_interval:
        return False
    interval_ms, computed_ms = assignment_interval_ms(changes.step), changes.group.assignment_timestamp_ms
    return bool(computed_ms and interval_ms) and changes.step.now_ms < computed_ms + interval_ms


def _targets_before(group: ConsumerGroup, updated: ConsumerMember) -> Mapping[str, TargetAssignment]:
    """Return the stored targets, with a predecessor's as that of the static member that takes its place."""
    predecessor = group.static_members.get(updated.instance_id or "", updated.member_id)
    if predecessor == updated.member_id or predecessor not in group.targets:
        return group.targets
    return {**group.targets, updated.member_id: group.targets[predecessor]}


def _target_before(group: ConsumerGroup, updated: ConsumerMember) -> TargetAssignment:
    """Return the stored target of a member. That of a static one is its instance's: one that has just got its instance
    id has none, until the next one is computed (`ModernGroup.targetAssignment`)."""
    if updated.instance_id is not None and updated.instance_id not in group.static_members:
        return ()
    return group.target_of(updated.member_id, updated.instance_id)


def _members(
    changes: Changes, updated: ConsumerMember | None, *, in_hash_order: bool
) -> dict[str, ConsumerMember]:
    """Return the members with the one that changes in its place, at the end if it is new.

    `in_hash_order`: as a broker's assignors see them.
    """
    group = changes.group
    members = dict(group.members)
    joining = None
    if updated is not None:
        replaced = group.static_members.get(updated.instance_id) if updated.instance_id is not None else None
        if replaced is not None and replaced != updated.member_id:
            del members[replaced]
        joining = None if updated.member_id in members else updated.member_id
        members[updated.member_id] = updated
    if not in_hash_order:
        return members
    present = [member_id for member_id in members if member_id != joining]
    if changes.is_new:  # the members of a conversion are in the order of the group that was made first
        order = java_map_order(present if joining is None else [*present, joining])
    else:
        order = assignor_member_order(present, group.member_table_size, joining)
    return {member_id: members[member_id] for member_id in order}


def _assignor_group(changes: Changes, members: Mapping[str, ConsumerMember], kind: SubscriptionType) -> AssignorGroup:
    group, image = changes.group, changes.image
    by_subscription: dict[tuple[tuple[str, ...], str], tuple[tuple[str, ...], int]] = {}
    """Most members of a group subscribe alike: what is the same is computed once, and is one object."""
    assignor_members = []
    for member in members.values():
        subscription = member.subscribed_topic_names, member.subscribed_topic_regex
        known = by_subscription.get(subscription)
        if known is None:
            known = by_subscription[subscription] = _subscribed_topic_ids(group, member, image)
        target = group.target_of(member.member_id, member.instance_id)
        assignor_members.append(
            AssignorMember(member.member_id, known[0], target, member.instance_id, member.rack_id, known[1])
        )
    subscribed = frozenset().union(*(topic_ids for topic_ids, _ in by_subscription.values()))
    topics = {
        topic.topic_id: AssignorTopic(topic.partition_count, topic.racks)
        for topic in image.topics.values()
        if topic.topic_id in subscribed
    }
    saves_extras = changes.step.config.kafka_version.saves_extras
    return AssignorGroup(tuple(assignor_members), topics, kind, saves_extras)


def _subscribed_topic_ids(
    group: ConsumerGroup, member: ConsumerMember, image: TopicsImage
) -> tuple[tuple[str, ...], int]:
    """Return the ids of a member's topics that exist, and how many of its topics do not."""
    names, topics = subscribed_names(group, member), image.topics
    topic_ids = subscribed_topic_id_order(names, {name: topics[name].topic_id for name in names if name in topics})
    return topic_ids, len(names) - len(topic_ids)


def subscribed_names(group: ConsumerGroup, member: ConsumerMember) -> tuple[str, ...]:
    """Return the topics that a member subscribes to, by name or by an expression that is resolved."""
    resolved = group.resolved_regexes.get(member.subscribed_topic_regex)
    if resolved is None:
        return member.subscribed_topic_names
    return tuple(dict.fromkeys((*member.subscribed_topic_names, *resolved.topics)))


def _are_the_same(target: TargetAssignment, before: TargetAssignment) -> bool:
    """Return whether two targets have the same partitions, in whatever order."""
    return target is before or target == before or _as_sets(target) == _as_sets(before)


def _as_sets(target: TargetAssignment) -> dict[str, frozenset[int]]:
    return {topic_id: frozenset(partitions) for topic_id, partitions in target}
