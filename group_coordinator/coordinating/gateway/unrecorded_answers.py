"""Answers that clients have got from a responder on this machine, and that Kafka may not have yet.

The responder gives each of them to Kafka a moment later, where the coordinator's auditor compares it with the query's.
If the responder is killed before that, and the query has not said the same either, the gateway gives the answer to
Kafka: so the auditor sees every answer that a client was given. Readers of the topic pass over what a gateway writes.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Mapping
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from group_coordinator.coordinating.answer_sockets import HandedAnswer
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.ground.kafka_topics.clients import new_producer
from schemas.query_progress import GATEWAY_PREFIX, RESPONDER_PREFIX, WRITER_HEADER

RECORDED_AFTER_S = 2.0
"""So long a responder or the query has time to give an answer to Kafka. A responder needs some 20 ms; a gateway that
lags behind so much must not make it worse."""
KEPT_BYTES_MAX = 16_777_216
_ANSWER_BYTES = 700
"""What an answer takes besides its id and value."""
_DELIVERY_TIMEOUT_MS = 300_000
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
    """All but `read` and `flush` is called in the event loop's thread."""

    def __init__(self, config: GatewaySettings, metrics: GatewayMetrics) -> None:
        self._config, self._metrics = config, metrics
        self._partition = 0
        self._producer: Producer | None = None
        """Of its own, once it is needed: what the broker refuses must not disturb the events."""
        self._headers: dict[_Identity, Mapping[str, str]] = {}
        """Of the answers that Kafka may not have."""
        self._order: deque[_Due] = deque()
        """The answers as they came. One that Kafka has leaves when it is the first."""
        self._bytes = 0
        """Of what the order holds."""
        self._told_s = -_TOLD_INTERVAL_S

    def begin(self, partition: int) -> None:
        """`partition`: of the responses topic, which has the answers to the gateway's requests."""
        self._partition = partition

    @property
    def is_full(self) -> bool:
        """No more answers may be given for now."""
        return self._bytes > KEPT_BYTES_MAX

    def given(self, answer: HandedAnswer) -> None:
        """Note an answer before its client gets it."""
        identity = answer.request_id, answer.value
        due = _Due(time.monotonic() + RECORDED_AFTER_S, identity, _ANSWER_BYTES + sum(map(len, identity)))
        self._headers[identity] = answer.headers
        self._order.append(due)
        self._bytes += due.size_bytes

    def read(self, record: TopicRecord) -> None:
        """Note that Kafka has an answer, whoever has written it. May be called in any thread."""
        self._headers.pop((record.key, record.value or b""), None)

    def look(self) -> None:
        """Give to Kafka what it should have by now."""
        now_s = time.monotonic()
        while self._order and (self._order[0].due_s <= now_s or self._order[0].identity not in self._headers):
            if not self._record_first():
                break
        if self._producer is not None:
            self._producer.poll(0)

    def end(self) -> None:
        """Give to Kafka what it may not have."""
        while self._order and self._record_first():
            pass

    def flush(self, timeout_s: float) -> None:
        """Wait after the end until Kafka has it. Blocks; may be called in any thread."""
        left = len(self._headers)
        if self._producer is not None:
            left += self._producer.flush(timeout_s)
        if left:
            self._not_recorded("the gateway has ended before Kafka had taken them", left)

    def _record_first(self) -> bool:
        """Give the first in the order to Kafka if Kafka may not have it; return whether there was room for it."""
        _, identity, size_bytes = self._order[0]
        headers = self._headers.get(identity)
        if headers is not None:
            try:
                self._record(identity, headers)
            except BufferError:
                return False
            except KafkaException as problem:
                self._not_recorded(str(problem))
            self._headers.pop(identity, None)
        self._order.popleft()
        self._bytes -= size_bytes
        return True

    def _record(self, identity: _Identity, headers: Mapping[str, str]) -> None:
        """Raises BufferError, and KafkaException."""
        if self._producer is None:
            self._producer = self._new_producer()
        writer = headers.get(WRITER_HEADER, "").replace(RESPONDER_PREFIX, GATEWAY_PREFIX, 1)
        key, value = identity
        self._producer.produce(
            f"{self._config.topic_prefix}.responses", value, key, self._partition,
            headers=[*{**headers, WRITER_HEADER: writer}.items()], on_delivery=self._delivered,
        )  # fmt: skip
        self._metrics.answers_recorded += 1

    def _new_producer(self) -> Producer:
        return new_producer(
            self._config.coordinator_client_properties,
            {
                "acks": "all",
                "message.timeout.ms": str(_DELIVERY_TIMEOUT_MS),
                "queue.buffering.max.kbytes": str(KEPT_BYTES_MAX // 1_024),
                "delivery.report.only.error": True,
            },
        )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._not_recorded(error.str())

    def _not_recorded(self, reason: str, answers: int = 1) -> None:
        self._metrics.answers_not_recorded += answers
        now_s = time.monotonic()
        if now_s - self._told_s >= _TOLD_INTERVAL_S:
            self._told_s = now_s
            _log.error(
                "Answers that clients were given by a responder may not be in Kafka: %s. Then nobody compares them "
                "with the query's. The gateway needs Write on %s.responses.", reason, self._config.topic_prefix,
            )  # fmt: skip
