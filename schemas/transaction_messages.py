"""The messages about offsets that are committed in a transaction, one shape, as in `schemas.messages`."""

from __future__ import annotations

from typing import Annotated, final

from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.error_codes import ErrorCode
from schemas.message_types import INT32, INT64, NO_GENERATION, UUID_TEXT, Message
from schemas.offset_messages import NO_LEADER_EPOCH

TXN_TOPIC_IDS_VERSION = 6
"""From this version on TxnOffsetCommit names topics by id alone (KIP-1319)."""
PRODUCER_EPOCH = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]


class TransactionLogPosition(Struct, frozen=True, kw_only=True, gc=False):
    """A place in the log in which a producer's commits and the ends of its transactions lie in one order."""

    partition: INT32
    """A group has one, for ever."""
    offset: INT64
    topic_id: UUID_TEXT | UnsetType = UNSET
    """Of the log: one that was made anew begins again at 0, and so do places that groups have not seen. Absent: not
    known."""


@final
class AddOffsetsToTxnRequest(Message, frozen=True, kw_only=True):
    """The producer's transaction will commit offsets of the group. It is no event of the group."""

    transactional_id: str
    producer_id: INT64
    producer_epoch: PRODUCER_EPOCH
    group_id: str


class AddOffsetsToTxnResponse(Message, frozen=True, kw_only=True):
    error_code: ErrorCode = ErrorCode.NONE


class TxnOffsetCommitRequestPartition(Message, frozen=True, kw_only=True):
    partition_index: INT32
    committed_offset: INT64
    committed_leader_epoch: INT32 = NO_LEADER_EPOCH
    committed_metadata: str | None = None


class TxnOffsetCommitRequestTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: UUID_TEXT | None = None
    """The topic's id where the sender knows it; it is stored as `KafkaVersion` says."""
    partitions: tuple[TxnOffsetCommitRequestPartition, ...]


@final
class TxnOffsetCommitRequest(Message, frozen=True, kw_only=True):
    """The offsets are pending until the producer's transaction ends (`transaction_ended`)."""

    transactional_id: str
    group_id: str
    producer_id: INT64
    producer_epoch: PRODUCER_EPOCH
    generation_id: INT32 = NO_GENERATION
    """v3; of a consumer group, the member's epoch. Kafka's definitions of 4.4 call it generationIdOrMemberEpoch."""
    member_id: str = ""
    group_instance_id: str | None = None
    topics: tuple[TxnOffsetCommitRequestTopic, ...]
    log: TransactionLogPosition | None = None
    """Not Kafka's: where the commit lies in a log of transactions, if there is one. A commit at or before the last
    place that the group has seen is a repeat: it is ignored, without an answer."""


class TxnOffsetCommitResponsePartition(Message, frozen=True):
    partition_index: INT32
    error_code: ErrorCode = ErrorCode.NONE


class TxnOffsetCommitResponseTopic(Message, frozen=True, kw_only=True):
    name: str
    topic_id: str | UnsetType | None = UNSET
    """v6, in place of the name."""
    partitions: tuple[TxnOffsetCommitResponsePartition, ...]


class TxnOffsetCommitResponse(Message, frozen=True, kw_only=True):
    topics: tuple[TxnOffsetCommitResponseTopic, ...] = ()
