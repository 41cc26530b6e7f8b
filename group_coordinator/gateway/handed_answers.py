"""Answers that responders on this machine hand over, before Kafka has them.

The responder writes each of them to Kafka, too, and so does the query. What a client was told is compared with both,
and with what another responder hands over: so also where a responder was killed before Kafka had its answer, which the
coordinator's auditor does not see. Only the last answers are remembered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec
from msgspec import Struct

from group_coordinator.gateway.handover import TopicRecord
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.system.answer_sockets import AnswerSocket, AnswerSocketError

REMEMBERED_MAX = 50_000
"""Answers that are remembered to be compared, some 300 bytes each: those of the last seconds."""
_TAKEN_AT_ONCE_MAX = 10
"""Then the event loop looks what else there is to do."""
_log = logging.getLogger(__name__)


class _Place(Struct, frozen=True):
    """The place of an answer among the outputs of its group: a request that comes twice has two answers."""

    epoch: int = -1
    seq: int = -1


class _Given(NamedTuple):
    """What a client was told."""

    digest: int
    place: _Place


_read_place = msgspec.json.Decoder(_Place).decode


class HandedAnswers:
    """Takes the answers to the requests of one run. All but `compare` is called in the event loop's thread."""

    def __init__(
        self, directory: str | None, run_id: str, metrics: GatewayMetrics, take: Callable[[list[TopicRecord]], None]
    ) -> None:
        """`directory`: the setting `answers_directory`; `run_id`: of the request ids."""
        self._directory, self._run_id = directory, run_id
        self._metrics = metrics
        self._take = take
        self._given: OrderedDict[bytes, _Given] = OrderedDict()
        """By request id: the first that was handed over. (A large `dict` loses its first item slowly.)"""
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
            given = self._given.get(record.key)
            if given is not None:
                self._insist_on(given, record)

    def _insist_on(self, given: _Given, record: TopicRecord) -> None:
        """Tell if an answer differs from the one that was given. One that was handed over has no offset."""
        if given.digest == hash(record.value) or given.place != _place_of(record):
            return
        self._metrics.answers_differing += 1
        is_in_kafka = record.offset >= 0
        place = f"in partition {record.partition} of the responses topic, offset {record.offset}"
        _log.error(
            "The answer to request %s (epoch %d, seq %d) that a responder on this machine has handed over differs from "
            "that %s.",
            record.key.decode(errors="replace"), given.place.epoch, given.place.seq,
            place if is_in_kafka else "which another responder hands over",
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
        given = self._given.get(record.key)
        if given is not None:
            self._insist_on(given, record)
            return
        self._given[record.key] = _Given(hash(record.value), _place_of(record))
        if len(self._given) > REMEMBERED_MAX:
            self._given.popitem(last=False)


def _place_of(record: TopicRecord) -> _Place:
    try:
        return _read_place(record.value or b"")
    except msgspec.DecodeError:
        return _Place()
