"""The relay's fold: what a partition of the log of transactions says, in the order of offsets, as events of groups.

A commit lies there as the gateway's request event, inside its producer's transaction. The transaction coordinator
writes the end of the transaction behind it. Pure: records in, events out.
"""

from __future__ import annotations

from msgspec import Struct, field
from msgspec.structs import replace

from schemas.events import (
    RequestEnvelope,
    TransactionEnded,
    decode_group_id,
    decode_request_event,
    encode_json,
    encode_request_event,
)
from schemas.java_hash import group_partition
from schemas.kafka.record_batches import RawRecord
from schemas.messages import TxnOffsetCommitRequest
from schemas.transaction_messages import TransactionLogPosition

_PRODUCER_BYTES, _GROUP_BYTES = 400, 120
"""What an open producer, and a group of one, take in memory beside their names."""
_GREEDY_SHARE = 16
"""No transaction takes more than this part of the room: its end is an event to each of its groups, all written at once.
Where more than half of the room is taken, a group that has more than this part of it gets no more."""


class OpenTransaction(Struct):
    """A producer's transaction that has commits in the partition and no end yet."""

    transactional_id: str
    first_offset: int
    since_ms: int
    """When its first commit was appended."""
    groups: dict[str, None] = field(default_factory=dict)
    """In the order in which they first appear."""
    room_bytes: int = 0
    """What it takes of the room."""


class GroupEventBytes(Struct, frozen=True):
    """An event of a group, as it is written."""

    group_id: str
    value: bytes


class TransactionFold:
    """One partition of the log. It may begin anywhere at or before the first commit of each open transaction."""

    def __init__(self, partition: int, partitions: int, *, written_to: int, open_bytes_max: int) -> None:
        """`written_to`: up to this offset, exclusive, the events were written before, so they are not given again.
        `open_bytes_max`: memory for what is open, after which commits are refused."""
        self._partition, self._partitions = partition, partitions
        self._written_to = written_to
        self._open_bytes_max = open_bytes_max
        self.open: dict[int, OpenTransaction] = {}
        """By producer id."""
        self.open_bytes = 0
        self._bytes_of: dict[str, int] = {}
        """By group; a producer counts for the group that it began with."""
        self.refused: str | None = None
        """Why the last record that was refused was."""
        self.refusals = 0

    def take(self, record: RawRecord) -> list[GroupEventBytes]:
        """Return the events that a record leads to. What is refused has none: nobody answers it, so nobody relies on
        it."""
        if record.control is not None:
            return self._end(record, committed=record.control == "COMMIT")
        try:
            group_id, envelope, request = self._read(record)
        except ValueError as problem:
            self.refusals += 1
            self.refused = f"offset {record.offset} of partition {self._partition}: {problem}"
            return []
        self._open(record, group_id, request.transactional_id)
        if record.offset < self._written_to:
            return []
        body = replace(
            request,
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            log=TransactionLogPosition(partition=self._partition, offset=record.offset),
        )
        value = encode_request_event(
            envelope.api, envelope.api_version, body, request_id=envelope.request_id,
            reply_partition=envelope.reply_partition, client_id=envelope.client_id, client_host=envelope.client_host,
        )  # fmt: skip
        return [GroupEventBytes(group_id, value)]

    def resume_offset(self, next_offset: int) -> int:
        """Return where to read on after a restart: every open transaction must be seen from its first commit on."""
        return min([transaction.first_offset for transaction in self.open.values()], default=next_offset)

    def oldest(self) -> tuple[int, OpenTransaction] | None:
        """Return the producer and the transaction that has been open for the longest."""
        return min(self.open.copy().items(), key=lambda item: item[1].since_ms, default=None)

    def _read(self, record: RawRecord) -> tuple[str, RequestEnvelope, TxnOffsetCommitRequest]:
        """Raises ValueError: the record is none of the gateway's, or finds no room."""
        if not record.is_transactional:
            raise ValueError("it is not part of a transaction")
        group_id = decode_group_id(record.key)
        if group_partition(group_id, self._partitions) != self._partition:
            raise ValueError("its group belongs to another partition")
        envelope, request = decode_request_event(group_id, record.value)
        if not isinstance(request, TxnOffsetCommitRequest):
            raise ValueError(f"it is no commit in a transaction but {envelope.api}")
        growth = self._growth(record.producer_id, group_id, request.transactional_id)
        if self.open_bytes + growth > self._open_bytes_max:
            raise ValueError(f"open transactions take {self.open_bytes} bytes already, of {self._open_bytes_max}")
        greedy_bytes = self._open_bytes_max // _GREEDY_SHARE
        transaction = self.open.get(record.producer_id)
        if growth and transaction is not None and transaction.room_bytes + growth > greedy_bytes:
            raise ValueError(f"its transaction takes {transaction.room_bytes} bytes already, of {greedy_bytes}")
        has = self._bytes_of.get(group_id, 0)
        if growth and self.open_bytes > self._open_bytes_max // 2 and has > greedy_bytes:
            raise ValueError(f"open transactions of its group take {has} bytes already, of {self._open_bytes_max}")
        return group_id, envelope, request

    def _growth(self, producer_id: int, group_id: str, transactional_id: str) -> int:
        transaction = self.open.get(producer_id)
        if transaction is None:
            return _PRODUCER_BYTES + 4 * len(transactional_id) + _GROUP_BYTES + 4 * len(group_id)
        return 0 if group_id in transaction.groups else _GROUP_BYTES + 4 * len(group_id)

    def _open(self, record: RawRecord, group_id: str, transactional_id: str) -> None:
        growth = self._growth(record.producer_id, group_id, transactional_id)
        self.open_bytes += growth
        self._bytes_of[group_id] = self._bytes_of.get(group_id, 0) + growth
        transaction = self.open.setdefault(
            record.producer_id, OpenTransaction(transactional_id, record.offset, record.timestamp_ms)
        )
        transaction.groups[group_id] = None
        transaction.room_bytes += growth

    def _end(self, record: RawRecord, *, committed: bool) -> list[GroupEventBytes]:
        transaction = self.open.pop(record.producer_id, None)
        if transaction is None:
            return []
        of_producer = _PRODUCER_BYTES + 4 * len(transaction.transactional_id)
        for group_id in transaction.groups:
            size, of_producer = of_producer + _GROUP_BYTES + 4 * len(group_id), 0
            self.open_bytes -= size
            self._bytes_of[group_id] -= size
            if not self._bytes_of[group_id]:
                del self._bytes_of[group_id]
        if record.offset < self._written_to:
            return []
        ended = TransactionEnded(
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            committed=committed,
            log=TransactionLogPosition(partition=self._partition, offset=record.offset),
        )
        return [GroupEventBytes(group_id, encode_json(ended)) for group_id in transaction.groups]
