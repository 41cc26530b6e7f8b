"""A gateway and a tap share ports, sessions, the brokers behind them, and a thread with an event loop."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from group_coordinator.coordinating.gateway import tls
from group_coordinator.coordinating.gateway.admission import Admission
from group_coordinator.coordinating.gateway.buffered import Buffered
from group_coordinator.coordinating.gateway.config import Address, GatewayError, ProxySettings
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.descriptors import connections_that_fit
from group_coordinator.coordinating.gateway.fair_scheduler import FairScheduler
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from group_coordinator.coordinating.gateway.ports import Ports
from group_coordinator.coordinating.gateway.request_router import Reply
from group_coordinator.coordinating.gateway.rewriting import Locate
from group_coordinator.coordinating.gateway.session import Backing, Session, SharedResources
from group_coordinator.ground.kafka_topics.clients import login_problem, new_admin_client
from group_coordinator.ground.system.allocator import give_free_memory_back
from group_coordinator.ground.system.processor_time import ask_for_short_slices

_METADATA_TIMEOUT_S = 15.0
_LOOK_INTERVAL_S = 30.0
"""How often is looked which brokers there are."""
_LOOK_DELAY_S = 1.0
_SWEEP_INTERVAL_S = 1.0
_SILENT_S = 10.0
"""A connection that has been silent for so long, and waits for nothing, is closed where there are too many. Members
send a heartbeat every 3 s."""
_LOOKED_AT_MAX = 20
"""Connections that are looked at for each one too many."""
_REQUEST_BYTES = 2_048
"""What a request takes besides its bytes."""
_DECODED_FACTOR = 8
"""How much larger a request is in memory, and as an event."""
_HONEST_REQUEST_S = 1.0
"""A large request may well take so long to come."""
_CONNECTION_SHARE = 8
"""One connection may have an eighth of what may be under way."""
_log = logging.getLogger(__name__)


class ProxyServer:
    """The server listens and serves connections in a thread of its own with an event loop. It is a context manager.

    A subclass supplies the machine of a connection, and what is done with its requests.
    """

    def __init__(self, config: ProxySettings) -> None:
        self.metrics = GatewayMetrics()
        self._config = config
        self._connections_max = config.connections_max
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._stop: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._sessions: dict[Session, None] = {}
        """In the order in which they came, or were last looked at when there was no room."""
        self._admin: AdminClient | None = None
        self._ports: Ports | None = None
        self._shared: SharedResources | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address at which clients bootstrap; known after the start."""
        return str(self._config.address if self._ports is None else self._ports.bootstrap)

    @property
    def sessions(self) -> tuple[Session, ...]:
        """The connections of clients that are open."""
        return tuple(self._sessions)

    @property
    def shared(self) -> SharedResources:
        """The resources that all connections share; known after the start."""
        assert self._shared is not None
        return self._shared

    @property
    def is_ready(self) -> bool:
        """True if clients can connect."""
        return self._ready.is_set() and self._thread.is_alive() and self._failure is None

    def start(self) -> None:
        """Listen, and return when clients can come. Raises GatewayError."""
        give_free_memory_back()
        self._connections_max = connections_that_fit(self._config.connections_max)
        if self._connections_max < self._config.connections_max // 2:
            _log.warning(
                "at most %d connections, not %d: more file descriptors are not allowed here (ulimit -n)",
                self._connections_max, self._config.connections_max,
            )  # fmt: skip
        self._thread.start()
        while not self._ready.wait(0.05) and self._thread.is_alive():
            pass
        self.check()

    def stop(self) -> None:
        """Close all connections and return when everything has ended."""
        if self._stop is not None and self._thread.is_alive():
            loop, stop = self._stop
            loop.call_soon_threadsafe(stop.set)
        if self._thread.ident is not None:
            self._thread.join()

    def check(self) -> None:
        """Raise the failure that ended the server, if there is one."""
        if self._failure is not None:
            raise self._failure

    def give_up(self, failure: GatewayError) -> None:
        """End the server with a failure that `check` raises. Any thread may call this after the start."""
        assert self._stop is not None
        self._failure = self._failure or failure
        loop, stop = self._stop
        loop.call_soon_threadsafe(stop.set)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -------------------------------------------------------------------------------------------- for who derives from
    # it

    async def _begin(self, ports: Ports) -> None:
        """Runs before clients are let in."""

    async def _finish(self) -> None:
        """Runs after the last client is gone."""

    def _machine(self, locate: Locate | None) -> Connection:
        raise NotImplementedError

    def _ask(self, pending: PendingRequest, node_id: int | None, reply: Reply) -> None:
        raise NotImplementedError

    def _weigh(self, pending: PendingRequest) -> int:
        """Return the weight of a request and its answer for admission."""
        # No more than half of it: else it would wait until nothing at all is under way.
        return min(_REQUEST_BYTES + _DECODED_FACTOR * pending.size, self._config.queued_max_request_bytes // 2)

    # ------------------------------------------------------------------------------------------------------ the event
    # loop

    def _run(self) -> None:
        ask_for_short_slices()  # of the thread, and of all that are started from here: those of the Kafka clients
        try:
            asyncio.run(self._serve())
        except BaseException as failure:
            self._failure = self._failure or failure

    async def _serve(self) -> None:
        stop = asyncio.Event()
        look_now = asyncio.Event()
        ports = Ports(
            self._config, self._accept, tls.client_side(self._config), tls.broker_side(self._config), look_now.set
        )
        tasks: list[asyncio.Task[None]] = []
        loop = asyncio.get_running_loop()
        bounds = self._config
        buffered = Buffered(bounds.buffered_bytes_max, bounds.request_timeout_ms / 1_000, loop.time)
        passing = Buffered(
            bounds.passing_bytes_max,
            bounds.request_timeout_ms / 1_000,
            loop.time,
            honest_s=_HONEST_REQUEST_S,
            place="at brokers",
        )
        room = Admission(bounds.queued_max_request_bytes, bounds.queued_max_request_bytes // _CONNECTION_SHARE)
        self._shared = SharedResources(FairScheduler(loop), room, buffered, passing, self._weigh)
        self._stop = loop, stop
        self._ports = ports
        try:
            await self._begin(ports)
            ports.set_brokers(await asyncio.to_thread(self._find_brokers))
            ports.open()
            tasks += [
                asyncio.create_task(self._keep_looking(ports, look_now)),
                asyncio.create_task(_keep_sweeping(buffered, passing)),
            ]
            self._ready.set()
            await stop.wait()
        finally:
            for task in tasks:
                task.cancel()
            await ports.close()
            for session in list(self._sessions):
                session.end()
            self._admin = None  # it would go on looking for its brokers
            await self._finish()

    def _accept(self, backing: Backing) -> asyncio.Protocol:
        if len(self._sessions) >= self._connections_max and not self._close_silent_connection():
            self.metrics.connections_refused += 1
            return _Refusing()
        assert self._ports is not None
        machine = self._machine(None if self._config.routes else self._ports.locate)
        return Session(machine, backing, self._config, self._ask, self.metrics, self.shared, self._begun, self._forget)

    def _begun(self, session: Session) -> bool:
        """A client has connected, its TLS handshake included; False if there are too many."""
        if len(self._sessions) >= self._connections_max:
            self.metrics.connections_refused += 1
            return False
        self._sessions[session] = None
        self.metrics.connections_accepted += 1
        self.metrics.connections_open = len(self._sessions)
        return True

    def _close_silent_connection(self) -> bool:
        """Close a connection that is silent and waits for nothing, as brokers do if there are too many (KIP-402).

        Thousands of unused open connections must not lock out other clients.
        """
        for _ in range(min(_LOOKED_AT_MAX, len(self._sessions))):
            session = next(iter(self._sessions))
            if session.is_silent(_SILENT_S):
                session.give_up("too many connections: this one was silent")
                return True
            del self._sessions[session]
            self._sessions[session] = None
        return False

    def _forget(self, session: Session) -> None:
        self._sessions.pop(session, None)
        self.metrics.connections_open = len(self._sessions)

    def _find_brokers(self) -> list[tuple[int, Address]]:
        """Blocks; raises GatewayError."""
        properties = self._config.broker_client_properties
        if self._admin is None:
            self._admin = new_admin_client(properties, {"log_level": 3})
        try:
            brokers = self._admin.list_topics(timeout=_METADATA_TIMEOUT_S).brokers
        except KafkaException as problem:
            raise GatewayError(
                login_problem(properties)
                or f"Kafka at {properties['bootstrap.servers']} does not answer: {problem.args[0].str()}."
            ) from problem
        return [(node_id, Address(str(broker.host), int(broker.port))) for node_id, broker in brokers.items()]

    async def _keep_looking(self, ports: Ports, look_now: asyncio.Event) -> None:
        """The brokers change over time; the one named as coordinator must exist."""
        while True:
            try:
                await asyncio.wait_for(look_now.wait(), _LOOK_INTERVAL_S)
                await asyncio.sleep(_LOOK_DELAY_S)  # many connections may have failed at once
            except TimeoutError:
                pass
            look_now.clear()
            try:
                ports.set_brokers(await asyncio.to_thread(self._find_brokers))
            except GatewayError as problem:
                _log.warning("%s", problem)


async def _keep_sweeping(*accounts: Buffered) -> None:
    while True:
        await asyncio.sleep(_SWEEP_INTERVAL_S)
        for account in accounts:
            account.sweep()


class _Refusing(asyncio.Protocol):
    """A connection beyond the bound is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()
