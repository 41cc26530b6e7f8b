"""TxnOffsetCommit: API key 28, versions 0-6 (2: leader epoch; 3: membership; 5: the transaction begins by it;
6: topics by id).

The transaction coordinator has nothing to do with it here: whoever sends the request has asked it before.
Source: `OffsetMetadataManager.commitTransactionalOffset` (Kafka 4.3).
"""

from __future__ import annotations

from msgspec import UNSET

from coordinator_state.errors import require_group_id
from coordinator_state.kind import GroupKind
from coordinator_state.offsets import CommittedOffset
from coordinator_state.refused import record_refusal
from coordinator_state.requests.offset_commit import growth_of, refusal_of
from coordinator_state.retention import chunks
from coordinator_state.step import Step
from schemas.history import OffsetChange
from schemas.messages import TxnOffsetCommitRequest, TxnOffsetCommitResponse
from schemas.transaction_history import TransactionalOffsetsPending
from schemas.transaction_messages import (
    TXN_TOPIC_IDS_VERSION,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


def txn_offset_commit(step: Step, kind: GroupKind, request: TxnOffsetCommitRequest) -> None:
    """Keep offsets until the producer's transaction ends (`transactions`). The committed offsets stay as they are."""
    if not request.topics:
        step.respond(TxnOffsetCommitResponse())
        return
    require_group_id(request.group_id)
    if step.group is not None:
        if step.group.offsets.has_seen(request.log):
            return
        step.group.offsets.note_seen(request.log)
    kind.validate_txn_offset_commit(step, request)
    step.require_group().offsets.note_seen(request.log)
    changes: list[OffsetChange] = []
    published = step.require_group().offsets.pending_only
    answers = tuple([_keep_topic(step, request.producer_id, topic, changes) for topic in request.topics])
    if changes:
        # Kafka has a record of it in its log from now on.
        step.require_group().is_logged = True
        step.retention_changed = True
        if step.require_group().offsets.pending_only != published:
            step.assignment_changed = True  # whoever watches topics must know of them
    for chunk in chunks(changes):
        step.append_history(
            TransactionalOffsetsPending(
                *step.history_fields(),
                producer_id=request.producer_id,
                producer_epoch=request.producer_epoch,
                offsets=chunk,
                transactional_id=request.transactional_id,
            )
        )
    step.respond(TxnOffsetCommitResponse(topics=answers))


def _keep_topic(
    step: Step, producer_id: int, topic: TxnOffsetCommitRequestTopic, changes: list[OffsetChange]
) -> TxnOffsetCommitResponseTopic:
    """Keep or refuse each partition, in order: each finds the room that those before it left. Returns the answer."""
    offsets, name = step.require_group().offsets, topic.name
    topic_id = topic.topic_id if step.config.kafka_version.transactional_commits_have_topic_ids else None
    answers = []
    for partition in topic.partitions:
        number, metadata = partition.partition_index, partition.committed_metadata or ""
        room = step.config.group_offsets_max_bytes - step.require_group().size_of_offsets()
        growth = growth_of(step, name, offsets.pending_of(name, number).get(producer_id), metadata)
        refusal = refusal_of(step, name, number, metadata, has_room=growth <= max(room, 0))
        if refusal is not None:
            record_refusal(step, refusal)
            answers.append(TxnOffsetCommitResponsePartition(number, refusal.error_code))
            continue
        offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
        pending = CommittedOffset(
            offset, leader_epoch, metadata, step.timestamp_ms, step.now_ms, None, topic_id, step.offset
        )
        offsets.put_pending(name, number, producer_id, pending)
        step.require_group().grow_offsets(growth)
        committed = offsets.get(name, number)
        previous_offset = None if committed is None else committed.offset
        changes.append(OffsetChange(name, number, offset, previous_offset, leader_epoch, metadata))
        answers.append(TxnOffsetCommitResponsePartition(number))
    by_id = step.envelope.api_version >= TXN_TOPIC_IDS_VERSION
    return TxnOffsetCommitResponseTopic(
        name=name, topic_id=topic.topic_id if by_id else UNSET, partitions=tuple(answers)
    )
