"""The ticker: the one place where wall time enters the log. `streaming.clock` is its arithmetic."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from schemas.events import SESSION_RENEWAL, encode_tick
from streaming.clock import TickClock
from streaming.events_tail import RecentGroups, find_clock_ms, open_reader

DELIVERY_TIMEOUT_MS = 5_000

_log = logging.getLogger(__name__)


class Ticker:
    """Writes the ticks of one events partition, from `start` until `stop`. Survives every outage of the log.

    Before the first tick after a pause it renews the sessions of every group that may have members (`has_paused`).
    """

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
    ) -> None:
        """`interval_ms`, `lead_ms`, `pause_ms`: see `TickClock`. `session_max_ms`: the longest session that a member can have.
        `on_tick` is called, in the ticker's thread, when the log has taken a tick that moves the clock."""
        self._topic, self._partition = topic, partition
        self._properties = dict(client_properties)
        self._interval_ms, self._lead_ms, self._pause_ms = interval_ms, lead_ms, pause_ms
        self._ahead_max_ms = ahead_max_ms
        self._on_tick = on_tick
        # Who was last heard while it waited to join has a session from the end of that wait: one longer than from when it spoke.
        self._recent = RecentGroups(topic, partition, 2 * session_max_ms, ahead_max_ms)
        self._clock: TickClock | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._log_answers = True
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"ticker-{partition}", daemon=True)

    @property
    def clock_ms(self) -> int | None:
        """The last acknowledged tick; None before it is known where the log stands."""
        return self._clock.clock_ms if self._clock is not None else None

    def start(self) -> None:
        """Begin to tick, once the log's last tick is found."""
        self._thread.start()

    def stop(self) -> None:
        """Stop ticking; returns when the last tick is acknowledged or given up."""
        self._stopping.set()
        self._thread.join()

    def handled(self, watermark_ms: int) -> None:
        """Tell how far the query has got: the clock does not run further ahead of that than its lead."""
        with self._lock:
            if self._clock is not None:
                self._clock.handled(watermark_ms)

    def require_alive(self) -> None:
        """Raises what ended the thread: without a clock no time would run out any more, and nobody would say so."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._tick_on()
        except Exception as problem:
            self._failure = problem

    def _tick_on(self) -> None:
        while not self._stopping.is_set() and self._clock is None:
            try:
                self._clock = self._continue()
            except KafkaException as problem:
                _log.warning("The events partition %d cannot be read yet: %s", self._partition, problem)
                self._stopping.wait(self._interval_ms / 1_000)
        if self._clock is None:
            return
        producer = Producer(
            {
                "log_level": 0,  # an outage is told once, by us, not at each of librdkafka's attempts to connect
                "linger.ms": 0,
                "acks": "all",
                "reconnect.backoff.max.ms": 1_000,
                **self._properties,
                "message.timeout.ms": DELIVERY_TIMEOUT_MS,
            }
        )
        while not self._stopping.wait(self._interval_ms / 1_000):
            self._tick(producer, self._clock)

    def _continue(self) -> TickClock:
        with open_reader(self._properties) as consumer:
            found_ms = find_clock_ms(consumer, self._topic, self._partition, self._ahead_max_ms)
        limits = {"interval_ms": self._interval_ms, "lead_ms": self._lead_ms, "pause_ms": self._pause_ms}
        if found_ms is None:
            return TickClock(_wall_ms(), _monotonic_ms(), **limits)
        return TickClock(found_ms, None, **limits)

    def _tick(self, producer: Producer, clock: TickClock) -> None:
        with self._lock:
            monotonic_ms = _monotonic_ms()
            tick_ms, has_paused = clock.next_tick_ms(_wall_ms(), monotonic_ms), clock.has_paused(monotonic_ms)
        if tick_ms is None:
            return
        if has_paused and not self._renew_sessions(producer, clock.clock_ms):
            self._tell(answered=False)
            return
        delivered = self._write(producer, [(None, encode_tick(tick_ms))])
        if delivered:
            with self._lock:
                moved = clock.acknowledge(tick_ms, _monotonic_ms())
            if moved:
                self._on_tick()
        self._tell(delivered)

    def _renew_sessions(self, producer: Producer, clock_ms: int) -> bool:
        """Whether every group that may have members has got its renewal."""
        try:
            with open_reader(self._properties) as consumer:
                keys = self._recent.read(consumer, clock_ms, lambda: not self._stopping.is_set())
        except KafkaException:
            return False
        if self._stopping.is_set():
            return False
        if keys:
            _log.info("The clock of partition %d goes on after a pause; the sessions of %d groups begin anew.", self._partition, len(keys))
        return self._write(producer, [(key, SESSION_RENEWAL) for key in keys])

    def _write(self, producer: Producer, records: Sequence[tuple[bytes | None, bytes]]) -> bool:
        """Whether the log has taken them. Returns when each is acknowledged, or given up after DELIVERY_TIMEOUT_MS."""
        delivered = 0

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            nonlocal delivered
            delivered += error is None

        for key, value in records:
            while True:
                try:
                    producer.produce(self._topic, key=key, value=value, partition=self._partition, on_delivery=on_delivery)
                    break
                except BufferError:  # the queue is full: wait until some of it is acknowledged
                    producer.poll(0.1)
                except KafkaException:  # refused at once (the topic is gone): not taken, as if there were no answer
                    break
        producer.flush()
        return delivered == len(records)

    def _tell(self, answered: bool) -> None:
        if self._log_answers and not answered:
            _log.warning("Partition %d of %s takes no ticks: its clock stands still until it does.", self._partition, self._topic)
        elif answered and not self._log_answers:
            _log.warning("Partition %d of %s takes ticks again.", self._partition, self._topic)
        self._log_answers = answered


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    """Runs on while the machine sleeps, where the system has such a clock: sleep is a pause, too."""
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)) // 1_000_000
