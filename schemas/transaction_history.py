"""History of offsets that are committed in transactions."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from schemas.history_parts import HistoryRecord, OffsetChange


class TransactionalOffsetsPending(HistoryRecord, frozen=True, kw_only=True, tag="transactional_offsets_pending"):
    """Offsets were written in a transaction. They count when it is committed, and never if it is aborted."""

    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetChange, ...]
    transactional_id: str | UnsetType = UNSET
    """Which transaction it is. The records of a watched cluster do not say it."""


class NeverCounted(HistoryRecord, frozen=True, kw_only=True):
    """The transaction in which these offsets were written has ended, and they never counted."""

    producer_id: int
    producer_epoch: int
    offsets: tuple[OffsetChange, ...]


class TransactionalOffsetsAborted(NeverCounted, frozen=True, kw_only=True, tag="transactional_offsets_aborted"):
    """The transaction in which these offsets were written was aborted."""


class TransactionalOffsetsReplaced(NeverCounted, frozen=True, kw_only=True, tag="transactional_offsets_replaced"):
    """The transaction in which these offsets were written was committed, but later commits had replaced them."""


TransactionHistory = TransactionalOffsetsPending | TransactionalOffsetsAborted | TransactionalOffsetsReplaced
