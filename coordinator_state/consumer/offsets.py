"""The check of a consumer group whether the sender of a commit may commit.

Source: `ConsumerGroup.validateOffsetCommit` (Kafka 4.3); KIP-848, KIP-1251.
"""

from __future__ import annotations

from coordinator_state.classic.commit import (
    TXN_MEMBER_EPOCH_VERSION,
    commit_without_group,
    txn_commit_without_group,
)
from coordinator_state.consumer.group import consumer_group
from coordinator_state.consumer.member import ConsumerMember
from coordinator_state.consumer.member_epochs import require_member, stale
from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
from schemas.messages import NO_GENERATION, OffsetCommitRequest, OffsetCommitRequestTopic, TxnOffsetCommitRequest
from schemas.transaction_messages import TxnOffsetCommitRequestTopic

MEMBER_EPOCH_VERSION = 9
"""Earlier versions of OffsetCommit know of no member epoch."""


def validate_offset_commit(step: Step, request: OffsetCommitRequest) -> None:
    """Check a commit. An older epoch is good for partitions that the member has had since then.

    It renews no session.
    """
    group, epoch = consumer_group(step.require_group()), request.generation_id_or_member_epoch
    if group.is_removed:
        commit_without_group(step, request)
        return
    if epoch < 0 and not group.members:
        return
    member = require_member(group.members, request.member_id)
    if member.classic is None and step.envelope.api_version < MEMBER_EPOCH_VERSION:
        raise Refusal(
            ErrorCode.UNSUPPORTED_VERSION, "old_version_of_a_native_member", "the version knows of no member epochs"
        )
    _require_epoch(step, request.topics, member, epoch)


def validate_txn_offset_commit(step: Step, request: TxnOffsetCommitRequest) -> None:
    """Check a commit in a transaction: as other commits, but it is taken from anybody who names no membership, in any
    version, and an epoch that is not good is an illegal generation where the version knows of no member epochs."""
    group, epoch = consumer_group(step.require_group()), request.generation_id
    if group.is_removed:
        txn_commit_without_group(step, request)
        return
    if epoch < 0 and not group.members:
        return
    if epoch == NO_GENERATION and not request.member_id and request.group_instance_id is None:
        return
    member = require_member(group.members, request.member_id)
    try:
        _require_epoch(step, request.topics, member, epoch)
    except Refusal as refusal:
        if step.envelope.api_version >= TXN_MEMBER_EPOCH_VERSION:
            raise
        raise Refusal(ErrorCode.ILLEGAL_GENERATION, refusal.rule, refusal.detail) from None


def _require_epoch(
    step: Step,
    topics: tuple[OffsetCommitRequestTopic, ...] | tuple[TxnOffsetCommitRequestTopic, ...],
    member: ConsumerMember,
    epoch: int,
) -> None:
    """Raise `Refusal` unless the epoch is the member's, or an older one in which it had all that is committed."""
    if epoch == member.member_epoch:
        return
    if epoch > member.member_epoch or not step.config.kafka_version.has_assignment_epochs:
        raise stale(member, epoch)
    for topic in topics:
        # A broker puts in the ids of topics that are named; whoever writes to the log without a gateway may not.
        topic_id = _id_of(step, topic.name) if topic.topic_id is None else topic.topic_id
        _require_assigned_since(step, topic_id, topic, member, epoch)


def _id_of(step: Step, name: str) -> str | None:
    topic = step.image.topics.get(name)
    return None if topic is None else topic.topic_id


def _require_assigned_since(
    step: Step,
    topic_id: str | None,
    topic: OffsetCommitRequestTopic | TxnOffsetCommitRequestTopic,
    member: ConsumerMember,
    epoch: int,
) -> None:
    metadata_max_units = step.config.offset_metadata_max_bytes
    topic_id = topic_id or ""
    assigned, pending = member.assigned.get(topic_id, {}), member.pending_revocation.get(topic_id, {})
    for partition in topic.partitions:
        metadata = partition.committed_metadata or ""
        if len(metadata.encode("utf-16-be", "surrogatepass")) // 2 > metadata_max_units:
            continue  # refused for itself
        number = partition.partition_index
        since = assigned.get(number, pending.get(number))
        if since is None or epoch < since:
            raise stale(member, epoch)
