"""A shard of a real broker whose query is away: its topics, its ticker, its gateway, and responders in threads."""

from __future__ import annotations

import multiprocessing
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.context import SpawnProcess

from confluent_kafka import Message, Producer
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.responder.loop import Responder
from group_coordinator.coordinating.responder.permission import ResponderRefusedError
from group_coordinator.coordinating.responder.protocol import ExitCode
from group_coordinator.coordinating.responder.ticking import ResponderTicker
from group_coordinator.ground.kafka_topics.reader import headers_of, read_topic
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from schemas.events import decode_tick
from schemas.query_progress import WRITER_HEADER, GatewayAlive, encode_progress, key_of
from streaming.answered_ahead import AnsweredClocks
from streaming.config import StreamingConfig
from streaming.progress_topic import ProgressPublisher
from streaming.stored_group import ShardState
from streaming.ticker import Ticker, machine_wall_ms
from streaming.topics import ensure_topics
from tests.streaming.running_app import TIMEOUT_S, Client
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


def respond(config: StreamingConfig) -> None:
    """Be a responder, in a process of its own, until it refuses or is killed."""
    with RunningResponder(config) as responder:
        responder.join()
    sys.exit(ExitCode.REFUSED if isinstance(responder.failure, ResponderRefusedError) else ExitCode.FAILED)


class Shard:
    """The topics of a coordinator whose query is away, and its ticker, which comes and goes."""

    def __init__(self, config: StreamingConfig, stack: ExitStack) -> None:
        self.config = config
        self.topics = config.topics
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

    def start_responder_process(self) -> SpawnProcess:
        """Return a responder that can be stopped as a whole; it ends with the code of its reason."""
        process = multiprocessing.get_context("spawn").Process(target=respond, args=(self.config,), daemon=True)
        process.start()
        self._stack.callback(process.join)
        self._stack.callback(process.kill)
        return process

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
