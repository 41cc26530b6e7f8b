"""JoinGroup to a consumer group: a member of the classic protocol joins, or joins again, and is answered at once.

Source: `classicGroupJoinToConsumerGroup` (Kafka 4.3).
"""

from __future__ import annotations

from msgspec.structs import replace

from coordinator_state.classic.changes import begin_group
from coordinator_state.classic.join_group import join_group as join_classic_group
from coordinator_state.classic.join_group import member_uuid, protocols_of, validate_join
from coordinator_state.classic.member import Protocols
from coordinator_state.consumer import timers
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.downgrade import classic_group_of, may_downgrade, write_downgrade
from coordinator_state.consumer.group import ConsumerGroup, consumer_group
from coordinator_state.consumer.heartbeat import NO_TIMEOUT, Owned, name_set, require_room
from coordinator_state.consumer.member import ClassicMemberMetadata, ConsumerMember
from coordinator_state.consumer.membership import replace_static, require_static, static_member
from coordinator_state.consumer.ownership import reconcile_member
from coordinator_state.consumer.regexes import begin_refresh, begins_refresh
from coordinator_state.consumer.subscription import update_subscription
from coordinator_state.consumer.target import update_target
from coordinator_state.errors import Refusal
from coordinator_state.offset_log import append_group_tombstones
from coordinator_state.step import Step
from schemas.consumer_group_history import GroupConverted
from schemas.consumer_protocol import Subscription, decode_subscription
from schemas.error_codes import ErrorCode
from schemas.history import GroupStable
from schemas.messages import JoinGroupRequest, JoinGroupResponse
from schemas.wire import DecodeError

CONSUMER = "consumer"
_REBALANCE_TIMEOUT_VERSION = 1
"""In version 0 a broker puts the session timeout in its place (`JoinGroupRequest.maybeOverrideRebalanceTimeout`)."""
_MEMBER_ID_REQUIRED_VERSION = 4


def join_group(step: Step, request: JoinGroupRequest) -> None:
    """Let a classic member into the group. An Empty group becomes a classic one instead."""
    validate_join(step.config, request)
    group = consumer_group(step.require_group())
    if not group.members:
        _begin_classic_group(step, request)
        return
    protocols = protocols_of(request)
    try:
        _join(step, group, request, protocols)
    except Refusal as refusal:
        refusal.echo_member_id = False
        raise


def _begin_classic_group(step: Step, request: JoinGroupRequest) -> None:
    """The consumer group's records go, its offsets stay."""
    if request.member_id:
        detail = "the group is empty, so there is no such member"
        if not step.config.group_consumer_bug_fixes_enable:
            consumer_group(step.require_group()).is_removed = True
            step.note_change()
            detail += "; with that the group is gone, as in Kafka, but for its offsets"
        raise Refusal(ErrorCode.UNKNOWN_MEMBER_ID, "unknown_group", detail)
    append_group_tombstones(step)
    changes = begin_group(step)
    changes.write()
    changes.lead(GroupConverted(*changes.fields(), to_protocol="classic"))
    join_classic_group(step, request)


def _join(step: Step, group: ConsumerGroup, request: JoinGroupRequest, protocols: Protocols) -> None:
    has_none = step.envelope.api_version < _REBALANCE_TIMEOUT_VERSION
    if has_none or (request.rebalance_timeout_ms == NO_TIMEOUT and step.config.group_consumer_bug_fixes_enable):
        request = replace(request, rebalance_timeout_ms=request.session_timeout_ms)
    _require_classic_members(step, group, request, protocols)
    envelope = step.envelope
    member_id = request.member_id or envelope.new_member_id or member_uuid(envelope.request_id)
    if not request.member_id and request.group_instance_id is None and (
        envelope.api_version >= _MEMBER_ID_REQUIRED_VERSION
    ):
        step.respond(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id))
        return
    changes, epoch_before, before = Changes(step, group), group.group_epoch, group.members.get(member_id)
    regexes_before = tuple(group.resolved_regexes)
    replaced = _replaced(group, request)
    member = _find_member(changes, request, member_id)
    subscription = _subscription(step, protocols)
    updated = _updated(step, member, request, protocols, subscription)
    update = update_subscription(changes, member, updated, any_regex_change_bumps=True)
    is_native = replaced is not None and replaced.classic is None
    downgrades = replaced is not None and is_native and may_downgrade(step, group, {replaced.member_id}, joining=1)
    if downgrades and replaced is not None:
        _require_instance_of_its_own(step, replaced, request)
    if downgrades and update.epoch > group.assignment_epoch:
        reconciled = updated
    else:
        target = update_target(changes, updated, update)
        reconciled = reconcile_member(changes, updated, target, update.changed, _owned(step, subscription))
    resolves_regexes = step.config.kafka_version.classic_join_ends_regex and begins_refresh(changes, update)
    changes.require_size(member_id)
    changes.commit()
    if resolves_regexes:
        begin_refresh(step, group)
    if downgrades:
        _downgrade(step, consumer_group(step.require_group()), member_id, epoch_before, regexes_before)
    else:
        step.cancel(timers.join(member_id))
        if before is not None and before.member_epoch != reconciled.member_epoch:
            step.cancel(timers.rebalance(member_id))  # it is bound to the epoch that the native member had
        step.arm(timers.session(member_id), request.session_timeout_ms)
        step.arm(timers.sync(member_id), request.rebalance_timeout_ms)
    step.respond(
        JoinGroupResponse(
            generation_id=reconciled.member_epoch,
            protocol_type=CONSUMER,
            protocol_name=protocols[0][0],
            member_id=member_id,
        )
    )


def _require_classic_members(
    step: Step, group: ConsumerGroup, request: JoinGroupRequest, protocols: Protocols
) -> None:
    if not step.config.takes_classic_members:
        raise _no_common_protocol("group.consumer.migration.policy is disabled")
    require_room(step, group, request.member_id, request.group_instance_id)
    count, counts = group.classic_member_count, group.classic_protocol_counts
    if request.protocol_type != CONSUMER or not any(counts[name] == count for name, _ in protocols):
        raise _no_common_protocol("the classic members of the group do not all list a protocol that the request lists")


def _no_common_protocol(detail: str) -> Refusal:
    return Refusal(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "no_common_protocol", detail)


def _replaced(group: ConsumerGroup, request: JoinGroupRequest) -> ConsumerMember | None:
    """Return the static member whose place is taken, which may be the same member."""
    if request.group_instance_id is None:
        return None
    return static_member(group, request.group_instance_id)


def _find_member(changes: Changes, request: JoinGroupRequest, member_id: str) -> ConsumerMember:
    group, instance_id = changes.group, request.group_instance_id
    if instance_id is None:
        return group.members.get(member_id) or ConsumerMember(member_id)
    if request.member_id:
        return require_static(group, member_id, instance_id)
    present = static_member(group, instance_id)
    return ConsumerMember(member_id) if present is None else replace_static(changes, present, member_id)


def _require_instance_of_its_own(step: Step, replaced: ConsumerMember, request: JoinGroupRequest) -> None:
    """The native member must have the instance id that it is replaced by, and not have given it up for another one:
    Kafka does not see then that the member goes, and finds no classic protocols of it."""
    if replaced.instance_id != request.group_instance_id and not step.config.group_consumer_bug_fixes_enable:
        raise Refusal(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            "consumer_group_stays",
            f"member {replaced.member_id!r:.300} has another instance id by now",
        )


def _subscription(step: Step, protocols: Protocols) -> Subscription:
    try:
        return decode_subscription(protocols[0][1])
    except DecodeError as error:
        is_inconsistent = step.config.kafka_version.malformed_subscription_is_inconsistent
        raise Refusal(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL if is_inconsistent else ErrorCode.UNKNOWN_SERVER_ERROR,
            "malformed_subscription",
            f"the subscription cannot be read: {error}",
        ) from None


def _updated(
    step: Step, member: ConsumerMember, request: JoinGroupRequest, protocols: Protocols, subscription: Subscription
) -> ConsumerMember:
    envelope = step.envelope
    timeout_ms = request.rebalance_timeout_ms
    ends_regex = step.config.kafka_version.classic_join_ends_regex
    return replace(
        member,
        instance_id=member.instance_id if request.group_instance_id is None else request.group_instance_id,
        rack_id=member.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == NO_TIMEOUT else timeout_ms,
        client_id=envelope.client_id,
        client_host=envelope.client_host,
        subscribed_topic_names=name_set(subscription.topics),
        subscribed_topic_regex="" if ends_regex else member.subscribed_topic_regex,
        classic=ClassicMemberMetadata(request.session_timeout_ms, protocols),
    )


def _owned(step: Step, subscription: Subscription) -> Owned:
    """Return what the member says it owns; topics that are not known are left out."""
    owned: dict[str, set[int]] = {}
    topics = step.image.topics
    for topic, partition in subscription.owned_partitions:
        if topic in topics:
            owned.setdefault(topics[topic].topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in owned.items()}


def _downgrade(
    step: Step, group: ConsumerGroup, joiner_id: str, generation_id: int, regexes: tuple[str, ...]
) -> None:
    """The joiner took the place of the last native member: the group goes on as a classic one.

    As in Kafka its generation is the group's epoch before the request, and the tombstones are those of the group before
    the request: that of an expression that the request gave up is there again.
    """
    is_ahead = group.group_epoch > group.assignment_epoch
    classic = classic_group_of(step, group, list(group.members.values()), joiner_id)
    classic.generation_id = generation_id
    changes = write_downgrade(step, group, tuple(group.members), classic, regexes)
    if is_ahead:
        changes.prepare("group_converted", f"{joiner_id:.300} took the place of the last native member", None)
    else:
        leader_id, protocol_name = classic.leader_id or "", classic.protocol_name
        changes.tell(
            GroupStable(
                *changes.fields(), leader_id=leader_id, protocol_name=protocol_name, members=tuple(classic.members)
            )
        )
