"""The clock while the coordinator is away, on a real broker without Spark: who ticks, and that it is no pause."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import pairwise

import pytest
from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.kafka_topics.reader import headers_of, read_topic
from group_coordinator.responder.loop import Responder
from group_coordinator.responder.permission import ResponderAloneError
from group_coordinator.responder.ticking import ResponderTicker
from schemas.events import decode_tick, encode_tick
from schemas.query_progress import WRITER_HEADER, GatewayAlive, encode_progress, key_of
from streaming.answered_ahead import AnsweredClocks
from streaming.config import StreamingConfig
from streaming.progress_topic import ProgressPublisher
from streaming.stored_group import ShardState
from streaming.ticker import Ticker, machine_wall_ms
from streaming.topics import ensure_topics
from tests.streaming.running_app import HEARTBEAT, TIMEOUT_S, Client
from tests.waiting import wait_until

EMPTY = ShardState(batch_id=-1, start_offset=0, end_offset=0, clock_ms=0, groups={})
SESSION_MS = 20_000
"""The shortest: a pause is half of it, which no machine is too slow for."""
HASH = "hash"


class RunningResponder:
    """A responder in a thread, which may tick."""

    def __init__(self, config: StreamingConfig) -> None:
        self.failure: BaseException | None = None
        self._stopping = threading.Event()
        self._ticker = ResponderTicker(config, 0)
        self._responder = Responder(
            config.operator_config(), config.client_properties, EMPTY, HASH,
            alone_max_ms=config.responder_alone_max_ms, ticker=self._ticker,
        )  # fmt: skip
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        try:
            self._responder.run(lambda: not self._stopping.is_set())
        except BaseException as failure:
            self.failure = failure

    def __enter__(self) -> RunningResponder:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self.join()

    def ticks_as(self, writer: str | None) -> bool:
        return self._ticker.name == writer

    def join(self) -> None:
        self._thread.join(TIMEOUT_S)
        assert not self._thread.is_alive()


class Shard:
    """The topics of a coordinator whose query is away, and its ticker, which comes and goes."""

    def __init__(self, config: StreamingConfig, stack: ExitStack) -> None:
        self.config = config
        self.topics = config.topic_settings.topics
        self._stack = stack
        self._publisher = ProgressPublisher(self.topics, {0: HASH}, config.client_properties)
        self._publisher.begin(0, None)
        self._gateway_stops = threading.Event()
        self.client = Client(config)

    def coordinator_ticker(self, wall_ms: Callable[[], int] = machine_wall_ms) -> Ticker:
        """It ticks as if a query had answered all. Return when it has: a group that came before the first tick of a log
        would get a renewal."""
        ticker = Ticker.of(self.config, 0, wall_ms=wall_ms)
        ticker.start()
        wait_until(self.ticks, TIMEOUT_S)

        def answer() -> None:
            while not stopping.wait(0.05):
                ticker.handled(ticker.clock_ms or 0)

        stopping = threading.Event()
        threading.Thread(target=answer, daemon=True).start()
        self._stack.callback(stopping.set)
        return ticker

    def coordinator_ticker_without_query(self) -> Ticker:
        """It goes on as far as responders have answered, of which it hears when it has begun."""
        ticker = Ticker.of(self.config, 0)
        ticker.start()
        wait_until(lambda: ticker.clock_ms, TIMEOUT_S)
        clocks = AnsweredClocks(
            self.config.client_properties, self.topics.progress, {0: HASH}, lambda _, clock_ms: ticker.handled(clock_ms)
        )
        clocks.start()
        self._stack.callback(clocks.stop)
        return ticker

    def start_gateway(self) -> None:
        """Give signs of life until `stop_gateway`."""

        def live() -> None:
            producer = Producer(self.config.client_properties)
            while not self._gateway_stops.wait(0.5):
                producer.produce(
                    self.topics.progress, key=key_of(GatewayAlive), value=encode_progress(GatewayAlive()), partition=0
                )
                producer.flush()

        self._gateway_stops.clear()
        threading.Thread(target=live, daemon=True).start()
        self._stack.callback(self._gateway_stops.set)

    def stop_gateway(self) -> None:
        self._gateway_stops.set()

    def start_responder(self) -> RunningResponder:
        return self._stack.enter_context(RunningResponder(self.config))

    def events(self) -> list[Message]:
        return list(read_topic(self.config.client_properties, self.topics.events))

    def ticks(self) -> list[Message]:
        return [message for message in self.events() if message.key() is None]

    def writers(self) -> list[str | None]:
        """Of the ticks that have moved the clock, in their order."""
        moves: list[str | None] = []
        clock_ms = 0
        for tick in self.ticks():
            tick_ms = decode_tick(tick.value() or b"").clock_ms
            if tick_ms > clock_ms:
                moves.append(headers_of(tick).get(WRITER_HEADER))
                clock_ms = tick_ms
        return moves

    def renewals(self) -> list[Message]:
        return [message for message in self.events() if b"renew" in (message.value() or b"")]

    def wait_for_ticks_of_a_responder(self, count: int = 3) -> None:
        wait_until(lambda: len([writer for writer in self.writers() if writer]) >= count, TIMEOUT_S, interval_s=0.3)


@pytest.fixture
def shard(kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str) -> Iterator[Shard]:
    with ExitStack() as stack:
        yield shard_of(kafka, admin, topic_prefix, stack)


def shard_of(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str, stack: ExitStack, **settings: object
) -> Shard:
    values: dict[str, object] = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "topic_prefix": topic_prefix,
        "responses_partitions": 2,
        "offsets_partitions": 4,
        "group_initial_rebalance_delay_ms": 0,
        "group_min_session_timeout_ms": SESSION_MS,
        "responders": True,
    }
    config = StreamingConfig(**(values | settings))  # type: ignore[arg-type]
    ensure_topics(admin, config.topic_settings)
    return Shard(config, stack)


def test_a_handover_there_and_back_is_no_pause(shard: Shard) -> None:
    ticker = shard.coordinator_ticker()
    shard.start_responder()
    shard.client.join(60_000)
    shard.start_gateway()
    ticker.stop()
    shard.wait_for_ticks_of_a_responder()
    shard.client.answer(shard.client.send("Heartbeat", 4, HEARTBEAT))
    back = shard.coordinator_ticker_without_query()
    wait_until(lambda: shard.writers()[-3:] == [None] * 3, TIMEOUT_S, interval_s=0.3)
    back.stop()
    writers = shard.writers()
    changes = [after for before, after in pairwise(writers) if before != after]
    assert len(changes) == 2, "the coordinator, the responder, the coordinator"
    assert not shard.renewals(), "nobody's session begins anew"
    assert back.status.foreign_ticks == 0
    clocks = [decode_tick(tick.value() or b"").clock_ms for tick in shard.ticks()]
    steps_ms = [after - before for before, after in pairwise(sorted(clocks))]
    assert max(steps_ms) <= 1.1 * 3 * shard.config.tick_interval_ms, "nothing is jumped over"


def test_a_responder_that_ticks_while_the_coordinator_stands_still_is_no_stranger(shard: Shard) -> None:
    goes_on = threading.Event()
    goes_on.set()

    def wall_ms() -> int:
        goes_on.wait()
        return machine_wall_ms()

    ticker = shard.coordinator_ticker(wall_ms)
    clocks = AnsweredClocks(
        shard.config.client_properties, shard.topics.progress, {0: HASH}, lambda _, clock_ms: ticker.handled(clock_ms)
    )
    clocks.start()
    shard.start_responder()
    shard.client.join(60_000)
    shard.start_gateway()
    goes_on.clear()
    shard.wait_for_ticks_of_a_responder(10)
    goes_on.set()
    wait_until(lambda: shard.writers()[-3:] == [None] * 3, TIMEOUT_S, interval_s=0.3)
    assert ticker.status.foreign_ticks == 0
    stranger = Producer(shard.config.client_properties)
    stranger.produce(shard.topics.events, value=encode_tick((ticker.clock_ms or 0) + 2_000), partition=0)
    stranger.flush()
    wait_until(lambda: ticker.status.foreign_ticks, TIMEOUT_S)
    ticker.stop()
    clocks.stop()
    assert ticker.status.foreign_ticks == 1


def test_without_a_gateway_the_clock_stands_and_after_it_sessions_begin_anew(shard: Shard) -> None:
    ticker = shard.coordinator_ticker()
    shard.start_responder()
    shard.client.join(60_000)
    ticker.stop()
    silence_s = shard.config.tick_pause_ms / 1_000
    stood_at_ms = shard.ticks()[-1].timestamp()[1]
    threading.Event().wait(silence_s)  # more than a responder would wait for
    shard.start_gateway()
    shard.wait_for_ticks_of_a_responder()
    shard.stop_gateway()
    first = next(tick for tick in shard.ticks() if headers_of(tick))
    assert first.timestamp()[1] - stood_at_ms >= 1_000 * silence_s
    assert [renewal.key() for renewal in shard.renewals()] == [HEARTBEAT.group_id.encode()]


def test_of_two_responders_one_ticks_and_when_it_ends_the_other(shard: Shard) -> None:
    ticker = shard.coordinator_ticker()
    responders = [shard.start_responder() for _ in range(2)]
    shard.client.join(60_000)
    shard.start_gateway()
    ticker.stop()

    def one_ticks() -> bool:
        last = shard.writers()[-4:]
        return len(last) == 4 and last[0] is not None and len(set(last)) == 1

    wait_until(one_ticks, TIMEOUT_S, interval_s=0.3)
    first = shard.writers()[-1]
    for responder in responders:
        if responder.ticks_as(first):
            responder.__exit__()
    wait_until(lambda: shard.writers()[-1] not in (first, None), TIMEOUT_S, interval_s=0.3)
    assert not shard.renewals()


def respond(config: StreamingConfig) -> None:
    """Be a responder, in a process of its own, until it is killed."""
    with RunningResponder(config):
        threading.Event().wait()


def test_a_responder_that_stood_still_writes_no_clock_beside_the_coordinators(shard: Shard) -> None:
    ticker = shard.coordinator_ticker()
    process = multiprocessing.get_context("spawn").Process(target=respond, args=(shard.config,), daemon=True)
    process.start()
    shard.client.join(60_000)
    shard.start_gateway()
    try:
        ticker.stop()
        shard.wait_for_ticks_of_a_responder()
        os.kill(process.pid or 0, signal.SIGSTOP)
        back = shard.coordinator_ticker()
        stands_s = shard.config.tick_pause_ms / 1_000 + 3  # a pause, and so long gateways are heard
        threading.Event().wait(stands_s)
        wait_until(lambda: shard.writers()[-3:] == [None] * 3, TIMEOUT_S, interval_s=0.3)
        before = len(shard.events())
        os.kill(process.pid or 0, signal.SIGCONT)
        threading.Event().wait(stands_s)
        since = shard.events()[before:]
        assert since
        assert not [event for event in since if headers_of(event) or event.key() is not None]
        back.stop()
        wait_until(lambda: shard.writers()[-1], TIMEOUT_S, interval_s=0.3)  # it stands in again
        assert not shard.renewals()
    finally:
        process.kill()
        process.join()


def test_a_responder_without_the_query_ends_at_its_bound_and_its_ticks_with_it(
    kafka: EmbeddedKafka, admin: AdminClient, topic_prefix: str
) -> None:
    with ExitStack() as stack:
        shard = shard_of(kafka, admin, topic_prefix, stack, responder_alone_max_ms=20_000)
        ticker = shard.coordinator_ticker()
        responder = shard.start_responder()
        shard.client.join(60_000)
        shard.start_gateway()
        ticker.stop()
        shard.wait_for_ticks_of_a_responder()
        responder.join()
        assert isinstance(responder.failure, ResponderAloneError)
        ended = shard.writers()
        again = shard.start_responder()
        again.join()
        assert isinstance(again.failure, ResponderAloneError), "a new start does not begin the time anew"
        assert shard.writers() == ended
