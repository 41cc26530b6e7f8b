"""The gateway as a process, or as a thread of one: `Gateway(config).start()`, `stop()`, or `run_gateway(config, stop)`."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from gateway import tls
from gateway.authorization import Authorizer, RulesError, is_loopback, parse_rules
from gateway.config import GatewayConfig, GatewayError
from gateway.connection import Connection
from gateway.coordinator_client import EventsClient, partition_counts
from gateway.door import Door
from gateway.metrics import GatewayMetrics
from gateway.ports import Ports
from gateway.published_groups import PublishedGroups
from gateway.rewriting import Address
from gateway.session import Backing, Session
from gateway.topic_reader import TopicReader, TopicRecord
from gateway.versions import taken

_START_TIMEOUT_S = 60.0
_METADATA_TIMEOUT_S = 15.0
_LOOK_INTERVAL_S = 30.0
"""How often the gateway looks which brokers there are."""
_log = logging.getLogger(__name__)


class Gateway:
    """One gateway, in a thread of its own. A context manager."""

    def __init__(self, config: GatewayConfig) -> None:
        self.metrics = GatewayMetrics()
        self._config = config
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._service = _Service(config, self.metrics)
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    @property
    def bootstrap_servers(self) -> str:
        """Where clients bootstrap; known once it was started."""
        return str(self._service.bootstrap)

    def start(self) -> None:
        """Listen, and return when clients can come. Raises GatewayError."""
        problems = self._config.problems()
        if problems:
            raise GatewayError("\n".join(problems))
        self._thread.start()
        while not self._ready.wait(0.05) and self._thread.is_alive():
            pass
        self.check()

    def stop(self) -> None:
        """Close all connections and return when everything has ended. Members keep their places: they come back."""
        if self._loop is not None and self._stop is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._stop.set)
        if self._thread.ident is not None:
            self._thread.join()

    def check(self) -> None:
        """Raise what ended the gateway, if it has ended by itself."""
        if self._failure is not None:
            raise self._failure

    def __enter__(self) -> Gateway:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as failure:
            self._failure = failure

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        try:
            await self._service.start()
            self._ready.set()
            await self._stop.wait()
        finally:
            await self._service.end()


def run_gateway(config: GatewayConfig, stop: threading.Event, on_ready: Callable[[Gateway], None] = lambda gateway: None) -> None:
    """Run a gateway until `stop` is set. Raises GatewayError."""
    with Gateway(config) as gateway:
        on_ready(gateway)
        while not stop.wait(0.2):
            gateway.check()


class _Service:
    """What lives in the event loop."""

    def __init__(self, config: GatewayConfig, metrics: GatewayMetrics) -> None:
        self._config = config
        self._metrics = metrics
        self._sessions: set[Session] = set()
        self._ours = taken(rewrites_addresses=not config.routes, taps=False)
        self._events = EventsClient(config, metrics)
        self._published = PublishedGroups()
        self._assignments: TopicReader | None = None
        self._admin: AdminClient | None = None
        self._looking: asyncio.Task[None] | None = None
        self._look_now: asyncio.Event | None = None
        self._ports: Ports | None = None
        self._door: Door | None = None

    @property
    def bootstrap(self) -> Address:
        return self._config.listen if self._ports is None else self._ports.bootstrap

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        config = self._config
        self._look_now = asyncio.Event()
        self._ports = Ports(config, self._accept, tls.client_side(config), tls.broker_side(config), self._look_now.set)
        self._door = Door(
            self._events,
            self._published,
            self._ports.nodes,
            _authorizer(config),
            hands_out_member_ids=config.hands_out_member_ids,
        )
        await asyncio.to_thread(self._events.connect, loop)
        await asyncio.to_thread(self._read_assignments, loop)
        self._events.begin()
        self._ports.are_present(await asyncio.to_thread(self._find_brokers))
        self._ports.open()
        self._looking = loop.create_task(self._keep_looking())

    async def end(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
        if self._ports is not None:
            await self._ports.close()
        for session in list(self._sessions):
            session.end()
        await asyncio.to_thread(self._events.end)
        if self._assignments is not None:
            await asyncio.to_thread(self._assignments.stop)

    def _accept(self, backing: Backing) -> Session | asyncio.Protocol:
        if len(self._sessions) >= self._config.connections_max:
            self._metrics.connections_refused += 1
            return _Refusing()
        assert self._ports is not None
        assert self._door is not None
        machine = Connection(
            self._ours,
            None if self._config.routes else self._ports.locate,
            self._config.bounds,
            requires_sasl=self._config.speaks_sasl,
        )
        session = Session(machine, backing, self._door.ask, self._metrics, self._forget)
        self._sessions.add(session)
        self._metrics.connections_accepted += 1
        self._metrics.connections_open = len(self._sessions)
        return session

    def _forget(self, session: Session) -> None:
        self._sessions.discard(session)
        self._metrics.connections_open = len(self._sessions)

    def _read_assignments(self, loop: asyncio.AbstractEventLoop) -> None:
        properties = self._config.coordinator_client_properties
        topic = f"{self._config.topic_prefix}.assignments"
        partitions = list(range(partition_counts(properties, [topic])[topic]))

        def take(records: list[TopicRecord]) -> None:
            loop.call_soon_threadsafe(self._published.take, records)

        def complete() -> None:
            loop.call_soon_threadsafe(self._published.complete)

        self._assignments = TopicReader(properties, topic, partitions, take, from_beginning=True, on_caught_up=complete)
        self._assignments.start()

    # --------------------------------------------------------------------------------------------------- the brokers

    def _find_brokers(self) -> list[tuple[int, Address]]:
        """Blocks; raises GatewayError."""
        servers = self._bootstrap_of_brokers
        if self._admin is None:
            self._admin = AdminClient({**self._config.client_properties, "bootstrap.servers": servers, "log_level": "3"})
        try:
            brokers = self._admin.list_topics(timeout=_METADATA_TIMEOUT_S).brokers
        except KafkaException as problem:
            raise GatewayError(f"Kafka at {servers} does not answer: {problem.args[0].str()}.") from problem
        return [(node_id, Address(str(broker.host), int(broker.port))) for node_id, broker in brokers.items()]

    @property
    def _bootstrap_of_brokers(self) -> str:
        routes = self._config.routes
        return ",".join(str(route.broker) for route in routes) if routes else self._config.bootstrap_servers

    async def _keep_looking(self) -> None:
        """Which brokers are there changes; the one that is named as coordinator must exist."""
        assert self._look_now is not None
        assert self._ports is not None
        while True:
            try:
                await asyncio.wait_for(self._look_now.wait(), _LOOK_INTERVAL_S)
                await asyncio.sleep(1.0)  # many connections may have failed at once
            except TimeoutError:
                pass
            self._look_now.clear()
            try:
                self._ports.are_present(await asyncio.to_thread(self._find_brokers))
            except GatewayError as problem:
                _log.warning("%s", problem)


class _Refusing(asyncio.Protocol):
    """A connection too many: closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def _authorizer(config: GatewayConfig) -> Authorizer:
    path = config.authorization_rules
    if path is None:
        if not is_loopback(config.listen.host):
            _log.warning("no authorization rules: only clients on this machine may use groups")
        return Authorizer(None)
    try:
        return Authorizer(parse_rules(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, RulesError) as problem:
        raise GatewayError(f"The authorization rules in {path} cannot be used: {problem}.") from problem
