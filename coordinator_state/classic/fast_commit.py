"""OffsetCommit of a member that commits partitions again, as nearly all do: without a step."""

from __future__ import annotations

from coordinator_state.api_versions import API_VERSIONS
from coordinator_state.causes import request_cause
from coordinator_state.classic import states, timers
from coordinator_state.classic.group import ClassicGroup
from coordinator_state.group import Group
from coordinator_state.offsets import CommittedOffset
from coordinator_state.outputs import Answer, LogRecord, RequestEvent
from coordinator_state.step import Step
from coordinator_state.timers import Timer
from schemas.history import OffsetChange, OffsetsCommitted
from schemas.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from schemas.records import NO_TIMESTAMP, encode_offset_commit, offset_commit_keys
from schemas.wire import INT32

_VERSIONS = API_VERSIONS["OffsetCommit"]
_PARTITIONS_MAX = 50
_pack = INT32.pack


def fast_commit(step: Step, event: RequestEvent, request: OffsetCommitRequest) -> bool:
    """Handle a commit for one topic that changes nothing but offsets that are there, and its member's deadline.

    False, and nothing done: it needs a step with `offset_commit`. A property test compares the two ways.
    """
    group = step.group
    if group is None or type(group.body) is not ClassicGroup or not _is_plain(group.body, event, request):
        return False
    (topic,) = request.topics
    stored = group.offsets.topics.get(topic.name)
    if stored is None or not _are_only_moved(topic, stored) or _is_full(group, step):
        return False
    body, offset, no_deadline_before_ms = group.body, event.offset, step.no_deadline_before_ms
    now_ms = max(group.now_ms, event.clock_ms)
    deadline_ms = now_ms + body.members[request.member_id].session_timeout_ms
    if now_ms >= no_deadline_before_ms or deadline_ms < no_deadline_before_ms:
        return False
    group.now_ms, group.timestamp_ms, group.is_logged = now_ms, event.timestamp_ms, True
    name, armed = timers.SESSION_PREFIX + request.member_id, group.timers
    armed.pop(name, None)
    armed[name] = Timer(deadline_ms, now_ms, offset)
    group_id, epoch, seq, outputs, envelope = group.group_id, group.epoch, group.seq, step.outputs, event.envelope
    version, topic_id, timestamp_ms = step.config.offset_commit_value_version, topic.topic_id, event.timestamp_ms
    keys, changes, answers = offset_commit_keys(group_id, topic.name), [], []
    for partition in topic.partitions:
        number, committed = partition.partition_index, partition.committed_offset
        leader_epoch = partition.committed_leader_epoch
        seq += 1
        value = encode_offset_commit(version, committed, leader_epoch, "", timestamp_ms, NO_TIMESTAMP, topic_id)
        outputs.append(LogRecord(group_id, epoch, seq, now_ms, offset, keys + _pack(number), value))
        changes.append(OffsetChange(topic.name, number, committed, stored[number].offset, leader_epoch, ""))
        stored[number] = CommittedOffset(committed, leader_epoch, "", timestamp_ms, now_ms, None, topic_id, offset)
        answers.append(OffsetCommitResponsePartition(number))
    group.seq = seq + 2
    outputs.append(
        OffsetsCommitted(
            group_id, epoch, seq + 1, now_ms, timestamp_ms, body.generation_id,
            request_cause(event, step.partition, None), body.ongoing_seq,
            member_id=request.member_id, offsets=tuple(changes),
        )
    )  # fmt: skip
    answer = OffsetCommitResponseTopic(name=topic.name, topic_id=topic_id, partitions=tuple(answers))
    outputs.append(
        Answer(
            group_id, epoch, seq + 2, now_ms, envelope.request_id, envelope.reply_partition, "OffsetCommit",
            envelope.api_version, offset, OffsetCommitResponse(topics=(answer,)),
        )
    )  # fmt: skip
    return True


def _is_plain(group: ClassicGroup, event: RequestEvent, request: OffsetCommitRequest) -> bool:
    """Return whether a member of this generation commits a few partitions of one topic, and brings nothing else."""
    envelope = event.envelope
    return (
        request.member_id in group.members
        and request.generation_id_or_member_epoch == group.generation_id >= 0
        and group.state is not states.COMPLETING_REBALANCE
        and request.group_instance_id is None
        and request.retention_time_ms == -1
        and envelope.api_version in _VERSIONS
        and not envelope.topic_metadata
        and len(request.topics) == 1
        and 0 < len(request.topics[0].partitions) <= _PARTITIONS_MAX
    )


def _is_full(group: Group, step: Step) -> bool:
    return group.size_of_offsets() > step.config.group_offsets_max_bytes


def _are_only_moved(topic: OffsetCommitRequestTopic, stored: dict[int, CommittedOffset]) -> bool:
    """Return whether each partition has an offset, and neither the old nor the new one has metadata."""
    for partition in topic.partitions:
        previous = stored.get(partition.partition_index)
        if previous is None or previous.metadata or partition.committed_metadata:
            return False
    return True
