"""Group requests become events, and answers come from one partition of the responses topic.

All but the reader runs in the event loop's thread. An answer that does not come in time, or an event that cannot be
written, is answered COORDINATOR_NOT_AVAILABLE: the client looks up the coordinator again and keeps its membership.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from msgspec import UNSET, Struct
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.answer_sizes import SIZED, AnswerSizes
from group_coordinator.coordinating.gateway.config import GatewayError, GatewaySettings
from group_coordinator.coordinating.gateway.group_events import GroupEvent, OnAnswer, without_bulk
from group_coordinator.coordinating.gateway.handed_answers import HandedAnswers
from group_coordinator.coordinating.gateway.handover import Handover, TopicRecord, topic_records
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.coordinating.gateway.refusals import refusal
from group_coordinator.coordinating.gateway.request_ids import RequestIds
from group_coordinator.coordinating.gateway.shard_count import ShardCount, partition_counts
from group_coordinator.coordinating.gateway.transactions import TransactionLog, appended_code, unanswered_code
from group_coordinator.ground.kafka_topics.clients import new_producer
from group_coordinator.ground.kafka_topics.errors import TopicReadError
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.events import (
    MEMBER_ID_SUFFIX_BYTES,
    WIRE_STRING_MAX_BYTES,
    EventError,
    decode_request_event,
    decode_response_event,
    encode_request_event,
)
from schemas.java_hash import group_partition
from schemas.messages import (
    JoinGroupRequest,
    OffsetCommitRequest,
    Response,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
)

_EVENT_BYTES_MAX = 1_000_000
"""Key and value; the events topic takes a little more (docs/topics.md)."""
_HELD_JOIN_MARGIN_MS = 15_000
_HELD_SYNC_MS = 310_000
"""A SyncGroup waits for the leader, for no longer than members wait for a rebalance (by default 300 s)."""
_SWEEP_INTERVAL_S = 0.1
_UNSENT_KBYTES = 131_072
"""Events that Kafka has not taken yet; what is beyond is in doubt at once."""


class _Pending(Struct):
    event: GroupEvent
    on_answer: OnAnswer
    sent_ms: float
    """Wall clock: compared with the timestamps of records."""
    deadline_s: float
    """By the loop's clock."""


class _Unsent(NamedTuple):
    """An event that waits for the others of this turn of the loop."""

    group_id: str
    value: bytes
    on_failure: Callable[[], None]
    """Called if the log does not take it; in the loop's thread, by the producer's poll."""


class EventsClient:
    """The client sends events and hands out their answers."""

    def __init__(
        self,
        config: GatewaySettings,
        metrics: GatewayMetrics,
        sizes: AnswerSizes,
        on_failure: Callable[[GatewayError], None],
        transaction_log: TransactionLog | None = None,
    ) -> None:
        """`sizes` learns how long answers are. `transaction_log` takes commits in transactions, in place of the events.

        `on_failure`: called, in any thread, when events can be written or answers be read no more.
        """
        self._transaction_log = transaction_log
        self._sizes = sizes
        self._on_failure = on_failure
        self._config = config
        self._metrics = metrics
        self._request_ids = RequestIds()
        self._pending: dict[str, _Pending] = {}
        self._unsent: list[_Unsent] = []
        self._events_topic = f"{config.topic_prefix}.events"
        self._handed_answers = HandedAnswers(
            config, self._request_ids.run_id, metrics, is_awaited=self._is_awaited, take=self._take
        )
        self._shards = 0
        self._reply_partition = 0
        self._producer: Producer | None = None
        self._reader: TopicFollower | None = None
        self._handover: Handover | None = None
        self._shard_count: ShardCount | None = None
        self._watching: asyncio.Task[None] | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def connect(self, loop: asyncio.AbstractEventLoop) -> None:
        """Find the topics, and stand ready for answers. Blocks; raises GatewayError when they are not there."""
        properties = self._config.coordinator_client_properties
        responses_topic = f"{self._config.topic_prefix}.responses"
        counts = partition_counts(properties, [self._events_topic, responses_topic])
        shards = counts[self._events_topic]
        self._shard_count = ShardCount(properties, self._events_topic, shards)
        self._shard_count.insist_on_ends()
        # Gateways that happen to share a partition tell their answers by the request ids.
        reply_partition = random.randrange(counts[responses_topic])
        self.attach(loop, self._new_producer(properties), shards, reply_partition)
        if self._transaction_log is not None:
            self._transaction_log.connect(loop, shards)
        self._reader = TopicFollower(
            properties, "gateway", lambda messages: self.read(topic_records(messages)),
            on_failure=lambda problem: self._on_failure(reading_ended(problem)),
        )  # fmt: skip
        try:
            self._reader.start(from_end=[(responses_topic, reply_partition)])
        except TopicReadError as problem:
            raise GatewayError(str(problem)) from problem

    def attach(
        self, loop: asyncio.AbstractEventLoop, producer: Producer, shards: int, reply_partition: int
    ) -> None:
        """Send by this producer and take answers in this loop from now on."""
        self._loop, self._producer = loop, producer
        self._handover = Handover(loop, self._take_read)
        self._shards, self._reply_partition = shards, reply_partition

    def _new_producer(self, properties: Mapping[str, str]) -> Producer:
        return new_producer(
            properties,
            {
                "enable.idempotence": "true",  # and with it the order of what is sent, over retries
                "linger.ms": "0",
                "max.in.flight": "2",  # and what comes meanwhile goes together: one by one would cost far more
                "message.timeout.ms": str(self._config.answer_timeout_ms),
                "message.max.bytes": str(_EVENT_BYTES_MAX + 20_000),
                "queue.buffering.max.kbytes": str(_UNSENT_KBYTES),
                "delivery.report.only.error": True,
                "error_cb": self.producer_failed,
            },
        )

    def begin(self) -> None:
        """Take answers of responders on this machine, and watch over deadlines and the number of shards, from now on;
        in the loop's thread."""
        assert self._loop is not None
        self._handed_answers.begin(self._loop, self._reply_partition)
        if self._shard_count is not None:  # it has connected
            self._watching = self._loop.create_task(self._shard_count.watch(self._on_failure))
        self.sweep()

    def sweep(self) -> None:
        """Answer what was waited for too long, and again in a moment; in the loop's thread."""
        assert self._loop is not None
        assert self._producer is not None
        try:
            self._producer.poll(0)
            now_s = self._loop.time()
            # Answers come in any order, and there is a deadline for each kind of request: all are looked at.
            for request_id in [number for number, pending in self._pending.items() if pending.deadline_s <= now_s]:
                self._in_doubt(request_id)
            self._handed_answers.look()
        finally:
            # Whatever one answer ran into: the other deadlines must not be forgotten for it.
            self._sweeper = self._loop.call_later(_SWEEP_INTERVAL_S, self.sweep)

    def stop_watching(self) -> None:
        """Send what is left and stop the watch before `end`, in the loop's thread."""
        if self._unsent:  # there is no producer where no topics were found
            self._send_all()
        if self._watching is not None:
            self._watching.cancel()
        self._handed_answers.end()

    def end(self) -> None:
        """Stop reading and sending; nobody gets an answer any more. Blocks for a moment."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._reader is not None:
            self._reader.stop()
        if self._producer is not None:
            self._producer.flush(2.0)
        self._handed_answers.flush(2.0)
        if self._transaction_log is not None:
            self._transaction_log.end()

    # ------------------------------------------------------------------------------------------------------- sending

    def ask(self, event: GroupEvent, on_answer: OnAnswer) -> None:
        """Send an event. `on_answer` is called once, now or later, in the loop's thread."""
        assert self._loop is not None
        request_id = self._request_ids.new()
        value = self._encode(event, request_id)
        if event.topic_metadata is not UNSET and len(value) > _EVENT_BYTES_MAX:
            event = replace(event, topic_metadata=UNSET)  # the group is told of its topics later
            value = self._encode(event, request_id)
        key = event.group_id.encode()
        problem = self._problem(event, key, value)
        if problem is not None:
            on_answer(refusal(event.request, problem))
            return
        self._pending[request_id] = _Pending(
            event=without_bulk(event),
            on_answer=on_answer,
            sent_ms=time.time() * 1_000,
            deadline_s=self._loop.time() + self._patience_ms(event) / 1_000,
        )
        self._metrics.pending = len(self._pending)
        if isinstance(event.request, TxnOffsetCommitRequest):
            assert self._transaction_log is not None
            self._transaction_log.append(
                event.request, event.api_version, value, partial(self._not_appended, request_id)
            )
        else:
            self._send(_Unsent(event.group_id, value, partial(self._in_doubt, request_id)))

    def append(self, group_id: str, value: bytes, on_failure: Callable[[], None]) -> None:
        """Append an event without an answer. `on_failure` is called, now or later, if the log has not taken it."""
        self._send(_Unsent(group_id, value, on_failure))

    def _send(self, event: _Unsent) -> None:
        """Send an event when this turn of the loop is over. Where many clients wait, their events go together, for
        which the broker and the responder need less time than one by one; where one waits, it loses nothing."""
        assert self._loop is not None
        self._unsent.append(event)
        if len(self._unsent) == 1:
            self._loop.call_soon(self._send_all)

    def _send_all(self) -> None:
        assert self._producer is not None
        unsent, self._unsent = self._unsent, []
        for event in unsent:
            try:
                self._producer.produce(
                    self._events_topic, event.value, event.group_id.encode(),
                    group_partition(event.group_id, self._shards), on_delivery=partial(_not_written, event.on_failure),
                )  # fmt: skip
            except (BufferError, KafkaException):
                event.on_failure()

    def _encode(self, event: GroupEvent, request_id: str) -> bytes:
        is_shared = isinstance(event.request, TxnOffsetCommitRequest)  # the room of the relay is, among clients
        return encode_request_event(
            event.api,
            event.api_version,
            event.request,
            request_id=request_id,
            reply_partition=self._reply_partition,
            client_id=event.client_id,
            client_host=event.client_host,
            new_member_id=event.new_member_id,
            topic_metadata=event.topic_metadata,
            principal=event.principal if is_shared else UNSET,
        )

    def _problem(self, event: GroupEvent, key: bytes, value: bytes) -> ErrorCode | None:
        """Return why an event would not be answered: it is too large for the log, or the coordinator refuses one of its
        strings."""
        if len(key) + len(value) > _EVENT_BYTES_MAX:
            return (
                ErrorCode.INVALID_COMMIT_OFFSET_SIZE
                if isinstance(event.request, OffsetCommitRequest | TxnOffsetCommitRequest)
                else ErrorCode.MESSAGE_TOO_LARGE
            )
        if len(value) + MEMBER_ID_SUFFIX_BYTES > WIRE_STRING_MAX_BYTES:
            try:
                decode_request_event(event.group_id, value)
            except EventError:
                # Of what a commit says, only the metadata can be so long.
                is_commit = isinstance(event.request, OffsetCommitRequest | TxnOffsetCommitRequest)
                return ErrorCode.OFFSET_METADATA_TOO_LARGE if is_commit else ErrorCode.INVALID_REQUEST
        return None

    def _patience_ms(self, event: GroupEvent) -> float:
        """Return how long to wait: a JoinGroup and a SyncGroup may be parked while a group rebalances."""
        request = event.request
        if isinstance(request, JoinGroupRequest):
            held_ms = max(request.rebalance_timeout_ms, request.session_timeout_ms, 0)
            return max(held_ms + _HELD_JOIN_MARGIN_MS, self._config.answer_timeout_ms)
        if isinstance(request, SyncGroupRequest):
            return max(_HELD_SYNC_MS, self._config.answer_timeout_ms)
        if isinstance(request, ConsumerGroupHeartbeatRequest):
            return min(self._config.consumer_heartbeat_timeout_ms, self._config.answer_timeout_ms) - event.waited_ms
        return self._config.answer_timeout_ms

    def producer_failed(self, error: KafkaError) -> None:
        """Handle an error of the producer; librdkafka recovers from errors that are not fatal. The producer's poll
        calls it in the loop's thread."""
        if error.fatal():
            self._on_failure(GatewayError(f"No event can be written any more: {error.str()}. Start the gateway again."))

    def _in_doubt(self, request_id: str) -> None:
        pending = self._pending.pop(request_id, None)
        if pending is None:
            return
        self._metrics.in_doubt += 1
        self._metrics.pending = len(self._pending)
        code, request = ErrorCode.COORDINATOR_NOT_AVAILABLE, pending.event.request
        if isinstance(request, TxnOffsetCommitRequest) and self._transaction_log is not None:
            self._transaction_log.forget(request.producer_id)
            code = unanswered_code(pending.event.api_version)
        pending.on_answer(refusal(request, code))

    def _not_appended(self, request_id: str, code: ErrorCode) -> None:
        pending = self._pending.pop(request_id, None)
        if pending is not None:
            self._metrics.pending = len(self._pending)
            pending.on_answer(refusal(pending.event.request, appended_code(code, pending.event.api_version)))

    # ------------------------------------------------------------------------------------------------------- answers

    def read(self, records: list[TopicRecord]) -> None:
        """Hand over the answers among these records; called in the reader's thread."""
        assert self._handover is not None
        awaited: list[TopicRecord] = []
        for record in records:
            if self._is_awaited(record.key.decode(errors="replace")):
                awaited.append(record)
            else:
                self._handed_answers.read(record)
        self._metrics.answers_unexpected += len(records) - len(awaited)
        if awaited:
            self._handover.give(awaited, lambda: self._reader is not None and self._reader.is_stopping)

    def _is_awaited(self, request_id: str) -> bool:
        return request_id in self._pending

    def _take_read(self, records: list[TopicRecord]) -> None:
        """Take answers that Kafka has. A responder may have handed them over since they were read."""
        for record in records:
            self._handed_answers.read(record)
        self._take(records)

    def _take(self, records: list[TopicRecord]) -> None:
        now_ms = time.time() * 1_000
        for record in records:
            pending = self._pending.pop(record.key.decode(errors="replace"), None)
            if pending is None or record.value is None:
                self._metrics.answers_unexpected += 1  # written twice
                continue
            self._metrics.coordinator_ms.add(max(0.0, record.timestamp_ms - pending.sent_ms))
            self._metrics.reading_ms.add(max(0.0, now_ms - record.timestamp_ms))
            if isinstance(pending.event.request, SIZED):
                self._sizes.learn(pending.event.api, pending.event.group_id, len(record.value))
            pending.on_answer(_response_to(pending.event, record.value))
        self._metrics.pending = len(self._pending)


def _response_to(event: GroupEvent, value: bytes) -> Response:
    """Return what a record answers. What is none, or answers another kind of request, is in doubt."""
    try:
        envelope, response = decode_response_event(value)
    except EventError:
        return refusal(event.request, ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return response if envelope.api == event.api else refusal(event.request, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _not_written(on_failure: Callable[[], None], error: KafkaError | None, message: Message) -> None:
    on_failure()


def reading_ended(problem: TopicReadError) -> GatewayError:
    """Return the error that ends the gateway when one of its threads can read no more."""
    return GatewayError(f"{problem} Start the gateway again.")
