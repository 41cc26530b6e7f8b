"""The end of a producer's transaction: what is pending of the producer in the group is committed or forgotten.

Source: `OffsetMetadataManager.replayEndTransactionMarker` (Kafka 4.3). Kafka's log has the pending offsets and the
marker. Ours gets the offsets when they are committed, as plain records: its readers see no offset that does not count.
"""

from __future__ import annotations

from coordinator_state.offsets import CommittedOffset, offset_bytes, utf8_bytes
from coordinator_state.retention import chunks, note_commits
from coordinator_state.step import Step
from schemas.events import TransactionEnded
from schemas.history import OffsetChange, OffsetsCommitted
from schemas.records import NO_TIMESTAMP, encode_offset_commit, encode_offset_commit_key
from schemas.transaction_history import TransactionalOffsetsAborted, TransactionalOffsetsReplaced

_NeverCounted = type[TransactionalOffsetsAborted] | type[TransactionalOffsetsReplaced]


def end_transaction(step: Step, ended: TransactionEnded) -> None:
    """Commit or forget what is pending of the producer. The producer's epoch does not matter, as in Kafka."""
    group = step.require_group()
    if group.offsets.has_seen(ended.log):
        return
    group.offsets.note_seen(ended.log)
    published = group.offsets.pending_only
    taken = group.offsets.take_pending(ended.producer_id) if group.offsets.has_pending else []
    if not taken:
        return
    if published:
        step.assignment_changed = True
    group_bytes = utf8_bytes(group.group_id)
    for topic, _, pending in taken:
        group.grow_offsets(-offset_bytes(group_bytes + utf8_bytes(topic), pending.metadata))
    step.retention_changed = True
    if ended.committed:
        _commit(step, ended, taken)
    else:
        _tell(step, ended, TransactionalOffsetsAborted, [_change(step, *entry) for entry in taken])


def _commit(step: Step, ended: TransactionEnded, taken: list[tuple[str, int, CommittedOffset]]) -> None:
    """Make offsets the committed ones, but where a commit that came after them in the log has stored another."""
    offsets = step.require_group().offsets
    changes: list[OffsetChange] = []
    replaced: list[OffsetChange] = []
    for topic, partition, pending in taken:
        change, previous = _change(step, topic, partition, pending), offsets.get(topic, partition)
        if previous is not None and _is_later(previous, pending):
            replaced.append(change)
        else:
            _put(step, topic, partition, pending, previous)
            changes.append(change)
    for chunk in chunks(changes):
        step.append_history(OffsetsCommitted(*step.history_fields(), member_id=None, offsets=chunk))
    _tell(step, ended, TransactionalOffsetsReplaced, replaced)


def _is_later(committed: CommittedOffset, pending: CommittedOffset) -> bool:
    """Return whether the committed offset came later in the log. One without a place in it came before all others."""
    assert pending.log_offset is not None
    return committed.log_offset is not None and committed.log_offset > pending.log_offset


def _put(step: Step, topic: str, partition: int, pending: CommittedOffset, previous: CommittedOffset | None) -> None:
    """Store an offset with the time of its commit, from which its retention counts, and write its record."""
    group = step.require_group()
    value = encode_offset_commit(
        step.config.offset_commit_value_version, pending.offset, pending.leader_epoch, pending.metadata,
        pending.commit_timestamp_ms, NO_TIMESTAMP, pending.topic_id,
    )  # fmt: skip
    step.append_record(encode_offset_commit_key(step.group_id, topic, partition), value)
    group.offsets.put(topic, partition, pending)
    key_bytes = utf8_bytes(group.group_id) + utf8_bytes(topic)
    group.grow_offsets(offset_bytes(key_bytes, pending.metadata))
    if previous is not None:
        group.grow_offsets(-offset_bytes(key_bytes, previous.metadata))
    note_commits(step, topic, int(previous is None), None)
    retention = group.retention[topic]
    retention.oldest_committed_ms = min(retention.oldest_committed_ms, pending.committed_ms)


def _change(step: Step, topic: str, partition: int, pending: CommittedOffset) -> OffsetChange:
    """Return what a pending offset is beside the committed one."""
    committed = step.require_group().offsets.get(topic, partition)
    previous_offset = None if committed is None else committed.offset
    return OffsetChange(topic, partition, pending.offset, previous_offset, pending.leader_epoch, pending.metadata)


def _tell(step: Step, ended: TransactionEnded, kind: _NeverCounted, changes: list[OffsetChange]) -> None:
    """Write history of offsets that do not count."""
    for chunk in chunks(changes):
        step.append_history(
            kind(
                *step.history_fields(),
                producer_id=ended.producer_id,
                producer_epoch=ended.producer_epoch,
                offsets=chunk,
            )
        )
