"""The ticker: the one place where wall time enters the log. `streaming.clock` is its arithmetic."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, KafkaError, KafkaException, Message, Producer

from coordinator_state.config import NEW_MEMBER_JOIN_TIMEOUT_MS
from group_coordinator.ground.kafka_topics.clients import new_producer
from group_coordinator.ground.kafka_topics.reader import TopicReader
from schemas.events import RENEWAL_AT_PRESENT, SESSION_RENEWAL, encode_tick
from schemas.query_progress import RESPONDER_PREFIX, WRITER_HEADER
from streaming.clock import AppendedRecord, Renewal, SendTimes, Standstill, Step, TickClock, TickerStatus, rest_ms
from streaming.config import StreamingConfig
from streaming.events_tail import (
    ClockPosition,
    LastTick,
    RecentGroups,
    find_clock_position,
    open_reader,
    writer_of_tick,
)
from streaming.topics import TopicError, senders_times

DELIVERY_TIMEOUT_MS = 5_000
LOOK_TIMEOUT_S = 1.0
_IDLE_WAIT_S = 0.1

_log = logging.getLogger(__name__)


def machine_wall_ms() -> int:
    """Return this machine's clock, in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Ticker:
    """Writes the ticks of one events partition, from `start` until `stop`. Survives every outage of the log.

    Before the first tick after a pause it renews the sessions of every group that may have members. The coordinator's
    ticker ticks at all times; that of a responder only while it may, and its ticks name it as their writer.
    """

    @classmethod
    def of(cls, config: StreamingConfig, shard: int, **more: Any) -> Ticker:
        """Return the ticker of a shard, with the settings of a coordinator; `more`: further parameters."""
        return cls(
            config.topics.events,
            shard,
            config.client_properties,
            interval_ms=config.tick_interval_ms,
            lead_ms=config.tick_lead_ms,
            pause_ms=config.tick_pause_ms,
            session_max_ms=max(config.group.group_max_session_timeout_ms, NEW_MEMBER_JOIN_TIMEOUT_MS),
            ahead_max_ms=config.group.tick_ahead_bound_ms,
            **more,
        )

    def __init__(
        self,
        topic: str,
        partition: int,
        client_properties: Mapping[str, str],
        *,
        interval_ms: int,
        lead_ms: int,
        pause_ms: int,
        session_max_ms: int,
        ahead_max_ms: int,
        on_tick: Callable[[], None] = lambda: None,
        wall_ms: Callable[[], int] = machine_wall_ms,
        writer: str | None = None,
        may_tick: Callable[[], bool] = lambda: True,
        find_position: Callable[[], ClockPosition | None] | None = None,
    ) -> None:
        """`interval_ms`, `lead_ms`, `pause_ms`, `ahead_max_ms`: see `TickClock`.

        `session_max_ms`: the longest session that a member can have. `on_tick` is called, in the ticker's thread, when
        the log has taken a tick that moves the clock. `writer`: the responder that ticks. `may_tick` is asked before
        each tick, in the ticker's thread. `find_position` returns where the log's clock stands; without it the end of
        the log is read.
        """
        self._topic, self._partition = topic, partition
        self._properties = dict(client_properties)
        self._interval_ms, self._lead_ms, self._pause_ms = interval_ms, lead_ms, pause_ms
        self._ahead_max_ms = ahead_max_ms
        self._on_tick = on_tick
        self._wall_ms = wall_ms
        self._writer, self._may_tick = writer, may_tick
        self._find_position = find_position or self._read_position
        # Who was last heard while it waited to join has a session from the end of that wait: one longer than from when
        # it spoke.
        self._recent = RecentGroups(topic, partition, 2 * session_max_ms, ahead_max_ms)
        self._clock: TickClock | None = None
        self._tickless_until = 0
        """Before this offset the log has no tick, as far as it was read."""
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._log_answers = True
        self._reported_standstill: Standstill | None = None
        self._beyond_ms: list[int] = []
        """Clocks beyond all ticks of ours, of which the log has yet to say who wrote them."""
        self._foreign_ticks = 0
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ticker-{partition}", daemon=True)

    @property
    def clock_ms(self) -> int | None:
        """The last acknowledged tick; None before it is known where the log stands."""
        return None if self._clock is None else self._clock.clock_ms

    @property
    def status(self) -> TickerStatus:
        """The ticker's present state."""
        clock = self._clock
        if clock is None:
            return TickerStatus(foreign_ticks=self._foreign_ticks)
        return TickerStatus(clock.skew_ms, clock.standstill, self._foreign_ticks, clock.clock_ms)

    def start(self) -> None:
        """Begin to tick, once the log's last tick is found."""
        self._thread.start()

    def stop(self) -> None:
        """Stop ticking, if it has begun; returns when the last tick is acknowledged or given up."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def handled(self, watermark_ms: int) -> None:
        """Tell how far the query or a responder has got: the clock does not run further ahead of that than its lead."""
        clock = self._clock
        with self._lock:
            if clock is not None and clock.handled(watermark_ms) and self._writer is None:
                self._beyond_ms.append(watermark_ms)

    def require_alive(self) -> None:
        """Raise the error that ended the thread: without a clock no timer would fire any more, and nothing would say
        so."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._tick_on()
        except Exception as problem:
            self._failure = problem

    def _tick_on(self) -> None:
        producer = new_producer(
            self._properties, {"linger.ms": 0, "acks": "all", "message.timeout.ms": DELIVERY_TIMEOUT_MS}
        )
        with open_reader(self._properties) as reader:
            while not self._stopping.is_set():
                if not self._may_tick():
                    self._clock = None
                    self._stopping.wait(_IDLE_WAIT_S)
                    continue
                clock = self._clock or self._begin(producer)
                if clock is not None:
                    self._find_foreign_ticks(reader)
                    if clock.is_at_rest(monotonic_ms()):
                        self._look(reader, clock)
                    self._tick(producer, clock)
                if self._clock is None or not self._clock.is_catching_up:
                    self._stopping.wait(self._interval_ms / 1_000)

    def _begin(self, producer: Producer) -> TickClock | None:
        """Go on from where the log stands; None: that cannot be read yet."""
        try:
            self._clock = self._continue(producer)
        except KafkaException as problem:
            _log.warning("The events partition %d cannot be read yet: %s", self._partition, problem)
        return self._clock

    def _look(self, reader: TopicReader, clock: TickClock) -> None:
        """Has anybody come to the log that was at rest?"""
        end: int | None = None
        with suppress(KafkaException):
            end = reader.bounds(self._topic, self._partition, LOOK_TIMEOUT_S).end
        with self._lock:
            clock.observe_end(end, monotonic_ms())

    def _find_foreign_ticks(self, reader: TopicReader) -> None:
        """Ask the log who has ticked beyond us: a responder may, where this ticker has stood still for a moment."""
        with self._lock:
            clocks_ms, self._beyond_ms = self._beyond_ms, []
        while clocks_ms:
            try:
                writer = writer_of_tick(reader, self._topic, self._partition, clocks_ms[0], self._ahead_max_ms)
            except KafkaException:  # it is asked again before the next tick
                with self._lock:
                    self._beyond_ms = clocks_ms + self._beyond_ms
                return
            clocks_ms.pop(0)
            if writer is None or not writer.startswith(RESPONDER_PREFIX):
                self._foreign_ticks += 1
                _log.warning(
                    "Somebody else writes ticks to partition %d of %s: its clock has gone beyond ours. Who may write "
                    "to the topic should be this coordinator, its responders and its gateways (docs/operations.md).",
                    self._partition, self._topic,
                )  # fmt: skip

    def _continue(self, producer: Producer) -> TickClock:
        """Raises KafkaException."""
        position = self._find_position()
        tick = None if position is None else position.last_tick
        if tick is not None and tick.writer is not None and self._writer is None:
            # A responder ticks, and stops when it sees a tick of ours. Then it is known where the clock stands.
            if self._write(producer, [(None, encode_tick(tick.clock_ms))]) is None:
                raise KafkaException(KafkaError(KafkaError._MSG_TIMED_OUT))
            self._stopping.wait(self._interval_ms / 1_000)
            position = self._find_position()
            tick = None if position is None else position.last_tick
        return TickClock(
            self._wall_ms() if position is None else position.clock_ms,
            monotonic_ms() if position is None else None,
            interval_ms=self._interval_ms,
            lead_ms=self._lead_ms,
            pause_ms=self._pause_ms,
            ahead_max_ms=self._ahead_max_ms,
            has_ticks=position is None or position.has_ticks,
            is_whole=position is None or position.is_whole,
            pauses_at_ms=None if tick is None else self._pauses_at_ms(tick),
        )

    def _stood_in_for(self) -> bool:
        """Return whether a responder has moved the clock last, so that it was no pause. Raises KafkaException."""
        position = self._find_position() if self._writer is None else None
        return position is not None and position.last_tick is not None and position.last_tick.writer is not None

    def _pauses_at_ms(self, tick: LastTick) -> int | None:
        """Return the brokers' time from which on it is a pause; None: each start of a coordinator is one, unless a
        responder has ticked meanwhile."""
        if self._writer is None and tick.writer is None:
            return None
        return tick.timestamp_ms + self._pause_ms + (rest_ms(self._interval_ms) if tick.is_at_rest else 0)

    def _read_position(self) -> ClockPosition | None:
        """Read where the log's clock stands; None: the log is empty. Raises KafkaException."""
        with open_reader(self._properties) as reader:
            position = find_clock_position(
                reader, self._topic, self._partition, self._ahead_max_ms, self._tickless_until
            )
        if position is not None and not position.has_ticks:
            self._tickless_until = position.end
        return position

    def _tick(self, producer: Producer, clock: TickClock) -> None:
        wall_ms, now_ms = self._wall_ms(), monotonic_ms()
        try:
            if clock.is_unsure or (clock.finds_pause(now_ms) and self._stood_in_for()):
                clock = self._clock = self._continue(producer)
        except KafkaException:
            self._report(answered=False)
            return
        with self._lock:
            step = clock.next_step(wall_ms, now_ms)
        self._report_standstill(clock)
        if step is None or not self._may_tick():  # this process may have stood still just now
            return
        if step.renewal is not Renewal.NOBODY:
            renewals = self._renew_sessions(producer, clock.clock_ms, step.renewal)
            if renewals is None:
                self._report(answered=False)
                return
            if step.renewal is Renewal.ALL_AT_PRESENT and renewals:
                step = Step(min(renewal.timestamp_ms for renewal in renewals), step.renewal)
        sent_at = SendTimes(self._wall_ms(), monotonic_ms())
        with self._lock:
            clock.sending(step.tick_ms)
        appended = self._write(producer, [(None, encode_tick(step.tick_ms))])
        if appended is not None:
            with self._lock:
                moved = clock.acknowledge(step, sent_at, appended[0], monotonic_ms())
            if moved:
                self._on_tick()
        self._report(appended is not None)

    def _renew_sessions(self, producer: Producer, clock_ms: int, renewal: Renewal) -> list[AppendedRecord] | None:
        """The renewals of the groups that must have one; None: the log has not taken all."""
        at_present = renewal is Renewal.ALL_AT_PRESENT
        everybody = RecentGroups(self._topic, self._partition, None, self._ahead_max_ms)
        groups, value = (everybody, RENEWAL_AT_PRESENT) if at_present else (self._recent, SESSION_RENEWAL)
        renewed: dict[bytes, None] = {}
        records: list[AppendedRecord] = []
        try:
            with open_reader(self._properties) as reader:
                # Who comes while it is read and written has the old time as well: until nobody new has come.
                while keys := [key for key in groups.read(reader, clock_ms, self._is_wanted) if key not in renewed]:
                    appended = self._write(producer, [(key, value) for key in keys])
                    if appended is None:
                        return None
                    records += appended
                    renewed |= dict.fromkeys(keys)
        except KafkaException:
            return None
        groups.rest()
        if self._stopping.is_set():
            return None
        if at_present:
            _log.warning(
                "The clock of partition %d stands at %s, which it would not catch up: it goes on at the present, and "
                "so do its %d groups, for "
                "which no time has gone by.", self._partition, _date(clock_ms), len(renewed),
            )  # fmt: skip
        elif renewed:
            _log.info(
                "The clock of partition %d goes on after a pause; the sessions of %d groups begin anew.",
                self._partition, len(renewed),
            )  # fmt: skip
        return records

    def _is_wanted(self) -> bool:
        return not self._stopping.is_set()

    def _write(self, producer: Producer, records: Sequence[tuple[bytes | None, bytes]]) -> list[AppendedRecord] | None:
        """Return the records that the log has appended; None if it has not appended all of them.

        Returns when each is acknowledged, or given up after DELIVERY_TIMEOUT_MS. Raises TopicError where the broker
        does not say.
        """
        appended: list[AppendedRecord] = []
        kinds: set[int] = set()

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                kind, timestamp_ms = message.timestamp()
                kinds.add(kind)
                appended.append(AppendedRecord(message.offset() or 0, timestamp_ms))

        headers: dict[str, str | bytes | None] = {} if self._writer is None else {WRITER_HEADER: self._writer}
        for key, value in records:
            while True:
                try:
                    producer.produce(
                        self._topic, key=key, value=value, partition=self._partition, headers=headers,
                        on_delivery=on_delivery,
                    )  # fmt: skip
                    break
                except BufferError:  # the queue is full: wait until some of it is acknowledged
                    producer.poll(0.1)
                except KafkaException:  # refused at once (the topic is gone): not taken, as if there were no answer
                    break
        producer.flush()
        if kinds - {TIMESTAMP_LOG_APPEND_TIME}:
            raise TopicError([senders_times(self._topic, "CreateTime")])
        return appended if len(appended) == len(records) else None

    def _report_standstill(self, clock: TickClock) -> None:
        if clock.standstill is not self._reported_standstill:
            self._reported_standstill = clock.standstill
            if clock.standstill is None:
                _log.warning("The clock of partition %d goes on again.", self._partition)
            elif clock.standstill is Standstill.WALL_AHEAD:
                _log.error(
                    "The clock of partition %d stands still, and no timer fires: this machine's clock was %d ms ahead "
                    "of the brokers', and a tick may be %d ms ahead of its record (tick_ahead_max_ms). Set the clocks; "
                    "it goes on by itself.",
                    self._partition, clock.skew_ms or 0, self._ahead_max_ms,
                )  # fmt: skip
            else:
                _log.error(
                    "The clock of partition %d stands still, and no timer fires: it stands at %s, which is ahead of "
                    "the brokers' clocks. Either they were set back, and it goes on by itself when they come to it; or "
                    "a tick from the future was taken before such were refused: see 'A clock in the future' in "
                    "docs/recovery.md.",
                    self._partition, _date(clock.clock_ms),
                )  # fmt: skip

    def _report(self, answered: bool) -> None:
        if self._log_answers and not answered:
            _log.warning(
                "Partition %d of %s takes no ticks: its clock stands still until it does.", self._partition, self._topic
            )
        elif answered and not self._log_answers:
            _log.warning("Partition %d of %s takes ticks again.", self._partition, self._topic)
        self._log_answers = answered


def _date(clock_ms: int) -> str:
    return datetime.fromtimestamp(clock_ms / 1_000, UTC).isoformat(timespec="seconds")


def monotonic_ms() -> int:
    """Runs on while the machine sleeps, where the system has such a clock: sleep is a pause, too."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000
