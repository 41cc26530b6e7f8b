"""The ticker: the one place where wall time enters the log.

`TickClock` is its arithmetic, without a clock of its own; `Ticker` is a thread that writes what it says. The rules:

- The clock follows wall time, at no less than 0.9 and no more than 1.1 times real speed, and never goes back.
- It continues from the last tick in the log. A pause of any kind (process down, log unavailable, machine asleep) is not
  jumped over: a step is never longer than 1.1 tick intervals, however much time went by.
- A tick counts when the log has acknowledged it.
- It runs ahead of what the query has handled by a fixed lead at most: while nobody is answered, nobody's time runs out.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from schemas.events import EventError, encode_tick
from streaming.ticks import read_tick

SLOWEST_PERCENT, FASTEST_PERCENT = 90, 110
"""Bounds of the clock's speed while it approaches wall time."""
TAIL_RECORDS = 5_000
"""How much of the log's end is read at least to find the last tick: one that went back must not be taken for it."""
DELIVERY_TIMEOUT_MS = 5_000
POLL_TIMEOUT_S = 10.0

_QUIET: Mapping[str, int] = {"log_level": 0}
"""An outage is told once, by us, not at each of librdkafka's attempts to connect."""

_log = logging.getLogger(__name__)


def next_clock_ms(clock_ms: int, elapsed_ms: int, wall_ms: int, interval_ms: int) -> int:
    """Where the clock may go from `clock_ms`, `elapsed_ms` of real time after it got there."""
    elapsed_ms = min(max(elapsed_ms, 0), interval_ms)
    slowest = clock_ms + elapsed_ms * SLOWEST_PERCENT // 100
    fastest = clock_ms + elapsed_ms * FASTEST_PERCENT // 100
    return min(max(wall_ms, slowest), fastest)


class TickClock:
    """The clock of one shard. All times are handed in, in milliseconds; `elapsed` times come from a monotonic clock."""

    def __init__(self, start_ms: int, monotonic_ms: int, *, interval_ms: int, lead_ms: int) -> None:
        self.clock_ms = start_ms
        """The last acknowledged tick, or where the log stood at start."""
        self._reached_ms = monotonic_ms
        self._interval_ms = interval_ms
        self._lead_ms = lead_ms
        self._handled_ms = start_ms
        self._unhandled: deque[tuple[int, int]] = deque()

    def next_tick_ms(self, wall_ms: int, monotonic_ms: int) -> int | None:
        """The tick to write now; None when the clock has to stand still."""
        elapsed_ms = monotonic_ms - self._reached_ms
        tick_ms = next_clock_ms(self.clock_ms, elapsed_ms, wall_ms, self._interval_ms)
        tick_ms = min(tick_ms, self._handled_ms + self._lead_ms)
        return tick_ms if tick_ms > self.clock_ms else None

    def acknowledge(self, tick_ms: int, offset: int, monotonic_ms: int) -> None:
        """The log holds this tick at this offset."""
        self.clock_ms = max(self.clock_ms, tick_ms)
        self._reached_ms = monotonic_ms
        self._unhandled.append((offset, tick_ms))

    def handled(self, end_offset: int, watermark_ms: int) -> None:
        """The query has committed all that lies before this offset; its clock is the watermark.

        A watermark beyond our own ticks comes from somebody else's: the clock goes on from there.
        """
        while self._unhandled and self._unhandled[0][0] < end_offset:
            self._handled_ms = max(self._handled_ms, self._unhandled.popleft()[1])
        self._handled_ms = max(self._handled_ms, watermark_ms)
        self.clock_ms = max(self.clock_ms, watermark_ms)


def find_clock_ms(consumer: Consumer, topic: str, partition: int) -> int | None:
    """Where the log's clock stands: its last tick; without ticks, the time of its last record; None for an empty log.

    Reads the partition from its end backwards. Raises KafkaException when the log cannot be read.
    """
    low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=POLL_TIMEOUT_S)
    last_ms: int | None = None
    end, count = high, TAIL_RECORDS
    while end > low:
        start = max(low, end - count)
        messages = read_events(consumer, topic, partition, start, end)
        ticks = [tick for message in messages if (tick := tick_of(message)) is not None]
        if ticks:
            return max(ticks)
        if last_ms is None and messages:
            # Before the first tick, a request's time is its own timestamp: that, too, is not to be jumped over.
            last_ms = min(messages[-1].timestamp()[1], _wall_ms())
        end, count = start, count * 2
    return last_ms


def read_events(consumer: Consumer, topic: str, partition: int, start: int, end: int) -> list[Message]:
    """The records of [start, end). The consumer must tell the end of a partition. Raises KafkaException."""
    consumer.assign([TopicPartition(topic, partition, start)])
    messages: list[Message] = []
    try:
        while True:
            polled = consumer.consume(num_messages=1_000, timeout=POLL_TIMEOUT_S)
            if not polled:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
            for message in polled:
                error = message.error()
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                if error is not None or _offset(message) >= end:
                    return messages
                messages.append(message)
                if _offset(message) == end - 1:
                    return messages
    finally:
        consumer.unassign()


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def tick_of(message: Message) -> int | None:
    """The clock that a record sets; None if it is no tick."""
    if message.key() is not None:
        return None
    try:
        return read_tick(message.value())
    except EventError:
        return None


class Ticker:
    """Writes the ticks of one events partition, from `start` until `stop`. Survives every outage of the log."""

    def __init__(
        self,
        topic: str,
        partition: int,
        client_properties: Mapping[str, str],
        *,
        interval_ms: int,
        lead_ms: int,
        on_tick: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_tick` is called, in the ticker's thread, when the log has taken a tick."""
        self._topic, self._partition = topic, partition
        self._properties = dict(client_properties)
        self._interval_ms, self._lead_ms = interval_ms, lead_ms
        self._on_tick = on_tick
        self._clock: TickClock | None = None
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._log_answers = True
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

    def handled(self, end_offset: int, watermark_ms: int) -> None:
        """Tell how far the query has got: the clock does not run further ahead of that than its lead."""
        with self._lock:
            if self._clock is not None:
                self._clock.handled(end_offset, watermark_ms)

    def _run(self) -> None:
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
                **_QUIET,
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
        consumer = Consumer(
            {
                **_QUIET,
                "group.id": "group-coordinator-ticker",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                **self._properties,
            }
        )
        try:
            found_ms = find_clock_ms(consumer, self._topic, self._partition)
        finally:
            consumer.close()
        start_ms = _wall_ms() if found_ms is None else found_ms
        return TickClock(start_ms, _monotonic_ms(), interval_ms=self._interval_ms, lead_ms=self._lead_ms)

    def _tick(self, producer: Producer, clock: TickClock) -> None:
        with self._lock:
            tick_ms = clock.next_tick_ms(_wall_ms(), _monotonic_ms())
        if tick_ms is None:
            return
        delivered: list[Message] = []

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            if error is None:
                delivered.append(message)

        producer.produce(self._topic, partition=self._partition, value=encode_tick(tick_ms), on_delivery=on_delivery)
        # Either it is acknowledged, or librdkafka gives it up after DELIVERY_TIMEOUT_MS; one tick is under way at a time.
        producer.flush()
        for message in delivered:
            with self._lock:
                clock.acknowledge(tick_ms, _offset(message), _monotonic_ms())
            self._on_tick()
        self._tell(bool(delivered))

    def _tell(self, answered: bool) -> None:
        if self._log_answers and not answered:
            _log.warning("Partition %d of %s takes no ticks: its clock stands still until it does.", self._partition, self._topic)
        elif answered and not self._log_answers:
            _log.warning("Partition %d of %s takes ticks again.", self._partition, self._topic)
        self._log_answers = answered


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000
