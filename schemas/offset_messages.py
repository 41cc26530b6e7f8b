"""The messages about committed offsets, one shape each, as in `schemas.messages`."""

from __future__ import annotations

from typing import final

from msgspec import UNSET, UnsetType

from schemas.error_codes import ErrorCode
from schemas.message_types import INT32, INT64, NO_GENERATION, UUID_TEXT, Message

NO_LEADER_EPOCH = -1
NO_OFFSET = -1


class OffsetCommitRequestPartition(Message, frozen=True, kw_only=True):
    partition_index: INT32
    committed_offset: INT64
    committed_leader_epoch: INT32 = NO_LEADER_EPOCH
    committed_metadata: str | None = None


class OffsetCommitRequestTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: UUID_TEXT | None = None
    """The topic's id where the sender knows it; it travels into the offset record (value version 4)."""
    partitions: tuple[OffsetCommitRequestPartition, ...]


@final
class OffsetCommitRequest(Message, frozen=True, kw_only=True):
    group_id: str
    generation_id_or_member_epoch: INT32 = NO_GENERATION
    member_id: str = ""
    group_instance_id: str | None = None
    retention_time_ms: INT64 = -1
    """v2-4: the commit's own retention; -1 for the coordinator's."""
    topics: tuple[OffsetCommitRequestTopic, ...]


class OffsetCommitResponsePartition(Message, frozen=True):
    partition_index: INT32
    error_code: ErrorCode = ErrorCode.NONE


class OffsetCommitResponseTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: str | None = None
    partitions: tuple[OffsetCommitResponsePartition, ...]


class OffsetCommitResponse(Message, frozen=True, kw_only=True):
    topics: tuple[OffsetCommitResponseTopic, ...] = ()


class OffsetFetchRequestTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: UUID_TEXT | None = None
    partition_indexes: tuple[INT32, ...]


class OffsetFetchRequestGroup(Message, frozen=True, kw_only=True):
    group_id: str
    member_id: str | None = None
    member_epoch: INT32 = -1
    topics: tuple[OffsetFetchRequestTopic, ...] | None = None
    """None: all topics."""


@final
class OffsetFetchRequest(Message, frozen=True, kw_only=True):
    groups: tuple[OffsetFetchRequestGroup, ...]
    """One event asks for one group; whoever has several sends several events."""
    require_stable: bool = False
    tells_committed_ids: bool | UnsetType = UNSET
    """Only in our events: whether the answer says under which topic id each offset is stored."""


class OffsetFetchResponsePartition(Message, frozen=True, kw_only=True):
    partition_index: INT32
    committed_offset: INT64 = NO_OFFSET
    committed_leader_epoch: INT32 = NO_LEADER_EPOCH
    metadata: str | None = ""
    error_code: ErrorCode = ErrorCode.NONE
    committed_topic_id: str | UnsetType = UNSET
    """Only in our events: the id of the topic for which the offset was committed, where the request asks for it and it
    is known."""


class OffsetFetchResponseTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: str | None = None
    partitions: tuple[OffsetFetchResponsePartition, ...]


class OffsetFetchResponseGroup(Message, frozen=True, kw_only=True):
    group_id: str
    topics: tuple[OffsetFetchResponseTopic, ...] = ()
    error_code: ErrorCode = ErrorCode.NONE


class OffsetFetchResponse(Message, frozen=True, kw_only=True):
    groups: tuple[OffsetFetchResponseGroup, ...]


class OffsetDeleteRequestPartition(Message, frozen=True, kw_only=True):
    partition_index: INT32


class OffsetDeleteRequestTopic(Message, frozen=True, kw_only=True):
    name: str
    partitions: tuple[OffsetDeleteRequestPartition, ...]


@final
class OffsetDeleteRequest(Message, frozen=True, kw_only=True):
    group_id: str
    topics: tuple[OffsetDeleteRequestTopic, ...]


class OffsetDeleteResponsePartition(Message, frozen=True, kw_only=True):
    partition_index: INT32
    error_code: ErrorCode = ErrorCode.NONE


class OffsetDeleteResponseTopic(Message, frozen=True, kw_only=True):
    name: str
    partitions: tuple[OffsetDeleteResponsePartition, ...]


class OffsetDeleteResponse(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE
    topics: tuple[OffsetDeleteResponseTopic, ...] = ()
