"""OffsetCommit: API key 8, versions 2-10 (2-4: own retention; 6: leader epoch; 7: instance id; 9: KIP-848 codes; 10: topic ids)."""

from __future__ import annotations

from coordinator_state import timers
from coordinator_state.errors import Refusal, require_generation, require_member
from coordinator_state.offset_log import append_offset
from coordinator_state.offsets import CommittedOffset
from coordinator_state.rebalance import told_of_rebalance
from coordinator_state.retention import chunks, put_offset
from coordinator_state.states import GroupState
from coordinator_state.turn import Turn
from schemas.error_codes import ErrorCode
from schemas.history import GroupCreated, OffsetChange, OffsetsCommitted
from schemas.messages import (
    NO_GENERATION,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

GROUP_ID_NOT_FOUND_VERSION = 9
OWN_RETENTION_VERSIONS = range(2, 5)
TOPIC_NAME_MAX_CHARACTERS = 249
"""Kafka's longest topic name (`Topic.MAX_NAME_LENGTH`); a longer one cannot exist."""


def offset_commit(turn: Turn, request: OffsetCommitRequest) -> None:
    """Store offsets, for a member of the current generation or (an Empty group) for anybody."""
    if not request.topics:
        turn.answer(OffsetCommitResponse())
        return
    _require_committer(turn, request)
    changes: list[OffsetChange] = []
    topics = tuple(
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=tuple(
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index,
                    error_code=_commit(turn, request, topic, partition, changes),
                )
                for partition in topic.partitions
            ),
        )
        for topic in request.topics
    )
    for chunk in chunks(changes):
        turn.tell(OffsetsCommitted, member_id=request.member_id or None, offsets=chunk)
    turn.answer(OffsetCommitResponse(topics=topics))


def offset_commit_error(request: OffsetCommitRequest, error_code: ErrorCode) -> OffsetCommitResponse:
    """Every partition carries the code."""
    return OffsetCommitResponse(
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=error_code)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )


def _require_committer(turn: Turn, request: OffsetCommitRequest) -> None:
    """Kafka's checks, in its order; a commit without a group creates a simple one."""
    assert turn.event is not None
    group = turn.group
    generation_id = request.generation_id_or_member_epoch
    if group is None:
        if generation_id >= 0:
            code = (
                ErrorCode.GROUP_ID_NOT_FOUND
                if turn.event.envelope.api_version >= GROUP_ID_NOT_FOUND_VERSION
                else ErrorCode.ILLEGAL_GENERATION
            )
            raise Refusal(code, "unknown_group", "there is no such group, so no such generation")
        turn.create_group()
        turn.cause_seq = turn.tell(GroupCreated)
        return
    if generation_id <= NO_GENERATION and group.state is GroupState.EMPTY:
        return
    if generation_id <= NO_GENERATION and not request.member_id and request.group_instance_id is None:
        raise Refusal(
            ErrorCode.UNKNOWN_MEMBER_ID, "commit_without_membership", "the group has members; only they may commit"
        )
    member = require_member(group, request.member_id, request.group_instance_id)
    require_generation(group, generation_id)
    if group.state is GroupState.COMPLETING_REBALANCE:
        told_of_rebalance(turn, member.member_id)
        raise Refusal(
            ErrorCode.REBALANCE_IN_PROGRESS, "commit_before_sync", "the member has not yet got its assignment of this generation"
        )
    turn.arm(timers.session(member.member_id), member.session_timeout_ms)


def _commit(
    turn: Turn,
    request: OffsetCommitRequest,
    topic: OffsetCommitRequestTopic,
    partition: OffsetCommitRequestPartition,
    changes: list[OffsetChange],
) -> ErrorCode:
    metadata = partition.committed_metadata or ""
    refusal = _refusal(turn, topic, partition, metadata)
    if refusal is not None:
        turn.tell_refused(refusal)
        return refusal.error_code
    committed = CommittedOffset(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=turn.timestamp_ms,
        committed_ms=turn.now_ms,
        expire_timestamp_ms=_expire_timestamp_ms(turn, request),
        topic_id=topic.topic_id,
    )
    append_offset(turn, topic.name, partition.partition_index, committed)
    previous = put_offset(turn, topic.name, partition.partition_index, committed)
    changes.append(
        OffsetChange(
            topic=topic.name,
            partition=partition.partition_index,
            offset=committed.offset,
            previous_offset=previous.offset if previous is not None else None,
            leader_epoch=committed.leader_epoch,
            metadata=metadata,
        )
    )
    return ErrorCode.NONE


def _refusal(
    turn: Turn, topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition, metadata: str
) -> Refusal | None:
    """Why this one partition is refused, if it is."""
    where = f"{topic.name:.249}-{partition.partition_index}"
    most_bytes, most_offsets = turn.config.offset_metadata_max_bytes, turn.config.group_max_offsets
    if not 0 < len(topic.name) <= TOPIC_NAME_MAX_CHARACTERS:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "no_topic_name",
            f"a topic's name has 1 to {TOPIC_NAME_MAX_CHARACTERS} characters, this one has {len(topic.name)}",
        )
    if _utf16_units(metadata) > most_bytes:
        detail = f"metadata of {where} is longer than offset.metadata.max.bytes ({most_bytes})"
        return Refusal(ErrorCode.OFFSET_METADATA_TOO_LARGE, "metadata_too_long", detail)
    group = turn.require_group()
    if group.offsets_count >= most_offsets and group.offsets.get(topic.name, partition.partition_index) is None:
        detail = f"the group has offsets of group_max_offsets ({most_offsets}) partitions; {where} would be one more"
        return Refusal(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, "too_many_offsets", detail)
    return None


def _utf16_units(text: str) -> int:
    """Java's string length, which is what Kafka compares."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be")) // 2


def _expire_timestamp_ms(turn: Turn, request: OffsetCommitRequest) -> int | None:
    assert turn.event is not None
    if turn.event.envelope.api_version not in OWN_RETENTION_VERSIONS or request.retention_time_ms == -1:
        return None
    return turn.now_ms + request.retention_time_ms
