"""A transactional producer that says what it wants, one request at a time: for what no library does."""

from __future__ import annotations

import socket
import time
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafka.protocol.metadata import FindCoordinatorRequest, FindCoordinatorResponse
from kafka.protocol.producer.transaction import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)

from tests.coordinating.gateway.wire import request

_AGAIN = frozenset({14, 15, 16, 51})
"""The coordinator is not there yet, or an earlier transaction has not ended."""
_TIMEOUT_S = 60.0
_VERSION = 2
"""Of TxnOffsetCommit: the last without a generation. The transactions are of version 1."""


class Identity(NamedTuple):
    """A producer as its brokers know it."""

    transactional_id: str
    producer_id: int
    epoch: int


class RawProducer:
    """One connection to a gateway with one broker, for any number of producers."""

    def __init__(self, address: str, client_host: str = "127.0.0.1") -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), _TIMEOUT_S, (client_host, 0))
        self._asked = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def identify(self, transactional_id: str, timeout_ms: int = 600_000) -> Identity:
        find = FindCoordinatorRequest(version=1, key=transactional_id, key_type=1)  # the first one makes its topic
        self._until_done(find, FindCoordinatorResponse, 1)
        asked = InitProducerIdRequest(version=1, transactional_id=transactional_id, transaction_timeout_ms=timeout_ms)
        answer = self._until_done(asked, InitProducerIdResponse, 1)
        return Identity(transactional_id, answer.producer_id, answer.producer_epoch)

    def add_group(self, producer: Identity, group_id: str) -> None:
        asked = AddOffsetsToTxnRequest(
            version=1, transactional_id=producer.transactional_id, producer_id=producer.producer_id,
            producer_epoch=producer.epoch, group_id=group_id,
        )  # fmt: skip
        self._until_done(asked, AddOffsetsToTxnResponse, 1)

    def commit(self, producer: Identity, group_id: str, topic: str, offset: int) -> int:
        """Commit an offset of partition 0, and return the code of the answer."""
        of_topic = TxnOffsetCommitRequest.TxnOffsetCommitRequestTopic
        partition = of_topic.TxnOffsetCommitRequestPartition(
            version=_VERSION, partition_index=0, committed_offset=offset, committed_leader_epoch=-1,
            committed_metadata="",
        )  # fmt: skip
        asked = TxnOffsetCommitRequest(
            version=_VERSION, transactional_id=producer.transactional_id, group_id=group_id,
            producer_id=producer.producer_id, producer_epoch=producer.epoch,
            topics=[of_topic(version=_VERSION, name=topic, partitions=[partition])],
        )  # fmt: skip
        return int(self._ask(asked, TxnOffsetCommitResponse, _VERSION).topics[0].partitions[0].error_code)

    def end(self, producer: Identity, *, committed: bool) -> None:
        asked = EndTxnRequest(
            version=1, transactional_id=producer.transactional_id, producer_id=producer.producer_id,
            producer_epoch=producer.epoch, committed=committed,
        )  # fmt: skip
        self._until_done(asked, EndTxnResponse, 1)

    def _until_done(self, asked: Any, kind: Any, version: int) -> Any:
        give_up_s = time.monotonic() + _TIMEOUT_S
        while True:
            answer = self._ask(asked, kind, version)
            if answer.error_code not in _AGAIN:
                assert answer.error_code == 0, (kind.__name__, answer.error_code)
                return answer
            assert time.monotonic() < give_up_s, (kind.__name__, answer.error_code)
            time.sleep(0.05)

    def _ask(self, asked: Any, kind: Any, version: int) -> Any:
        self._asked += 1
        self._socket.sendall(request(asked, self._asked))
        size = int.from_bytes(self._read(4))
        return kind.decode(self._read(size), version=version, header=True)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            assert more, "the connection was closed"
            data += more
        return data
