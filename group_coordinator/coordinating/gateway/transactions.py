"""Offsets in transactions: what the gateway asks of the log of transactions, and what its answers mean to clients.

Source of the codes: `KafkaApis.handleAddOffsetsToTxnRequest`, `CoordinatorPartitionWriter` (Kafka 4.3).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from schemas.error_codes import ErrorCode
from schemas.messages import TxnOffsetCommitRequest
from schemas.transaction_messages import AddOffsetsToTxnRequest

OnCode = Callable[[ErrorCode], None]
_FENCED_VERSION = 2
"""From this version of AddOffsetsToTxn on PRODUCER_FENCED has a code of its own (KIP-588)."""
_ABORTABLE_VERSION = 4
"""From this version of TxnOffsetCommit on clients know TRANSACTION_ABORTABLE (KIP-890)."""
_LOADING_VERSION = 2
"""Before this version of TxnOffsetCommit COORDINATOR_LOAD_IN_PROGRESS was COORDINATOR_NOT_AVAILABLE."""
_OF_THE_TRANSACTION = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING, ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)  # fmt: skip


class TransactionLog(Protocol):
    """A topic on the producers' cluster. Commits are appended to it inside the producers' own transactions, so that
    the transaction coordinator writes the ends behind them. Callbacks come once, in the event loop's thread."""

    def connect(self, loop: asyncio.AbstractEventLoop, shards: int) -> None:
        """Find the topic. Blocks; raises GatewayError where it is not there, or has other partitions than `shards`."""

    def add(self, request: AddOffsetsToTxnRequest, on_code: OnCode) -> None:
        """Add the partition of the group to the producer's transaction."""

    def append(self, request: TxnOffsetCommitRequest, version: int, value: bytes, on_refused: OnCode) -> None:
        """Append the event of a commit; from version 5 on that begins the transaction where nothing else has.
        `on_refused` is called only if it was not appended, or that is in doubt."""

    def forget(self, producer_id: int) -> None:
        """An answer to a commit of this producer did not come: its next sequence number is not known any more."""

    def end(self) -> None:
        """Answer nobody any more. Blocks for a moment."""


def added_code(code: ErrorCode, version: int) -> ErrorCode:
    """Return what AddOffsetsToTxn of this version is answered where AddPartitionsToTxn was answered `code`. What is
    wrong with the topic of the log is no fault of the client's."""
    if code is ErrorCode.PRODUCER_FENCED and version < _FENCED_VERSION:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


def appended_code(code: ErrorCode, version: int) -> ErrorCode:
    """Return what TxnOffsetCommit of this version is answered where the log has refused it with `code`."""
    if code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED):
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code in (ErrorCode.INVALID_TXN_STATE, ErrorCode.TRANSACTION_ABORTABLE):
        is_known = version >= _ABORTABLE_VERSION
        return ErrorCode.TRANSACTION_ABORTABLE if is_known else ErrorCode.INVALID_TXN_STATE
    if code in _OF_THE_TRANSACTION:
        return code
    if code is ErrorCode.MESSAGE_TOO_LARGE:
        return ErrorCode.UNKNOWN_SERVER_ERROR
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return unanswered_code(version)
    return ErrorCode.COORDINATOR_NOT_AVAILABLE


def unanswered_code(version: int) -> ErrorCode:
    """Return what a commit is answered that had no answer in time: the client sends it again to the same coordinator.
    """
    return (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if version >= _LOADING_VERSION else ErrorCode.COORDINATOR_NOT_AVAILABLE
    )
