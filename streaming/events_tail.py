"""The end of an events topic, read without Spark: where its clock stands, and which groups were heard of lately."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from confluent_kafka import Message

from coordinator_state.rule_changes import names_rules
from group_coordinator.ground.kafka_topics.bounds import Bounds, Partition
from group_coordinator.ground.kafka_topics.reader import TopicReader, headers_of
from schemas.events import EventError, decode_group_id
from schemas.query_progress import WRITER_HEADER
from schemas.ticks import read_tick
from streaming.clock import REST_AFTER_MS

TAIL_RECORDS = 5_000
"""How much of the log's end is read at least to find the last tick: one that went back must not be taken for it."""
SOUGHT_RECORDS = 100_000
"""So much of the log's end may lie behind a tick that the query has just taken in."""
POLL_TIMEOUT_S = 10.0
_REST_MARGIN_MS = 5_000
KEPT_BYTES_MAX = 16_777_216
"""Of groups' ids, which may have 32 KB each: what is kept from one pause of the clock to the next."""


def open_reader(client_properties: Mapping[str, str]) -> TopicReader:
    """Open a reader for the functions below, as a context manager."""
    return TopicReader(client_properties, "tail", timeout_s=POLL_TIMEOUT_S)


class LastTick(NamedTuple):
    """The tick that has set a log's clock."""

    clock_ms: int
    timestamp_ms: int
    """When, by the brokers' clock."""
    writer: str | None
    """The responder that has written it; None: the coordinator."""
    is_at_rest: bool = False
    """Nobody but tickers had written for some time before it."""


class ClockPosition(NamedTuple):
    """The position of a log's clock."""

    clock_ms: int
    """Its last valid tick; without any, the time of its first record: before the first tick every group's time
    stands where its first event began it."""
    has_ticks: bool
    is_whole: bool
    """The log reaches back to its beginning."""
    end: int
    """So far the log was read."""
    last_tick: LastTick | None = None


def find_clock_position(
    reader: TopicReader, topic: str, partition: int, ahead_max_ms: int, tickless_until: int = 0
) -> ClockPosition | None:
    """Return the position of a log's clock; None if the log is empty, or tells its rules and nothing else. Raises
    KafkaException if it cannot be read.

    `tickless_until`: before this offset there is no tick, as an earlier look has found.
    """
    low, high = reader.bounds(topic, partition)
    tick = _last_tick(reader, (topic, partition), Bounds(max(low, tickless_until), high), ahead_max_ms)
    if tick is not None:
        return ClockPosition(tick.clock_ms, True, low == 0, high, tick)
    records = reader.read({(topic, partition): Bounds(low, high)})
    first = next((record for record in records if record.key() is not None or not names_rules(record.value())), None)
    return None if first is None else ClockPosition(first.timestamp()[1], False, low == 0, high)


def last_tick_ms(reader: TopicReader, topic: str, partition: int, ahead_max_ms: int) -> int | None:
    """Return the last tick of a log, which is read backwards; None if there is none. Raises KafkaException."""
    tick = _last_tick(reader, (topic, partition), reader.bounds(topic, partition), ahead_max_ms)
    return None if tick is None else tick.clock_ms


def _last_tick(reader: TopicReader, place: Partition, bounds: Bounds, ahead_max_ms: int) -> LastTick | None:
    for messages in read_backwards(reader, place, bounds):
        last: LastTick | None = None
        event_ms: int | None = None
        for message in messages:
            tick_ms, timestamp_ms = tick_of(message, ahead_max_ms), message.timestamp()[1]
            if message.key() is not None:
                event_ms = timestamp_ms
            elif tick_ms is not None and (last is None or tick_ms > last.clock_ms):
                writer = headers_of(message).get(WRITER_HEADER)
                last = LastTick(tick_ms, timestamp_ms, writer, was_at_rest(event_ms, timestamp_ms))
        if last is not None:
            return last
    return None


def read_backwards(reader: TopicReader, place: Partition, bounds: Bounds) -> Iterator[Iterator[Message]]:
    """Yield the records of ever longer stretches of a log, the last one first; in a stretch they are in their order."""
    end, count = bounds.end, TAIL_RECORDS
    while end > bounds.begin:
        start = max(bounds.begin, end - count)
        yield reader.read({place: Bounds(start, end)})
        end, count = start, count * 2


def writer_of_tick(
    reader: TopicReader, topic: str, partition: int, clock_ms: int, ahead_max_ms: int
) -> str | None:
    """Return who was the first to write a tick of this clock, not long ago; None: it names no writer, or is not found.
    Raises KafkaException."""
    low, end = reader.bounds(topic, partition)
    for messages in read_backwards(reader, (topic, partition), Bounds(max(low, end - SOUGHT_RECORDS), end)):
        for message in messages:
            if tick_of(message, ahead_max_ms) == clock_ms:
                return headers_of(message).get(WRITER_HEADER)
    return None


def was_at_rest(event_ms: int | None, tick_ms: int) -> bool:
    """Return whether a log may have been at rest at a tick. `event_ms`: when somebody else wrote last, by the brokers'
    clock; None: not lately. A ticker may have begun its rest a moment earlier."""
    return event_ms is None or tick_ms - event_ms >= REST_AFTER_MS - _REST_MARGIN_MS


class RecentGroups:
    """The groups that sent a request within some time, by the log's clock, before the clock stood still.

    What was read stays: asked again, it reads only what has come since.
    """

    def __init__(self, topic: str, partition: int, window_ms: int | None, ahead_max_ms: int) -> None:
        """`window_ms`: how long ago they may have been heard of; None: all groups of the log.

        `ahead_max_ms`: see `read_tick`.
        """
        self._place, self._window_ms = (topic, partition), window_ms
        self._ahead_max_ms = ahead_max_ms
        self._last_event_ms: dict[bytes, int] = {}
        """Key of a group's events -> the clock when it was last heard of."""
        self._end = 0

    def read(self, reader: TopicReader, clock_ms: int, is_wanted: Callable[[], bool] = lambda: True) -> list[bytes]:
        """Return the keys of the recent records, where the clock stands at `clock_ms`.

        Raises KafkaException; ends early when it is no more wanted.
        """
        low, high = reader.bounds(*self._place)
        since_ms = 0 if self._window_ms is None else clock_ms - self._window_ms
        start = max(self._end, low)
        if self._window_ms is not None:
            start = self._before(reader, since_ms, start, high)
        ticked_ms = 0
        for message in reader.read({self._place: Bounds(start, high)}):
            key, tick_ms = message.key(), tick_of(message, self._ahead_max_ms)
            if tick_ms is not None:
                ticked_ms = max(ticked_ms, tick_ms)  # one that goes back changes nothing
            elif key is not None and _names_a_group(bytes(key)):
                self._last_event_ms[bytes(key)] = (
                    ticked_ms or clock_ms
                )  # before the first tick that is read: at the latest
            if not is_wanted():
                return []
        self._end = high
        self._last_event_ms = {key: ms for key, ms in self._last_event_ms.items() if ms >= since_ms}
        return list(self._last_event_ms)

    def rest(self) -> None:
        """Drop a very large list of ids until the next pause; then it is read again."""
        if sum(map(len, self._last_event_ms)) > KEPT_BYTES_MAX:
            self._last_event_ms, self._end = {}, 0

    def _before(self, reader: TopicReader, since_ms: int, low: int, high: int) -> int:
        """An offset not far before the first record at whose place the clock had come to `since_ms`."""
        while high - low > TAIL_RECORDS:
            middle = (low + high) // 2
            events = reader.read({self._place: Bounds(middle, min(high, middle + TAIL_RECORDS))})
            # The largest: one that went back says nothing of where the clock stood.
            tick_ms = max(
                (tick for message in events if (tick := tick_of(message, self._ahead_max_ms)) is not None),
                default=since_ms,
            )
            if tick_ms < since_ms:
                low = middle
            else:
                high = middle
        return low


def _names_a_group(key: bytes) -> bool:
    try:
        decode_group_id(key)
    except EventError:
        return False
    return True


def tick_of(message: Message, ahead_max_ms: int) -> int | None:
    """Return the clock that a record sets; None if it is no tick. `ahead_max_ms`: see `read_tick`."""
    if message.key() is not None:
        return None
    try:
        return read_tick(message.value(), message.timestamp()[1], ahead_max_ms)
    except EventError:
        return None
