"""Answers that clients have got from a responder on this machine, and that Kafka may not have yet.

The responder gives each of them to Kafka a moment later, where the coordinator's auditor compares it with the query's.
If the responder is killed before that, the gateway gives the answer to Kafka in its place: the auditor sees every
answer that a client was given.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from group_coordinator.gateway.handover import TopicRecord
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.system.answer_sockets import HandedAnswer

RECORDED_AFTER_S = 0.5
"""So long a responder has time to give an answer to Kafka; it needs some 20 ms."""
KEPT_BYTES_MAX = 16_777_216
_ANSWER_BYTES = 700
"""What an answer takes besides its id and value."""
_TOLD_INTERVAL_S = 60.0
_Identity = tuple[bytes, bytes]
"""Request id and value. A request that came twice has two answers, of another epoch or seq in the value."""
_log = logging.getLogger(__name__)


class _Due(NamedTuple):
    """When Kafka should have an answer."""

    due_s: float
    identity: _Identity
    size_bytes: int


class UnrecordedAnswers:
    """All but `read` is called in the event loop's thread."""

    def __init__(self, topic: str, metrics: GatewayMetrics) -> None:
        """`topic`: where the answers belong."""
        self._topic, self._metrics = topic, metrics
        self._producer: Producer | None = None
        self._partition = 0
        self._headers: dict[_Identity, Mapping[str, str]] = {}
        """Of the answers that have not been read yet."""
        self._order: deque[_Due] = deque()
        """These, and what has been read since behind the first of them."""
        self._bytes = 0
        """Of what the order holds."""
        self._told_s = -_TOLD_INTERVAL_S

    def begin(self, producer: Producer, partition: int) -> None:
        """Write to this partition. The producer calls back where its `poll` is called, and reports errors alone."""
        self._producer, self._partition = producer, partition

    @property
    def is_full(self) -> bool:
        """No more answers may be given for now."""
        return self._bytes > KEPT_BYTES_MAX

    def given(self, answer: HandedAnswer) -> None:
        """Note an answer before its client gets it."""
        self._note((answer.request_id, answer.value), answer.headers)

    def read(self, record: TopicRecord) -> None:
        """Note that Kafka has an answer, whoever has written it. May be called in any thread."""
        self._headers.pop((record.key, record.value or b""), None)

    def look(self) -> None:
        """Give to Kafka what it should have by now."""
        now_s = time.monotonic()
        while self._order and (self._order[0].due_s <= now_s or self._order[0].identity not in self._headers):
            if not self._record_first():
                return

    def end(self) -> None:
        """Give to Kafka what it may not have; the producer is to be flushed."""
        while self._order and self._record_first():
            pass

    def _note(self, identity: _Identity, headers: Mapping[str, str]) -> None:
        due = _Due(time.monotonic() + RECORDED_AFTER_S, identity, _ANSWER_BYTES + sum(map(len, identity)))
        self._headers[identity] = headers
        self._order.append(due)
        self._bytes += due.size_bytes

    def _record_first(self) -> bool:
        """Give the first in the order to Kafka if it was not read; return whether it could be sent."""
        assert self._producer is not None
        _, identity, size_bytes = self._order[0]
        headers = self._headers.get(identity)
        if headers is not None:
            key, value = identity
            try:
                self._producer.produce(
                    self._topic, key=key, value=value, partition=self._partition, headers=list(headers.items()),
                    on_delivery=partial(self._not_recorded, identity, headers),
                )  # fmt: skip
            except (BufferError, KafkaException):
                return False
            self._metrics.answers_recorded += 1
            self._headers.pop(identity, None)
        self._order.popleft()
        self._bytes -= size_bytes
        return True

    def _not_recorded(
        self, identity: _Identity, headers: Mapping[str, str], error: KafkaError | None, message: Message
    ) -> None:
        """Try it again in a while."""
        if error is None:
            return
        self._metrics.answers_not_recorded += 1
        self._note(identity, headers)
        now_s = time.monotonic()
        if now_s - self._told_s >= _TOLD_INTERVAL_S:
            self._told_s = now_s
            _log.error(
                "Kafka has not taken an answer that a client was given by a responder that has ended: %s. Nobody "
                "compares it with the query's until then. It is tried again; the gateway needs Write on %s.",
                error.str(), self._topic,
            )  # fmt: skip
