"""Which transactions a group's offsets wait for, as far as its history tells. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo

from msgspec import UNSET, Struct, UnsetType

from group_coordinator.watching.history.fold import GroupFold
from group_coordinator.watching.history.view import Removal, RemovedOffsets
from group_coordinator.watching.narrative import words
from schemas.history import GroupDead, History, HistoryRecord, OffsetChange, OffsetsCommitted
from schemas.transaction_history import TransactionalOffsetsAborted, TransactionalOffsetsPending


class _Open(Struct):
    producer_epoch: int
    transactional_id: str | UnsetType
    since_ms: int
    places: dict[tuple[str, int], None]


class _OpenTransactions(GroupFold):
    """The open transactions of one group. Where a later commit has replaced an offset, the end of its transaction
    leaves no trace in history: it is not known to wait any more, and nothing is said of it."""

    __slots__ = ("by_producer",)

    def __init__(self) -> None:
        super().__init__()
        self.by_producer: dict[int, _Open] = {}

    def life_began(self, record: HistoryRecord) -> None:
        self.by_producer.clear()

    def group_died(self, record: GroupDead) -> None:
        self.by_producer.clear()

    def offsets_pending(self, record: TransactionalOffsetsPending) -> None:
        if record.cause.kind == "observed":
            return  # a watched cluster's open transactions are told with the doubts
        known = self.by_producer.get(record.producer_id)
        if known is None or known.producer_epoch != record.producer_epoch:
            known = _Open(record.producer_epoch, record.transactional_id, record.timestamp_ms, {})
            self.by_producer[record.producer_id] = known
        known.places.update(dict.fromkeys((change.topic, change.partition) for change in record.offsets))

    def offsets_aborted(self, record: TransactionalOffsetsAborted) -> None:
        self.by_producer.pop(record.producer_id, None)

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        if record.cause.producer_id is not None:
            self.by_producer.pop(record.cause.producer_id, None)
        self._forget(record.offsets)

    def offsets_removed(self, record: RemovedOffsets, removal: Removal) -> None:
        self._forget(record.offsets)

    def _forget(self, offsets: Iterable[OffsetChange]) -> None:
        for producer_id, transaction in list(self.by_producer.items()):
            for change in offsets:
                transaction.places.pop((change.topic, change.partition), None)
            if not transaction.places:
                del self.by_producer[producer_id]


def waits(history: Iterable[History], zone: tzinfo = UTC) -> Iterator[str]:
    """Yield a sentence for each transaction that offsets of this group wait for, the oldest first. Of a group that the
    cluster's brokers coordinate none: their records do not name transactions."""
    group = _OpenTransactions()
    for record in history:
        group.add(record)
    for producer_id, transaction in sorted(group.by_producer.items(), key=lambda item: item[1].since_ms):
        of = transaction.transactional_id
        places = words.listed([f"{topic}-{partition}" for topic, partition in transaction.places])
        name = "a transaction" if of is UNSET else f"transaction {of}"
        yield (
            f"Offsets of {places} wait for {name} of producer {producer_id} since "
            f"{words.day(transaction.since_ms, zone)} {words.clock(transaction.since_ms, zone)}."
        )
