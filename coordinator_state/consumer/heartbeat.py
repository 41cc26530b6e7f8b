"""A heartbeat of a member that is, or wants to be, in the group: membership, subscription, epochs, target, ownership.

Source: `GroupMetadataManager.consumerGroupHeartbeat` (Kafka 4.3). The order of the steps is the order of the records.
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator_state.classic.join_group import member_uuid
from coordinator_state.consumer import timers
from coordinator_state.consumer.configuration import heartbeat_interval_ms, session_timeout_ms
from coordinator_state.consumer.group import ConsumerGroup, consumer_group
from coordinator_state.consumer.member import ConsumerMember, MemberState, PartitionsWithEpochs
from coordinator_state.consumer.membership import find_group, find_member
from coordinator_state.consumer.ownership import reconcile_member
from coordinator_state.consumer.regexes import begin_refresh, begins_refresh
from coordinator_state.consumer.subscription import update_subscription
from coordinator_state.consumer.target import update_target
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    ConsumerGroupAssignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from schemas.error_codes import ErrorCode
from schemas.java_hash import java_string_order

NO_TIMEOUT = -1

Owned = dict[str, frozenset[int]]
"""Topic id -> partitions that a member says it owns."""


def member_heartbeat(step: Step, request: ConsumerGroupHeartbeatRequest) -> None:
    """Handle a heartbeat that does not leave: every accepted one restarts the member's session."""
    changes = find_group(step, request.member_epoch == JOIN_EPOCH)
    require_room(step, changes.group, request.member_id, request.instance_id)
    member_id = request.member_id or _new_member_id(step)
    member = find_member(changes, request, member_id)
    updated = _updated(step, member, request)
    if member.classic is not None and step.config.group_consumer_bug_fixes_enable:
        changes.cancelled += [timers.join(member_id), timers.sync(member_id)]
    owned = owned_partitions(request)
    subscription = update_subscription(changes, member, updated)
    target = update_target(changes, updated, subscription)
    reconciled = reconcile_member(changes, updated, target, subscription.changed, owned)
    resolves_regexes = begins_refresh(changes, subscription)
    changes.require_size(member_id)
    group = consumer_group(changes.commit())
    if resolves_regexes:
        begin_refresh(step, group)
    step.arm(timers.session(member_id), session_timeout_ms(step))
    if reconciled is not updated:
        time_revocation(step, reconciled)
    step.respond(
        ConsumerGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=reconciled.member_epoch,
            heartbeat_interval_ms=heartbeat_interval_ms(step),
            assignment=_assignment(reconciled.assigned) if _tells_assignment(request, member, reconciled) else None,
        )
    )


def require_room(step: Step, group: ConsumerGroup, member_id: str, instance_id: str | None) -> None:
    """`group.consumer.max.size`. It goes by the request's member id, and of some versions by its instance id."""
    most = step.config.group_consumer_max_size
    if len(group.members) < most or member_id in group.members:
        return
    is_known = instance_id is not None and instance_id in group.static_members
    if not (is_known and step.config.kafka_version.full_group_takes_known_instances):
        raise Refusal(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            "group_is_full",
            f"the group has as many members as group.consumer.max.size allows ({most})",
        )


def _new_member_id(step: Step) -> str:
    """Version 0: the coordinator makes the id (docs/architecture.md, rule 11)."""
    envelope = step.envelope
    return envelope.new_member_id or member_uuid(envelope.request_id)


def _updated(step: Step, member: ConsumerMember, request: ConsumerGroupHeartbeatRequest) -> ConsumerMember:
    """Return the member as the request has it; it speaks the consumer protocol now."""
    envelope, names = step.envelope, request.subscribed_topic_names
    regex, timeout_ms = request.subscribed_topic_regex, request.rebalance_timeout_ms
    updated = replace(
        member,
        instance_id=member.instance_id if request.instance_id is None else request.instance_id,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        server_assignor=member.server_assignor if request.server_assignor is None else request.server_assignor,
        subscribed_topic_names=member.subscribed_topic_names if names is None else name_set(names),
        subscribed_topic_regex=member.subscribed_topic_regex if regex is None else regex,
        client_id=envelope.client_id,
        client_host=envelope.client_host,
        classic=None,
    )
    return member if updated == member else updated


def name_set(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return topic names as a member has them: each once, in Java's order."""
    return tuple(sorted(set(names), key=java_string_order))


def owned_partitions(request: ConsumerGroupHeartbeatRequest) -> Owned | None:
    """Return what the member says it owns; None: it does not say."""
    if request.topic_partitions is None:
        return None
    owned: dict[str, frozenset[int]] = {}
    for topic in request.topic_partitions:
        owned[topic.topic_id] = owned.get(topic.topic_id, frozenset()) | frozenset(topic.partitions)
    return owned


def time_revocation(step: Step, member: ConsumerMember) -> None:
    """A native member that must give up partitions has its rebalance timeout for it, from each change on."""
    name = timers.rebalance(member.member_id)
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        step.arm(name, member.rebalance_timeout_ms)
    else:
        step.cancel(name)


def _tells_assignment(
    request: ConsumerGroupHeartbeatRequest, before: ConsumerMember, after: ConsumerMember
) -> bool:
    """Return whether the answer has the assignment: after a join, after a full request, and when it changed."""
    is_full = (
        request.rebalance_timeout_ms != NO_TIMEOUT
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.topic_partitions is not None
    )
    return request.member_epoch == JOIN_EPOCH or is_full or before.assigned != after.assigned


def _assignment(assigned: PartitionsWithEpochs) -> ConsumerGroupAssignment:
    return ConsumerGroupAssignment(
        topic_partitions=tuple([
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(assigned[topic_id])))
            for topic_id in sorted(assigned)
        ])
    )
