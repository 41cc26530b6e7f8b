"""OffsetCommit: API key 8, versions 2-10 (2-4: own retention; 6: leader epoch; 7: instance id; 9: KIP-848 codes; 10: topic ids)."""

from __future__ import annotations

from coordinator_state.errors import Refusal
from coordinator_state.kind import GroupKind
from coordinator_state.offsets import OFFSET_OVERHEAD_BYTES, CommittedOffset, offset_bytes, utf8_bytes
from coordinator_state.refused import record_refusal
from coordinator_state.retention import chunks, note_commits
from coordinator_state.step import Step
from schemas.error_codes import ErrorCode
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

OWN_RETENTION_VERSIONS = range(2, 5)
TOPIC_NAME_MAX_CHARACTERS = 249
"""Kafka's longest topic name (`Topic.MAX_NAME_LENGTH`); a longer one cannot exist."""

RECORDS_MAX_BYTES = 4_194_304
"""Most bytes of records that one commit may make. With names of usual length, no commit that fits into an event makes so many."""
_FEW_PARTITIONS = 50
"""So few make no records that are too many, whatever the names are."""


def offset_commit(step: Step, kind: GroupKind, request: OffsetCommitRequest) -> None:
    """Store offsets, for a member of the current generation or (an Empty group) for anybody."""
    if not request.topics:
        step.respond(OffsetCommitResponse())
        return
    _require_few_records(step, request)
    kind.validate_offset_commit(step, request)
    expire_timestamp_ms = _expire_timestamp_ms(step, request)
    answers: list[OffsetCommitResponseTopic] = []
    changes: list[OffsetChange] = []
    for topic in request.topics:
        answers.append(_commit_topic(step, topic, expire_timestamp_ms, changes))
    for chunk in chunks(changes):
        step.append_history(
            OffsetsCommitted(*step.history_fields(), member_id=request.member_id or None, offsets=chunk)
        )
    step.respond(OffsetCommitResponse(topics=tuple(answers)))


def _require_few_records(step: Step, request: OffsetCommitRequest) -> None:
    """Kafka appends the records of a commit in one batch, and refuses what the log has no room for. Each holds its group's name."""
    partitions = 0
    for topic in request.topics:
        partitions += len(topic.partitions)
    if partitions <= _FEW_PARTITIONS:
        return
    names_bytes = OFFSET_OVERHEAD_BYTES + utf8_bytes(step.group_id)
    records_bytes = sum([len(topic.partitions) * (names_bytes + utf8_bytes(topic.name)) for topic in request.topics])
    if records_bytes > RECORDS_MAX_BYTES:
        raise Refusal(
            ErrorCode.INVALID_COMMIT_OFFSET_SIZE,
            "commit_is_too_large",
            f"the records of the commit would take {records_bytes} bytes in the offsets log; {RECORDS_MAX_BYTES} is the most",
        )


def _commit_topic(
    step: Step, topic: OffsetCommitRequestTopic, expire_timestamp_ms: int | None, changes: list[OffsetChange]
) -> OffsetCommitResponseTopic:
    """Store or refuse each partition, in order: each finds the room that those before it left. Returns the answer."""
    group, name, topic_id = step.require_group(), topic.name, topic.topic_id
    # By how many bytes the group's offsets may grow. Below 0 in a group that is larger than it may be now: it only shrinks.
    room = room_before = step.config.group_offsets_max_bytes - group.size_of_offsets()
    has_name = 0 < len(name) <= TOPIC_NAME_MAX_CHARACTERS
    stored, keys = group.offsets.of_topic(name), offset_commit_keys(step.group_id, name) if has_name else b""
    timestamp_ms, now_ms, log_offset = step.timestamp_ms, step.now_ms, step.offset
    record, pack, version = step.append_record, INT32.pack, step.config.offset_commit_value_version
    # A commit with an expiry of its own is written as version 1, the only one that can say so.
    expires = NO_TIMESTAMP if expire_timestamp_ms is None else expire_timestamp_ms
    answers = []
    changes_before, added = len(changes), 0
    for partition in topic.partitions:
        number, metadata = partition.partition_index, partition.committed_metadata or ""
        previous = stored.get(number)
        # Most often nothing but the number changes.
        growth = (
            0 if previous is not None and metadata == previous.metadata else growth_of(step, name, previous, metadata)
        )
        if not has_name or metadata or growth > room:
            refusal = refusal_of(step, name, number, metadata, has_room=growth <= max(room, 0))
            if refusal is not None:
                record_refusal(step, refusal)
                answers.append(OffsetCommitResponsePartition(number, refusal.error_code))
                continue
        offset, leader_epoch = partition.committed_offset, partition.committed_leader_epoch
        value = encode_offset_commit(version, offset, leader_epoch, metadata, timestamp_ms, expires, topic_id)
        record(keys + pack(number), value)
        stored[number] = CommittedOffset(
            offset, leader_epoch, metadata, timestamp_ms, now_ms, expire_timestamp_ms, topic_id, log_offset
        )
        answers.append(OffsetCommitResponsePartition(number))
        room -= growth
        if previous is None:
            added += 1
            changes.append(OffsetChange(name, number, offset, None, leader_epoch, metadata))
        else:
            changes.append(OffsetChange(name, number, offset, previous.offset, leader_epoch, metadata))
    if len(changes) > changes_before:
        group.offsets.put_topic(name, stored)
        note_commits(step, name, added, expire_timestamp_ms)
    if room != room_before:
        group.grow_offsets(room_before - room)
    return OffsetCommitResponseTopic(name=name, topic_id=topic_id, partitions=tuple(answers))


def growth_of(step: Step, topic: str, previous: CommittedOffset | None, metadata: str) -> int:
    """Return by how many bytes the group's offsets grow."""
    if previous is not None:
        return utf8_bytes(metadata) - utf8_bytes(previous.metadata)
    return offset_bytes(utf8_bytes(step.group_id) + utf8_bytes(topic), metadata)


def refusal_of(step: Step, topic: str, partition: int, metadata: str, *, has_room: bool) -> Refusal | None:
    """Return why this one partition is refused; None if it is not."""
    where = f"{topic:.249}-{partition}"
    if not 0 < len(topic) <= TOPIC_NAME_MAX_CHARACTERS:
        return Refusal(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "no_topic_name",
            f"a topic's name has 1 to {TOPIC_NAME_MAX_CHARACTERS} characters, this one has {len(topic)}",
        )
    metadata_max_bytes = step.config.offset_metadata_max_bytes
    if _utf16_units(metadata) > metadata_max_bytes:
        detail = f"metadata of {where} is longer than offset.metadata.max.bytes ({metadata_max_bytes})"
        return Refusal(ErrorCode.OFFSET_METADATA_TOO_LARGE, "metadata_too_long", detail)
    if not has_room:
        most = step.config.group_offsets_max_bytes
        detail = f"with {where} the group's offsets would take more than group_offsets_max_bytes ({most})"
        return Refusal(ErrorCode.INVALID_COMMIT_OFFSET_SIZE, "too_many_offsets", detail)
    return None


def _utf16_units(text: str) -> int:
    """Java's string length, which is what Kafka compares."""
    return len(text) if text.isascii() else len(text.encode("utf-16-be")) // 2


def _expire_timestamp_ms(step: Step, request: OffsetCommitRequest) -> int | None:
    if request.retention_time_ms == -1 or step.envelope.api_version not in OWN_RETENTION_VERSIONS:
        return None
    return step.now_ms + request.retention_time_ms
