"""A classic group with members becomes a consumer group: its members go on as members of the classic protocol.

Source: `convertToConsumerGroup`, `ConsumerGroup.fromClassicGroup` (Kafka 4.3).
"""

from __future__ import annotations

from coordinator_state import timers as group_timers
from coordinator_state.classic.changes import Changes as ClassicChanges
from coordinator_state.classic.group import CONSUMER, ClassicGroup
from coordinator_state.classic.member import Member
from coordinator_state.consumer import timers
from coordinator_state.consumer.assignors.java_order import timeline_order
from coordinator_state.consumer.changes import Changes
from coordinator_state.consumer.group import ConsumerGroup
from coordinator_state.consumer.member import ClassicMemberMetadata, ConsumerMember, TargetAssignment
from coordinator_state.consumer.subscription import hash_of
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_protocol import decode_assignment, decode_subscription
from schemas.error_codes import ErrorCode
from schemas.java_hash import java_map_order, java_string_order
from schemas.messages import SyncGroupResponse
from schemas.wire import DecodeError


def upgrade(step: Step, classic: ClassicGroup) -> Changes:
    """Begin the change to a consumer group. Raises `Refusal`; parked requests are answered even then, as in Kafka,
    unless `group_consumer_bug_fixes_enable`."""
    config = step.config
    is_small = len(classic.members) <= config.group_consumer_max_size
    if not config.may_upgrade or classic.protocol_type != CONSUMER or not is_small:
        raise _refusal(ErrorCode.GROUP_ID_NOT_FOUND, "the group is a classic group and stays one")
    changes = Changes(step, ConsumerGroup(), is_new=True)
    if config.group_consumer_bug_fixes_enable:
        changes.answer_first = lambda: _answer_parked(step, classic)
    else:
        _answer_parked(step, classic)
    for key in classic.tombstone_keys(step.group_id):
        changes.append(key, None)
    order = java_map_order(classic.members) if config.group_consumer_hash_order else classic.members
    by_id = {member_id: _member(classic, classic.members[member_id], step.image) for member_id in order}
    members = list(by_id.values())
    _require_one_owner(members)
    if config.group_consumer_hash_order:
        # Kafka makes the group of the classic one first, and then anew of the records that it writes for it.
        members = [by_id[member_id] for member_id in timeline_order(by_id, len(by_id))]
    group = changes.group
    group.group_epoch = group.assignment_epoch = classic.generation_id
    for member in members:
        group.put_member(member)
        group.put_target(member.member_id, _target(member))
        changes.put_member(member)
    group.metadata_hash = hash_of(group.subscribed_topics, step.image)
    changes.put_epoch(group.group_epoch, group.metadata_hash, ["converted"])
    for member in members:
        changes.put_target(member.member_id, _target(member))
    changes.put_target_epoch(group.assignment_epoch, 0)
    changes.narrator.target(group.assignment_epoch, None)
    for member in members:
        changes.put_current(member)
    changes.narrator.converted("consumer", members)
    changes.cancelled += [
        name
        for name in step.require_group().timers
        if name != group_timers.OFFSETS_EXPIRY and not timers.outlives_conversion(name, classic.members)
    ]
    for member in members:
        if member.classic is not None:
            changes.armed[timers.session(member.member_id)] = member.classic.session_timeout_ms
    return changes


def _answer_parked(step: Step, classic: ClassicGroup) -> None:
    """Whoever waits for a rebalance is told that there is another."""
    changes = ClassicChanges(step, classic)
    for member in classic.members.values():
        if member.awaiting_join is not None:
            changes.refuse_join(member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
            classic.park_join(member, None)
        if member.awaiting_sync is not None:
            changes.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))


def _member(classic: ClassicGroup, member: Member, image: TopicsImage) -> ConsumerMember:
    generation, protocol_name = classic.generation_id, classic.protocol_name
    if protocol_name is None or protocol_name not in dict(member.protocols):
        raise _refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "the classic group has not chosen a protocol yet")
    try:
        subscription = decode_subscription(member.metadata_of(protocol_name))
        assignment = decode_assignment(member.assignment) if member.assignment else None
    except DecodeError as error:
        detail = f"what member {member.member_id:.300} sent is no consumer's: {error}"
        raise _refusal(ErrorCode.GROUP_ID_NOT_FOUND, detail) from None
    if assignment is not None and assignment.user_data:
        raise _refusal(ErrorCode.GROUP_ID_NOT_FOUND, "an assignment has data of a custom assignor")
    assigned: dict[str, dict[int, int]] = {}
    for topic, partition in () if assignment is None else assignment.partitions:
        if topic in image.topics:
            assigned.setdefault(image.topics[topic].topic_id, {})[partition] = generation
    return ConsumerMember(
        member.member_id,
        member_epoch=generation,
        previous_member_epoch=generation,
        assigned=assigned,
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=tuple(sorted(set(subscription.topics), key=java_string_order)),
        classic=ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
    )


def _target(member: ConsumerMember) -> TargetAssignment:
    return tuple([(topic_id, tuple(epochs)) for topic_id, epochs in member.assigned.items()])


def _require_one_owner(members: list[ConsumerMember]) -> None:
    owned: set[tuple[str, int]] = set()
    for member in members:
        for topic_id, epochs in member.assigned.items():
            for partition in epochs:
                if (topic_id, partition) in owned:
                    raise _refusal(ErrorCode.UNKNOWN_SERVER_ERROR, "two members of the classic group own one partition")
                owned.add((topic_id, partition))


def _refusal(error_code: ErrorCode, detail: str) -> Refusal:
    return Refusal(error_code, "classic_group_stays", detail)
