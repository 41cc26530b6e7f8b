"""Answers that responders on this machine hand over, before Kafka has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from group_coordinator.coordinating.answer_sockets import AnswerSocket, AnswerSocketError
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.coordinating.gateway.unrecorded_answers import UnrecordedAnswers

_TAKEN_AT_ONCE_MAX = 10
"""Then the event loop looks what else there is to do."""
_log = logging.getLogger(__name__)


class HandedAnswers:
    """Takes the answers to the requests of one run. All but `read` and `flush` is called in the event loop's thread."""

    def __init__(
        self,
        config: GatewaySettings,
        run_id: str,
        metrics: GatewayMetrics,
        *,
        is_awaited: Callable[[str], bool],
        take: Callable[[list[TopicRecord]], None],
    ) -> None:
        """`run_id`: of the request ids; `is_awaited`: whether somebody waits for the answer to this request."""
        self._directory, self._run_id = config.answers_directory, run_id
        self._metrics = metrics
        self._unrecorded = UnrecordedAnswers(config, metrics)
        self._is_awaited = is_awaited
        self._take = take
        self._socket: AnswerSocket | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_paused = False

    def begin(self, loop: asyncio.AbstractEventLoop, partition: int) -> None:
        """Take answers from now on. Where that is not possible they come through Kafka alone, and the log says why.

        `partition`: of the responses topic, which has the answers to the gateway's requests.
        """
        self._unrecorded.begin(partition)
        if self._directory == "":
            return
        try:
            self._socket = AnswerSocket(self._directory, self._run_id)
        except AnswerSocketError as reason:
            _log.warning("Answers come through Kafka alone, in milliseconds more: %s.", reason)
            return
        self._loop = loop
        loop.add_reader(self._socket.fileno(), self._receive)

    def read(self, record: TopicRecord) -> None:
        """Note that Kafka has an answer; may be called in any thread."""
        self._unrecorded.read(record)

    def look(self) -> None:
        """See to it that Kafka gets what was given; to be called several times a second."""
        self._unrecorded.look()
        if self._is_paused and self._socket is not None and self._loop is not None and not self._unrecorded.is_full:
            self._is_paused = False
            self._loop.add_reader(self._socket.fileno(), self._receive)

    def end(self) -> None:
        """Take no more, and give to Kafka what it may not have."""
        if self._socket is not None and self._loop is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self._unrecorded.end()

    def flush(self, timeout_s: float) -> None:
        """Wait after the end until Kafka has it. Blocks; may be called in any thread."""
        self._unrecorded.flush(timeout_s)

    def _receive(self) -> None:
        for _ in range(_TAKEN_AT_ONCE_MAX):
            if self._socket is None or self._loop is None:
                return
            if self._unrecorded.is_full:  # what finds no room in the socket goes through Kafka
                self._is_paused = True
                self._loop.remove_reader(self._socket.fileno())
                return
            datagram = self._socket.receive()
            if datagram is None:
                return
            self._metrics.answers_handed_over += len(datagram.answers)
            for answer in datagram.answers:
                if self._is_awaited(answer.request_id.decode(errors="replace")):
                    self._unrecorded.given(answer)
            self._take(
                [TopicRecord(answer.request_id, answer.value, datagram.timestamp_ms) for answer in datagram.answers]
            )
