"""The loop of a responder: events of one partition in, answers out, as soon as an event is in the log.

It has no state of its own that must outlive it: it begins with the query's state, and may be killed at any time.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from group_coordinator.coordinating.answer_sockets import AnswerSender, HandedAnswer
from group_coordinator.coordinating.responder.answering import AnsweringShard, LogPlace, TakenAnswers
from group_coordinator.coordinating.responder.permission import (
    ResponderError,
    alone,
    require_permission,
    require_same_decisions,
    require_same_hash,
)
from group_coordinator.coordinating.responder.protocol import ResponderStatus
from group_coordinator.coordinating.responder.ticking import ResponderTicker
from group_coordinator.ground.kafka_topics.clients import new_producer
from group_coordinator.ground.kafka_topics.reader import TopicReader, headers_of, offset_of
from schemas.output_records import OutputRecord
from schemas.query_progress import (
    CORE_HASH_HEADER,
    DECIDED_AT_HEADER,
    RESPONDER_PREFIX,
    WRITER_HEADER,
    GatewayAlive,
    GroupsAsked,
    ProgressRecord,
    QueryProgress,
    ResponderClaim,
    ResponderProgress,
    decode_progress,
    encode_progress,
    key_of,
)
from schemas.ticks import NO_CLOCK
from streaming.operator_config import OperatorConfig
from streaming.progress_topic import read_progress
from streaming.stored_group import ShardState

POLL_S = 0.2
STATUS_INTERVAL_S = 1.0
_DELIVERY_TIMEOUT_MS = 30_000
_FLUSH_TIMEOUT_S = 5.0
SENT_TOGETHER_MAX = 20
"""Answers to events that have come together go together, for which the broker and the gateway need less time than one
by one; but the first does not wait for more than so many."""
HELD_S = 0.01
"""Nobody waits for Kafka's copy of an answer that was handed over: it goes there after so long, with those that
follow. A responder that is killed meanwhile leaves it to the query and the gateway."""
HELD_MAX = 100
"""The same, for a number of answers."""
_HANDLED_MAX = 10_000
"""Moments that are kept to measure the lead."""
_log = logging.getLogger(__name__)


class _Decided(NamedTuple):
    """An answer that follows from the log."""

    number: int
    """Later ones have larger numbers."""
    record: OutputRecord
    """Its headers also say who has written it."""
    decided_at: int
    """The offset of the event from which it follows."""


class Responder:
    """Answers for one shard until it is asked to end."""

    def __init__(
        self,
        config: OperatorConfig,
        client_properties: Mapping[str, str],
        state: ShardState,
        core_hash: str,
        *,
        alone_max_ms: int,
        ticker: ResponderTicker | None = None,
        sender: AnswerSender | None = None,
        report: Callable[[ResponderStatus], None] = lambda status: None,
    ) -> None:
        """`core_hash`: of this process; `alone_max_ms`: how long it may answer without a sign of the query.

        `ticker`: writes the clock while nobody else does. `sender`: hands answers to gateways on this machine; None:
        they go through Kafka alone. `report`: called about once a second.
        """
        self._config, self._properties = config, client_properties
        self._core_hash = core_hash
        self._alone_max_ms = alone_max_ms
        self._ticker = ticker
        self._sender = sender
        self._report = report
        self._shard = AnsweringShard(config, state)
        self._state_offsets = state.start_offset, state.end_offset
        self._writer = f"{RESPONDER_PREFIX}{config.partition}"
        self._failure: KafkaError | None = None
        self._answers = 0
        self._new: list[_Decided] = []
        """Answers that nobody has got yet."""
        self._held: list[_Decided] = []
        """Answers that were given, and that Kafka gets in a moment."""
        self._held_since_s = 0.0
        self._backlog_end = 0
        """Events before this offset were there at the start."""
        self._taken = TakenAnswers()
        self._lead_ms: int | None = None
        self._published_ms = NO_CLOCK
        """The clock that was published last."""
        # The clock runs ahead of that by half of the shortest session at most: with less often it would stand and wait.
        self._published_every_s = min(STATUS_INTERVAL_S, config.group.group_min_session_timeout_ms / 4_000)
        self._query_end = state.end_offset
        self._query_clock_ms = NO_CLOCK
        self._query_heard_s = time.monotonic()
        self._handled: deque[tuple[int, float]] = deque()
        """Offset up to which events were answered -> when; of what the query has not committed yet."""

    def run(self, is_wanted: Callable[[], bool]) -> None:
        """Answer as long as `is_wanted` says so.

        Raises ResponderRefusedError, ResponderAloneError, and ResponderError or KafkaException: then it may be started
        again.
        """
        topics, partition = self._config.topics, self._config.partition
        producer = self._producer()
        properties = {**self._properties, "auto.offset.reset": "error"}  # events that are gone must not be passed over
        try:
            with TopicReader(properties, "responder", reports_ends=False, waits_at_the_end=True) as reader:
                self._require_permission(reader)
                self._claim(producer)
                # A query of another release that has not seen the claim has published before where it begins.
                progress_end = reader.bounds_when_led(topics.progress, partition).end
                self._require_permission(reader)
                self._begin(reader, progress_end)
                self._answer(reader, producer, is_wanted)
        finally:
            self._end(producer)

    def _end(self, producer: Producer) -> None:
        """Send what is held, and end; whatever comes of that, the reason of the end is the one to be told."""
        try:
            if self._failure is None:
                self._send(producer)
        except (ResponderError, KafkaException):
            _log.warning("Kafka has not taken the last answers; the query gives them.")
        finally:
            if self._ticker is not None:
                self._ticker.stop()
            producer.flush(_FLUSH_TIMEOUT_S)

    def _require_permission(self, reader: TopicReader) -> None:
        partition = self._config.partition
        published = read_progress(reader, self._config.topics.progress, partition)
        silence_s = require_permission(published, partition, self._core_hash, self._alone_max_ms)
        self._query_heard_s = time.monotonic() - silence_s

    def _claim(self, producer: Producer) -> None:
        """Say that there are answers of a responder, before there are any."""
        self._say(producer, ResponderClaim(core_hash=self._core_hash), on_delivery=self._delivered)
        if producer.flush(_DELIVERY_TIMEOUT_MS / 1_000):
            raise ResponderError("Kafka does not take the responder's claim.")
        self._require_delivery()

    def _begin(self, reader: TopicReader, progress_end: int) -> None:
        topics, partition = self._config.topics, self._config.partition
        start_offset, end_offset = self._state_offsets
        log_begin, self._backlog_end = reader.bounds_when_led(topics.events, partition)
        if log_begin > start_offset and end_offset:  # a new coordinator begins where the log does
            raise ResponderError(
                f"Events before offset {log_begin} are deleted, and from {start_offset} on they are needed: the ticks "
                f"of the query's last batch, or what comes after it, from {end_offset} on."
            )
        begin = max(start_offset, log_begin)
        reader.assign({(topics.events, partition): begin, (topics.progress, partition): progress_end})
        if self._ticker is not None:
            self._ticker.start(is_whole=log_begin == 0)

    def _answer(self, reader: TopicReader, producer: Producer, is_wanted: Callable[[], bool]) -> None:
        next_status_s = next_published_s = 0.0
        while is_wanted():
            messages = reader.poll(HELD_S if self._held else POLL_S)
            for message in messages:
                self._take(message)
                if len(self._new) >= SENT_TOGETHER_MAX:
                    self._give(producer)
            self._give(producer)
            self._tell_changes(producer)
            producer.poll(0)
            self._require_delivery()
            now_s = time.monotonic()
            if messages:
                self._note_handled(now_s)
            self._tick(reader)
            if 1_000 * (now_s - self._query_heard_s) > self._alone_max_ms:
                raise alone(now_s - self._query_heard_s)
            if now_s >= next_published_s:
                next_published_s = now_s + self._published_every_s
                self._publish(producer)
            if now_s >= next_status_s:
                next_status_s = now_s + STATUS_INTERVAL_S
                self._report(self._status())

    def _tick(self, reader: TopicReader) -> None:
        """Have the clock go on if nobody else writes it: as far as the query or this responder has answered."""
        if self._ticker is None:
            return
        end = reader.last_known_end(self._config.topics.events, self._config.partition)
        has_caught_up = end is not None and self._shard.next_offset >= end
        answered_ms = max(self._taken.up_to(self._here).clock_ms, self._query_clock_ms)
        self._ticker.answered(answered_ms, has_caught_up=has_caught_up)

    def _publish(self, producer: Producer) -> None:
        """Tell the coordinator's ticker how far the clock is answered; again and again while its query is behind: the
        ticker may have begun just now, and wait for it."""
        answered = self._taken.up_to(self._here)
        if answered.clock_ms == self._published_ms and self._query_clock_ms >= self._published_ms:
            return
        self._published_ms = answered.clock_ms
        with suppress(BufferError):
            self._say(producer, ResponderProgress(core_hash=self._core_hash, **answered._asdict()))

    def _tell_changes(self, producer: Producer) -> None:
        """Tell those who have asked which groups have changed, when all is answered that was there at the start."""
        if self._shard.next_offset < self._backlog_end:
            return
        for answer in self._shard.changed.answers():
            with suppress(BufferError):  # who has asked does not wait for long
                self._say(producer, answer)

    def _say(self, producer: Producer, record: ProgressRecord, **options: Any) -> None:
        """Write to the progress topic. Raises BufferError and KafkaException."""
        producer.produce(
            self._config.topics.progress, key=key_of(type(record)), value=encode_progress(record),
            partition=self._config.partition, **options,
        )  # fmt: skip

    def _take(self, message: Message) -> None:
        error = message.error()
        if error is not None:
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise ResponderError(f"Events are gone before they were read: {error.str()}.")
            return
        if message.topic() == self._config.topics.progress:
            self._take_progress(message.value(), message.timestamp()[1])
            return
        offset, key = offset_of(message), message.key()
        if key is None:
            self._heed_fence(message)
        before = LogPlace(offset, self._shard.clock_ms)
        records = self._shard.take(
            None if key is None else bytes(key), message.value(), offset, message.timestamp()[1]
        )
        for record in records:
            self._taken.sent(self._answers, before)
            writer = {WRITER_HEADER: self._writer, DECIDED_AT_HEADER: str(before.end_offset)}
            signed = record._replace(headers=record.headers | writer)
            self._new.append(_Decided(self._answers, signed, before.end_offset))
            self._answers += 1
        if self._ticker is not None:
            self._ticker.taken(message, self._shard.clock_ms)

    def _heed_fence(self, tick: Message) -> None:
        """What comes after the fence of a query of another hash is that query's. Its progress says so, too, but may
        be read later than its events. Raises ResponderRefusedError."""
        of_query = headers_of(tick).get(CORE_HASH_HEADER)
        if of_query is not None and offset_of(tick) >= self._state_offsets[1]:
            require_same_hash(of_query, self._config.partition, self._core_hash)

    @property
    def _here(self) -> LogPlace:
        return LogPlace(self._shard.next_offset, self._shard.clock_ms)

    def _give(self, producer: Producer) -> None:
        """Give the new answers to those who wait for them: through Kafka, unless all of them are handed over."""
        are_handed = not self._new or self._hand_over(self._new)
        if self._new and not self._held:
            self._held_since_s = time.monotonic()
        self._held += self._new  # behind those before: the answers of a group stay in their order
        self._new.clear()
        if self._held and (
            not are_handed or len(self._held) >= HELD_MAX or time.monotonic() - self._held_since_s >= HELD_S
        ):
            self._send(producer)

    def _hand_over(self, answers: Sequence[_Decided]) -> bool:
        """Hand answers to gateways on this machine; return whether all of them have been. Those to the backlog of the
        start are not: most of them were given long ago."""
        if self._sender is None or answers[0].decided_at < self._backlog_end:
            return False
        return self._sender.hand_over(
            HandedAnswer(record.key or b"", record.value or b"", record.headers) for _, record, _ in answers
        )

    def _send(self, producer: Producer) -> None:
        for answer in self._held:
            self._write(producer, answer)
        self._held.clear()

    def _write(self, producer: Producer, answer: _Decided) -> None:
        record = answer.record
        while True:
            try:
                producer.produce(
                    record.topic, key=record.key, value=record.value, partition=record.partition,
                    headers=list(record.headers.items()), on_delivery=partial(self._answer_delivered, answer.number),
                )  # fmt: skip
            except BufferError:
                producer.poll(0.1)
                self._require_delivery()
            else:
                return

    def _take_progress(self, value: bytes | None, timestamp_ms: int) -> None:
        record = None if value is None else decode_progress(value)
        if record is not None:
            self._heed(record, timestamp_ms)

    def _heed(self, record: ProgressRecord, timestamp_ms: int) -> None:
        """Follow what is published about the query. Raises ResponderRefusedError."""
        require_same_decisions(record, self._config.partition, self._core_hash)
        if isinstance(record, GatewayAlive) and self._ticker is not None:
            self._ticker.gateway_heard()
        if isinstance(record, GroupsAsked):
            self._shard.changed.asked(record)
        if not isinstance(record, QueryProgress):
            return
        now_s, silence_s = time.monotonic(), max(time.time() - timestamp_ms / 1_000, 0.0)
        self._query_heard_s = max(self._query_heard_s, now_s - silence_s)
        self._query_clock_ms = record.clock_ms
        self._shard.changed.committed(record.end_offset, record.clock_ms, now_s)
        self._query_end = max(self._query_end, record.end_offset)
        while self._handled and self._handled[0][0] <= self._query_end:
            _, handled_s = self._handled.popleft()
            self._lead_ms = int(1_000 * (now_s - handled_s))

    def _note_handled(self, now_s: float) -> None:
        offset = self._shard.next_offset
        if offset > self._query_end and (not self._handled or self._handled[-1][0] < offset):
            self._handled.append((offset, now_s))
            if len(self._handled) > _HANDLED_MAX:
                self._handled.popleft()

    def _answer_delivered(self, number: int, error: KafkaError | None, message: Message) -> None:
        self._delivered(error, message)
        if error is None:
            self._taken.taken(number)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and self._failure is None:
            self._failure = error

    def _require_delivery(self) -> None:
        """An answer that Kafka has not taken would be a gap: it must not get the next answers of the group."""
        if self._failure is not None:
            raise ResponderError(f"Kafka has not taken an answer: {self._failure.str()}.")

    def _status(self) -> ResponderStatus:
        return ResponderStatus(
            answers=self._answers,
            next_offset=self._shard.next_offset,
            lead_ms=self._lead_ms,
            groups=self._shard.groups,
            state_bytes=self._shard.state_bytes,
            clock_ms=self._shard.clock_ms,
            is_ticking=self._ticker is not None and self._ticker.is_ticking,
        )

    def _producer(self) -> Producer:
        return new_producer(
            self._properties,
            {
                "acks": "all",
                "enable.idempotence": True,  # and with it the order of what is sent, over retries
                "enable.gapless.guarantee": True,
                "linger.ms": 0,
                "max.in.flight": 2,  # and what comes meanwhile goes together: one by one would cost far more
                "message.timeout.ms": _DELIVERY_TIMEOUT_MS,
                "message.max.bytes": self._config.output_max_bytes,
            },
        )
