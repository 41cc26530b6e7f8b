"""Answers that responders on this machine hand over, before Kafka has them.

The responder writes each of them to Kafka, too, and so does the query. What a client was told is compared with both:
also where the responder was killed before Kafka had its answer, which the coordinator's auditor does not see.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable

from group_coordinator.gateway.handover import TopicRecord
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.system.answer_sockets import AnswerSocket, AnswerSocketError

REMEMBERED_MAX = 50_000
"""Answers that are remembered to be compared, some 200 bytes each: those of the last seconds."""
_TAKEN_AT_ONCE_MAX = 10
"""Then the event loop looks what else there is to do."""
_log = logging.getLogger(__name__)


class HandedAnswers:
    """Takes the answers to the requests of one run. All but `compare` is called in the event loop's thread."""

    def __init__(
        self, directory: str | None, run_id: str, metrics: GatewayMetrics, take: Callable[[list[TopicRecord]], None]
    ) -> None:
        """`directory`: the setting `answers_directory`; `run_id`: of the request ids."""
        self._directory, self._run_id = directory, run_id
        self._metrics = metrics
        self._take = take
        self._digests: OrderedDict[bytes, int] = OrderedDict()
        """Request id -> the digest of the answer that was handed over. (A large `dict` loses its first item slowly.)"""
        self._socket: AnswerSocket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take answers from now on. Where that is not possible they come through Kafka alone, and the log says why."""
        if self._directory == "":
            return
        try:
            self._socket = AnswerSocket(self._directory, self._run_id)
        except AnswerSocketError as reason:
            _log.warning("Answers come through Kafka alone, in milliseconds more: %s.", reason)
            return
        self._loop = loop
        loop.add_reader(self._socket.fileno(), self._receive)

    def end(self) -> None:
        """Take no more."""
        if self._socket is None or self._loop is None:
            return
        self._loop.remove_reader(self._socket.fileno())
        self._socket.close()
        self._socket = None

    def compare(self, records: Iterable[TopicRecord]) -> None:
        """Compare what Kafka has with what was handed over; may be called in another thread."""
        for record in records:
            digest = self._digests.get(record.key)
            if digest is not None and digest != hash(record.value):
                self._metrics.answers_differing += 1
                _log.error(
                    "The answer to request %s that a responder on this machine has handed over differs from that in "
                    "Kafka, partition %d of the responses topic, offset %d.",
                    record.key.decode(errors="replace"), record.partition, record.offset,
                )  # fmt: skip

    def _receive(self) -> None:
        for _ in range(_TAKEN_AT_ONCE_MAX):
            if self._socket is None or (datagram := self._socket.receive()) is None:
                return
            records = [TopicRecord(*answer, datagram.timestamp_ms) for answer in datagram.answers]
            self._metrics.answers_handed_over += len(records)
            for record in records:
                self._remember(record)
            self._take(records)

    def _remember(self, record: TopicRecord) -> None:
        self._digests[record.key] = hash(record.value)
        if len(self._digests) > REMEMBERED_MAX:
            self._digests.popitem(last=False)
