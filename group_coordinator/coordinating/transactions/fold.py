"""The relay's fold: what a partition of the log of transactions says, in the order of offsets, as events of groups.

A commit lies there as the gateway's request event, inside its producer's transaction. The transaction coordinator
writes the end of the transaction behind it. Pure: records in, events out.
"""

from __future__ import annotations

from msgspec import UNSET, Struct, UnsetType, field
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
_TRANSACTION_SHARE = 16
"""No transaction takes more than this part of the room: its end is an event to each of its groups, all written at once.
"""


class OpenTransaction(Struct):
    """A producer's transaction that has commits in the partition and no end yet."""

    transactional_id: str
    client: str
    """Whose it is: the user and the address from which it began."""
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

    def __init__(
        self, partition: int, partitions: int, *, written_to: int, open_bytes_max: int,
        topic_id: str | UnsetType = UNSET,
    ) -> None:  # fmt: skip
        """`written_to`: up to this offset, exclusive, the events were written before, so they are not given again.
        `open_bytes_max`: memory for what is open, after which commits are refused. The less of it is left, the less may
        one client have, and one group; so who comes late finds room, too. `topic_id`: the log's."""
        self._partition, self._partitions = partition, partitions
        self._written_to = written_to
        self._topic_id = topic_id
        self._open_bytes_max = open_bytes_max
        self.open: dict[int, OpenTransaction] = {}
        """By producer id."""
        self.open_bytes = 0
        self._bytes_of: dict[tuple[str, str], int] = {}
        """By "group" or "client", and its name; a producer counts for the group that it began with."""
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
        self._open(record, group_id, request.transactional_id, _client(envelope))
        if record.offset < self._written_to:
            return []
        body = replace(
            request,
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            log=self._place(record),
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
        self._insist_on_room(record.producer_id, group_id, request.transactional_id, _client(envelope))
        return group_id, envelope, request

    def _insist_on_room(self, producer_id: int, group_id: str, transactional_id: str, client: str) -> None:
        """Raises ValueError."""
        transaction = self.open.get(producer_id)
        growth = _group_bytes(group_id)
        if transaction is None:
            growth += _producer_bytes(transactional_id, client)
        elif group_id in transaction.groups:
            return
        else:
            client, most = transaction.client, self._open_bytes_max // _TRANSACTION_SHARE
            if transaction.room_bytes + growth > most:
                raise ValueError(f"its transaction takes {transaction.room_bytes} bytes already, of {most}")
        left = max(0, self._open_bytes_max - self.open_bytes - growth)
        most = left * left // self._open_bytes_max
        for place in (("client", client), ("group", group_id)):
            has = self._bytes_of.get(place, 0)
            if has + growth > most:
                kind, name = place
                raise ValueError(
                    f"open transactions of its {kind} {name} take {has} bytes already, and {left} of "
                    f"{self._open_bytes_max} are left for all"
                )

    def _open(self, record: RawRecord, group_id: str, transactional_id: str, client: str) -> None:
        transaction = self.open.get(record.producer_id)
        if transaction is None:
            transaction = OpenTransaction(transactional_id, client, record.offset, record.timestamp_ms)
            self.open[record.producer_id] = transaction
            self._count(transaction, group_id, _producer_bytes(transactional_id, client))
        if group_id not in transaction.groups:
            transaction.groups[group_id] = None
            self._count(transaction, group_id, _group_bytes(group_id))

    def _count(self, transaction: OpenTransaction, group_id: str, size: int) -> None:
        """Count so many bytes more, or less, for all that they belong to."""
        transaction.room_bytes += size
        self.open_bytes += size
        for place in (("client", transaction.client), ("group", group_id)):
            self._bytes_of[place] = self._bytes_of.get(place, 0) + size
            if not self._bytes_of[place]:
                del self._bytes_of[place]

    def _place(self, record: RawRecord) -> TransactionLogPosition:
        return TransactionLogPosition(partition=self._partition, offset=record.offset, topic_id=self._topic_id)

    def _end(self, record: RawRecord, *, committed: bool) -> list[GroupEventBytes]:
        transaction = self.open.pop(record.producer_id, None)
        if transaction is None:
            return []
        of_producer = _producer_bytes(transaction.transactional_id, transaction.client)
        for group_id in transaction.groups:
            self._count(transaction, group_id, -of_producer - _group_bytes(group_id))
            of_producer = 0
        if record.offset < self._written_to:
            return []
        ended = TransactionEnded(
            producer_id=record.producer_id,
            producer_epoch=record.producer_epoch,
            committed=committed,
            log=self._place(record),
        )
        return [GroupEventBytes(group_id, encode_json(ended)) for group_id in transaction.groups]


def _client(envelope: RequestEnvelope) -> str:
    """Who shares the room with others: neither another user nor another address is given for the asking."""
    return f"{envelope.principal or 'User:ANONYMOUS'} at {envelope.client_host}"


def _producer_bytes(transactional_id: str, client: str) -> int:
    return _PRODUCER_BYTES + 4 * (len(transactional_id) + len(client))


def _group_bytes(group_id: str) -> int:
    return _GROUP_BYTES + 4 * len(group_id)
