"""Which group, and which member of it, a heartbeat is about. Source: `getOrCreateOrConvertConsumerGroup`,
`getOrMaybeSubscribeDynamicConsumerMember`, `getOrMaybeSubscribeStaticConsumerMember` (Kafka 4.3)."""

from __future__ import annotations

from msgspec.structs import replace

from coordinator_state.classic.group import ClassicGroup
from coordinator_state.consumer import timers
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.group import ConsumerGroup, new_group
from coordinator_state.consumer.member import LEFT_STATIC_EPOCH, NEW_MEMBER_EPOCH, ConsumerMember
from coordinator_state.consumer.upgrade import upgrade
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from coordinator_state.timers import OFFSETS_EXPIRY
from schemas.consumer_group_messages import JOIN_EPOCH, ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode


def find_group(step: Step, joins: bool) -> Changes:
    """Return the consumer group. Who joins makes one of nothing, and of a classic group."""
    group = step.group
    body = None if group is None else group.body
    if type(body) is ConsumerGroup and not body.is_removed:
        return Changes(step, body)
    if not joins:
        raise not_found(step)
    if type(body) is ClassicGroup and not body.is_empty:
        return upgrade(step, body)
    changes = Changes(step, new_group(step.config.kafka_version), is_new=True)
    if type(body) is ClassicGroup:
        for key in body.tombstone_keys(step.group_id):
            changes.append(key, None)
        changes.cancelled += [name for name in step.require_group().timers if name != OFFSETS_EXPIRY]
        changes.narrator.converted("consumer")
    return changes


def not_found(step: Step) -> Refusal:
    """Return the refusal of a request for a consumer group that is not there."""
    return Refusal(
        ErrorCode.GROUP_ID_NOT_FOUND,
        "no_consumer_group",
        "there is no such group" if step.group is None else "the group is no consumer group",
    )


def find_member(changes: Changes, request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    """Return the member that a heartbeat speaks for, known or new. A static one may take the place of another."""
    if request.instance_id is None:
        return _dynamic(changes.group, request, member_id)
    return _static(changes, request, member_id, request.instance_id)


def _dynamic(group: ConsumerGroup, request: ConsumerGroupHeartbeatRequest, member_id: str) -> ConsumerMember:
    member = group.members.get(member_id)
    if member is None:
        if request.member_epoch != JOIN_EPOCH:
            raise unknown_member(member_id)
        return ConsumerMember(member_id)
    _require_epoch(member, request)
    return member


def _static(
    changes: Changes, request: ConsumerGroupHeartbeatRequest, member_id: str, instance_id: str
) -> ConsumerMember:
    group = changes.group
    if request.member_epoch == JOIN_EPOCH:
        present = static_member(group, instance_id)
        if present is None:
            return group.members.get(member_id) or ConsumerMember(member_id)
        if present.classic is None and present.member_epoch != LEFT_STATIC_EPOCH:
            raise Refusal(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                "instance_id_is_in_use",
                f"the instance id {instance_id!r:.300} is that of member {present.member_id!r:.300}, which has not "
                "left",
            )
        return replace_static(changes, present, member_id)
    member = require_static(group, member_id, instance_id)
    _require_epoch(member, request)
    return member


def replace_static(changes: Changes, old: ConsumerMember, member_id: str) -> ConsumerMember:
    """Let a static member go on under another id, or the same, with all that it has."""
    copy = replace(
        old, member_id=member_id, member_epoch=NEW_MEMBER_EPOCH, previous_member_epoch=NEW_MEMBER_EPOCH
    )
    target = changes.group.targets.get(old.member_id, ())
    changes.remove_member(old.member_id)
    changes.put_member(copy)
    changes.put_target(member_id, target)
    changes.put_current(copy)
    changes.narrator.replaced(old, copy)
    if member_id != old.member_id:
        changes.cancelled += timers.all_of(old.member_id)  # Kafka leaves them: they find nobody
    return copy


def static_member(group: ConsumerGroup, instance_id: str) -> ConsumerMember | None:
    """Return the member that has an instance id, or has had it: the id that a member changes for another one stays its
    own. Raises `Refusal` if that member is gone, as Kafka does (`ConsumerGroup.staticMember`)."""
    owner = group.static_members.get(instance_id)
    if owner is None:
        return None
    if owner not in group.members:
        raise unknown_member(owner)
    return group.members[owner]


def require_static(group: ConsumerGroup, member_id: str, instance_id: str) -> ConsumerMember:
    """Return the member of an instance id, which must have this member id."""
    member = static_member(group, instance_id)
    if member is None:
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID, "unknown_instance", f"no member has the instance id {instance_id!r:.300}"
        )
    if member.member_id != member_id:
        raise Refusal(
            ErrorCode.FENCED_INSTANCE_ID,
            "instance_belongs_to_another_member",
            f"the instance id {instance_id!r:.300} belongs to member {member.member_id!r:.300}",
        )
    return member


def unknown_member(member_id: str) -> Refusal:
    return Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "unknown_member", f"the group has no member {member_id!r:.300}")


def fenced_epoch(detail: str) -> Refusal:
    return Refusal(ErrorCode.FENCED_MEMBER_EPOCH, "member_epoch_differs", detail)


def _require_epoch(member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> None:
    """The member's epoch, or 0; or the previous one, if the member owns no more than it may: an answer was lost."""
    epoch = request.member_epoch
    if epoch in (JOIN_EPOCH, member.member_epoch):
        return
    if epoch > member.member_epoch:
        raise fenced_epoch(f"the request is of epoch {epoch}, the member is in {member.member_epoch}")
    owned, assigned = request.topic_partitions, member.assigned
    if (
        epoch != member.previous_member_epoch
        or owned is None
        or not all(
            partition in assigned.get(topic.topic_id, ()) for topic in owned for partition in topic.partitions
        )
    ):
        raise fenced_epoch(
            f"the request is of epoch {epoch}, the member is in {member.member_epoch} and was in "
            f"{member.previous_member_epoch}"
        )
