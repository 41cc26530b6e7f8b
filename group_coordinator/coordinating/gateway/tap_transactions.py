"""How transactions with offsets end, as a tap learns it: from what their producers ask brokers for, and get.

What brokers say to each other (WriteTxnMarkers) does not pass a tap. A transaction that they end by themselves, since
it took too long, is open here until its producer begins anew (InitProducerId).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from msgspec import Struct, field

from group_coordinator.coordinating.gateway.codec import body_start, response_body_start
from group_coordinator.coordinating.gateway.frames import RequestHead
from schemas.events import TransactionEnded
from schemas.kafka.codec import decode
from schemas.messages import TxnOffsetCommitRequest

ENDING_APIS = {22: "InitProducerId", 26: "EndTxn"}
"""Requests that end a producer's transaction, by key."""
_OPEN_MAX = 20_000
"""Transactions; beyond it the one that began first is taken for one that never ends."""


class Ending(Struct, frozen=True):
    """A transaction has ended if brokers answer this request without an error."""

    transactional_id: str
    committed: bool


class _Open(Struct):
    producer_id: int
    producer_epoch: int
    groups: dict[str, None] = field(default_factory=dict)
    """In the order in which they first appear."""
    is_in_doubt: bool = False
    """Whether somebody asked to commit it, and was not heard of again."""


def read_ending(head: RequestHead, payload: bytes) -> Ending | None:
    """Read a request of `ENDING_APIS`; None: it is of no transaction. Raises `schemas.wire.DecodeError`."""
    message = ENDING_APIS[head.api_key] + "Request"
    values = decode(message, head.api_version, payload, body_start(message, head, payload))
    name = values["transactional_id"]
    return None if name is None else Ending(name, values.get("committed", False))


def has_succeeded(head: RequestHead, payload: bytes) -> bool:
    """Read the answer to it. Raises `schemas.wire.DecodeError`."""
    message = ENDING_APIS[head.api_key] + "Response"
    start = response_body_start(message, head.api_version)
    return not decode(message, head.api_version, payload, start)["error_code"]


class OpenTransactions:
    """Those with offsets, by transactional id."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Open] = OrderedDict()

    def wrote(self, request: TxnOffsetCommitRequest) -> None:
        """Take offsets that a broker has accepted, or may have."""
        transaction = self._open.get(request.transactional_id)
        if transaction is None or transaction.producer_id != request.producer_id:
            transaction = self._open[request.transactional_id] = _Open(request.producer_id, request.producer_epoch)
            if len(self._open) > _OPEN_MAX:
                self._open.popitem(last=False)
        transaction.groups[request.group_id] = None

    def ended(self, ending: Ending) -> Iterator[tuple[str, TransactionEnded]]:
        """Yield the event of each group whose offsets have ended. Where it is in doubt how, there is none."""
        transaction = self._open.pop(ending.transactional_id, None)
        if transaction is None or (transaction.is_in_doubt and not ending.committed):
            return
        event = TransactionEnded(
            producer_id=transaction.producer_id,
            producer_epoch=transaction.producer_epoch,
            committed=ending.committed,
        )
        for group_id in transaction.groups:
            yield group_id, event

    def not_heard_of(self, ending: Ending) -> None:
        """Take an ending that was asked for, and perhaps not answered."""
        if ending.committed and ending.transactional_id in self._open:
            self._open[ending.transactional_id].is_in_doubt = True
