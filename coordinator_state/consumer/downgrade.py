"""A consumer group whose last native member goes becomes a classic group, which rebalances.

Source: `convertToClassicGroup`, `ClassicGroup.fromConsumerGroup` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Collection

from coordinator_state.classic import states
from coordinator_state.classic import timers as classic_timers
from coordinator_state.classic.changes import Changes
from coordinator_state.classic.group import CONSUMER, ClassicGroup
from coordinator_state.classic.member import Member
from coordinator_state.classic.vote import selected_protocol
from coordinator_state.consumer import timers
from coordinator_state.consumer.assignors.java_order import timeline_order
from coordinator_state.consumer.group import ConsumerGroup, consumer_tombstone_keys
from coordinator_state.consumer.member import ConsumerMember, TargetAssignment
from coordinator_state.consumer.rebalance_history import complete
from coordinator_state.step import Step
from coordinator_state.topics_image import TopicsImage
from schemas.consumer_group_history import GroupConverted
from schemas.consumer_group_records import CURRENT_MEMBER_TYPE, MEMBER_METADATA_TYPE, TARGET_MEMBER_TYPE, named_key
from schemas.consumer_protocol import VERSION_MAX, Assignment, TopicPartition, encode_assignment
from schemas.wire import INT16


def may_downgrade(step: Step, group: ConsumerGroup, gone: Collection[str], *, joining: int = 0) -> bool:
    """Return whether the group becomes a classic one when these members are gone. `joining`: so many classic members
    take their place."""
    left = [member for member_id, member in group.members.items() if member_id not in gone]
    size = len(left) + joining
    return (
        0 < size <= step.config.group_max_size
        and all(member.classic is not None for member in left)
        and step.config.may_downgrade
    )


def downgrade(step: Step, group: ConsumerGroup, gone: Collection[str]) -> None:
    """Let the members that are left go on as a classic group."""
    left = [member for member_id, member in group.members.items() if member_id not in gone]
    classic = classic_group_of(step, group, left)
    changes = write_downgrade(step, group, tuple(group.members), classic, tuple(group.resolved_regexes))
    changes.prepare("group_converted", "the last member of the consumer protocol is gone", None)


def write_downgrade(
    step: Step, group: ConsumerGroup, member_ids: Collection[str], classic: ClassicGroup, regexes: Collection[str]
) -> Changes:
    """Write the tombstones of the consumer group, of these resolved expressions too, and the record of the classic one,
    which takes its place: returns the changes of that one."""
    group_id = step.group_id
    target_epoch, *others = consumer_tombstone_keys(group_id, regexes)
    for record_type in (CURRENT_MEMBER_TYPE, TARGET_MEMBER_TYPE):
        for member_id in member_ids:
            step.append_record(named_key(record_type, group_id, member_id), None)
    step.append_record(target_epoch, None)
    for member_id in member_ids:
        step.append_record(named_key(MEMBER_METADATA_TYPE, group_id, member_id), None)
    for key in others:
        step.append_record(key, None)
    for member_id in group.members:
        for name in timers.all_of(member_id):
            if not timers.outlives_conversion(name, classic.members):
                step.cancel(name)
    complete(step, group, "interrupted")
    step.require_group().body = classic
    changes = Changes(step, classic)
    changes.tell(GroupConverted(*changes.fields(), to_protocol="classic"))
    changes.write()
    for member in classic.members.values():
        step.arm(classic_timers.session(member.member_id), member.session_timeout_ms)
    step.note_change()
    return changes


def classic_group_of(
    step: Step, group: ConsumerGroup, members: list[ConsumerMember], joiner_id: str | None = None
) -> ClassicGroup:
    """Return the Stable classic group of these members; the first leads it. Who joins by this request comes last."""
    if step.config.group_consumer_hash_order:
        by_id = {member.member_id: member for member in members}
        in_order = [by_id[member_id] for member_id in timeline_order(by_id, group.member_table_size)]
        members = sorted(in_order, key=lambda member: member.member_id == joiner_id)
    classic = ClassicGroup(
        state=states.STABLE,
        previous_state=states.COMPLETING_REBALANCE,
        state_since_ms=step.now_ms,
        generation_id=group.group_epoch,
        regex_refresh_began_ms=group.regex_refresh_began_ms,
    )
    for member in members:
        assert member.classic is not None
        classic.add_member(
            Member(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                session_timeout_ms=member.classic.session_timeout_ms,
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                protocols=member.classic.supported_protocols,
                is_new=False,
            ),
            CONSUMER,
        )
    classic.protocol_name = selected_protocol(classic)
    for classic_member in classic.members.values():
        version = protocol_version(classic_member.metadata_of(classic.protocol_name))
        target = group.targets.get(classic_member.member_id, ())
        classic.set_assignment(classic_member, assignment_bytes(target, step.image, version))
    classic.elected_leader_id = classic.leader_id
    classic.subscribed_topics = classic.topics_of_members()
    return classic


def protocol_version(metadata: bytes) -> int:
    """Return the version of a subscription: assignments are answered in it."""
    return min(max(INT16.unpack_from(metadata)[0], 0), VERSION_MAX) if len(metadata) >= INT16.size else 0


def assignment_bytes(target: TargetAssignment, image: TopicsImage, version: int) -> bytes:
    """Return partitions as an assignment of the consumer protocol; topics that are gone are left out."""
    partitions = tuple(
        TopicPartition(image.names[topic_id], partition)
        for topic_id, numbers in sorted(target)
        if topic_id in image.names
        for partition in sorted(numbers)
    )
    return encode_assignment(Assignment(partitions=partitions), version)
