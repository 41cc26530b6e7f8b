"""The clock while the coordinator is away: who writes it, and how it goes on without a pause.

The log itself says who ticks. A responder stands in for a coordinator that is silent, as long as clients can be heard,
and stops at the first tick of the coordinator. Two tickers for a moment do no harm: the clock is the largest tick.
"""

from __future__ import annotations

import logging
import uuid

from confluent_kafka import Message

from group_coordinator.coordinating.responder.permission import ResponderError
from group_coordinator.ground.kafka_topics.reader import headers_of, offset_of
from schemas.query_progress import RESPONDER_PREFIX, WRITER_HEADER
from schemas.ticks import NO_CLOCK
from streaming.clock import rest_ms
from streaming.config import StreamingConfig
from streaming.events_tail import ClockPosition, LastTick, was_at_rest
from streaming.ticker import Ticker, monotonic_ms
from streaming.topics import TopicError

AWAY_MS = 1_000
"""The loop looks at the log several times a second. When it has not for so long, its process stood still."""
GATEWAY_SILENCE_MS = 3_000
"""A gateway that was silent for so long counts as gone, where the shortest session is not longer than twice that; it
gives a sign every second."""
_log = logging.getLogger(__name__)


class TickerElection:
    """Decides whether a responder ticks for its shard. All times are handed in, in milliseconds of a monotonic clock.

    The coordinator goes first; of two responders the one whose name is smaller.
    """

    def __init__(self, name: str, pause_ms: int, rest_ms: int, now_ms: int) -> None:
        """`name`: of this responder, as in its ticks. `pause_ms`: so long without a tick is a pause. `rest_ms`: so long
        the clock of a log at rest stands."""
        self._name = name
        self._rest_ms = rest_ms
        self._silence_max_ms = 2 * pause_ms // 3
        """A ticker that lives ticks more often, and what is left suffices to go on before it is a pause."""
        self._gateway_silence_ms = max(pause_ms, GATEWAY_SILENCE_MS)
        self._tick_seen_ms = self._looked_ms = now_ms
        self._gateway_heard_ms: int | None = None
        self._is_at_rest = False
        self.is_elected = False

    def event_seen(self, now_ms: int) -> None:
        """Note that somebody has written to the log. The ticker of a log at rest hears of it soon."""
        if self._is_at_rest:
            self._is_at_rest, self._tick_seen_ms = False, now_ms

    def tick_seen(self, writer: str | None, now_ms: int, *, is_at_rest: bool = False) -> None:
        """Note a tick in the log; `writer` is None for the coordinator's. `is_at_rest`: the log was at rest then."""
        if writer == self._name:
            return
        self._tick_seen_ms, self._is_at_rest = now_ms, is_at_rest
        if writer is None or writer < self._name:
            self.is_elected = False

    def gateway_heard(self, now_ms: int) -> None:
        """Note a sign of life of a gateway."""
        self._gateway_heard_ms = now_ms

    def look(self, now_ms: int, *, has_caught_up: bool) -> bool:
        """Decide whether to tick, where all that was read of the log is taken. `has_caught_up`: that is all of the log;
        who has not read it does not know who ticks.

        Who stood still does not know either, though it seems to have read all: it waits anew."""
        is_still_elected = self.may_tick(now_ms)
        if now_ms - self._looked_ms > AWAY_MS:
            self._tick_seen_ms = now_ms
        self._looked_ms = now_ms
        if has_caught_up and self._hears_gateways(now_ms):
            silence_max_ms = self._silence_max_ms + (self._rest_ms if self._is_at_rest else 0)
            self.is_elected = is_still_elected or now_ms - self._tick_seen_ms >= silence_max_ms
        return self.is_elected

    def may_tick(self, now_ms: int) -> bool:
        """Return whether to tick now: not without gateways, and not where the loop has not looked for so long that
        somebody else may tick by now."""
        if not self._hears_gateways(now_ms) or now_ms - self._looked_ms >= self._silence_max_ms:
            self.is_elected = False
        return self.is_elected

    def _hears_gateways(self, now_ms: int) -> bool:
        heard_ms = self._gateway_heard_ms
        return heard_ms is not None and now_ms - heard_ms <= self._gateway_silence_ms


class ResponderTicker:
    """The ticker of a responder, between `start` and `stop`. All methods are for the responder's thread."""

    def __init__(self, config: StreamingConfig, shard: int) -> None:
        self.name = f"{RESPONDER_PREFIX}{shard}-{uuid.uuid4()}"
        """In the header of its ticks."""
        self._shard = shard
        rests_ms = rest_ms(config.tick_interval_ms)
        self._election = TickerElection(self.name, config.tick_pause_ms, rests_ms, monotonic_ms())
        self._event_ms: int | None = None
        """When somebody has written to the log last, by the brokers' clock."""
        self._position: ClockPosition | None = None
        self._is_whole = False
        self._ticker = Ticker.of(
            config, shard, writer=self.name, may_tick=lambda: self._election.may_tick(monotonic_ms()),
            find_position=lambda: self._position,
        )

    @property
    def is_ticking(self) -> bool:
        """True while it writes the clock."""
        return self._election.is_elected

    def start(self, *, is_whole: bool) -> None:
        """Stand ready. `is_whole`: the log reaches back to its beginning."""
        self._is_whole = is_whole
        self._ticker.start()

    def stop(self) -> None:
        self._ticker.stop()

    def gateway_heard(self) -> None:
        """Note a sign of life of a gateway."""
        self._election.gateway_heard(monotonic_ms())

    def taken(self, record: Message, clock_ms: int) -> None:
        """Note a record of the log, and where the clock stands after it."""
        timestamp_ms, now_ms = record.timestamp()[1], monotonic_ms()
        if record.key() is not None:
            self._event_ms = timestamp_ms
            self._election.event_seen(now_ms)
            return
        writer, end = headers_of(record).get(WRITER_HEADER), offset_of(record) + 1
        is_at_rest = was_at_rest(self._event_ms, timestamp_ms)
        self._election.tick_seen(writer, now_ms, is_at_rest=is_at_rest)
        if clock_ms > NO_CLOCK and (self._position is None or clock_ms > self._position.clock_ms):
            last = LastTick(clock_ms, timestamp_ms, writer, is_at_rest)
            self._position = ClockPosition(clock_ms, True, self._is_whole, end, last)

    def answered(self, clock_ms: int, *, has_caught_up: bool) -> None:
        """Note that all timers that are due by this clock are answered, and decide who ticks. Raises ResponderError
        if the ticker cannot go on."""
        try:
            self._ticker.require_alive()
        except TopicError as problem:
            raise ResponderError(str(problem)) from problem
        has_caught_up = has_caught_up and self._position is not None
        was_elected = self.is_ticking
        if self._election.look(monotonic_ms(), has_caught_up=has_caught_up) != was_elected:
            _log.warning(
                "The coordinator's ticker of shard %d is silent: this responder writes the clock."
                if self.is_ticking
                else "This responder does not write the clock of shard %d any more.", self._shard,
            )  # fmt: skip
        self._ticker.handled(clock_ms)
