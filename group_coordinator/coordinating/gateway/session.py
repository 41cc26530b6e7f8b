"""A session carries bytes between one client's connection, its machine and the broker's connection, with asyncio."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import cast

from msgspec import Struct

from group_coordinator.coordinating.gateway.admission import Admission
from group_coordinator.coordinating.gateway.broker_side import BrokerSide
from group_coordinator.coordinating.gateway.buffered import Buffered
from group_coordinator.coordinating.gateway.config import Address, Bounds
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.fair_scheduler import SLICE_S, FairScheduler
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.coordinating.gateway.pending_request import AnyResponse, PendingRequest
from group_coordinator.coordinating.gateway.request_router import Reply
from group_coordinator.ground.monitoring.line_limit import LineLimit

_CONNECT_TIMEOUT_S = 10.0
_LAST_WORDS_S = 10.0
"""How long a client may take to read what was written to it before its connection was closed."""
_UNSENT_BYTES_MAX = 1_048_576
"""Bytes for a broker that is not connected yet, after which no more are read."""
_lines = LineLimit(logging.getLogger(__name__), logging.INFO, "connections")

Ask = Callable[[PendingRequest, int | None, Reply], None]
"""Answer a request, now or later; the number is the broker for which the gateway stands."""


class Backing(Struct, frozen=True):
    """The brokers behind a port."""

    node_id: int | None
    """The broker; None: any, this is where clients bootstrap."""
    brokers: Callable[[], list[Address]]
    """Where to connect, in the order in which to try."""
    tls: ssl.SSLContext | None
    on_unreachable: Callable[[], None]


class SharedResources(Struct, frozen=True):
    """All connections of a gateway share these."""

    scheduler: FairScheduler
    room: Admission
    buffered: Buffered
    passing: Buffered
    """Lengths of the requests that go through to brokers and have no end yet."""
    weigh: Callable[[PendingRequest], int]
    """How much room a request takes."""


class Session(asyncio.Protocol):
    """The client's side; each accepted connection has one."""

    def __init__(
        self,
        machine: Connection,
        backing: Backing,
        bounds: Bounds,
        ask: Ask,
        metrics: GatewayMetrics,
        shared: SharedResources,
        on_begin: Callable[[Session], bool],
        on_end: Callable[[Session], None],
    ) -> None:
        """`on_begin` returns whether there is room for a connection; `on_end` follows only after it."""
        self._machine = machine
        self._bounds = bounds
        self._on_begin = on_begin
        self._backing = backing
        self._ask = ask
        self._metrics = metrics
        self._shared = shared
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._client: asyncio.Transport | None = None
        self._client_is_full = False
        self._client_is_read = True
        self._broker: BrokerSide | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._is_flushing = self._will_flush = False
        self._waits_for_room = False
        self._is_noted = False
        """Whether something lies here for this connection."""
        self._passes = False
        """Whether a request of it goes through to a broker that has no end yet."""
        self._weight = 0
        """Of the next request."""
        self._moved_s = self._loop.time()
        """When the client last sent or took something."""
        self._watch: asyncio.TimerHandle | None = None

    @property
    def client(self) -> asyncio.Transport | None:
        """The connection with the client, while it is open."""
        return self._client

    @property
    def answers_waiting(self) -> int:
        """The number of requests that the client has no answer to yet."""
        return self._machine.answers_waiting

    # -------------------------------------------------------------------------------------------------- from asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._on_begin(self):
            self._machine.end()
            transport.close()
            return
        self._client = cast(asyncio.Transport, transport)
        # A client whose machine is gone says nothing, for ever: the kernel asks it now and then.
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._machine.client_host = transport.get_extra_info("peername", ("",))[0]
        self._moved_s = self._loop.time()
        self._watch = self._loop.call_later(self._bounds.login_timeout_ms / 1_000, self._insist_on_login)

    def data_received(self, data: bytes) -> None:
        self._moved_s = self._loop.time()
        self._machine.from_client(data)
        self.flush()

    def pause_writing(self) -> None:
        self._client_is_full = True
        self.flush()

    def resume_writing(self) -> None:
        self._moved_s = self._loop.time()
        self._client_is_full = False
        self.flush_soon()

    def connection_lost(self, problem: Exception | None) -> None:
        self._client = None
        if self._broker is None or not self._machine.outlives_client:
            self.end()

    # ------------------------------------------------------------------------------------------------ from the broker

    def from_broker(self, data: bytes) -> None:
        self._machine.from_broker(data)
        self.flush()

    def broker_lost(self) -> None:
        self._broker = None
        self._machine.broker_closed()
        self.flush()

    # ------------------------------------------------------------------------------------------------------- carrying

    def flush(self) -> None:
        """Send to each side what the machine has for it."""
        if self._is_flushing:
            return  # an answer that was given at once: whoever carries sees it
        self._is_flushing, self._will_flush = True, False
        now_s = self._loop.time()
        ends_s = now_s + SLICE_S
        try:
            while now_s < ends_s and self._has_something_to_ask and self._ask_next(now_s):
                self._write()
                now_s = self._loop.time()
        finally:
            self._is_flushing = False
        self._write()
        self._pace()
        if self._machine.closing:
            self._break(self._machine.closing)
            return
        if self._client is None and not self._machine.outlives_client:
            self.end()
            return
        if self._has_something_to_ask:
            if not self._waits_for_room:
                self._shared.scheduler.ask_for(self.run_slice)
        elif self._waits_for_room:
            # A client that does not read is asked nothing for, so it must not stand before the others either.
            self._waits_for_room = False
            self._shared.room.forget(self)
        elif self._machine.has_more and not self._client_is_full:
            self._shared.scheduler.ask_for(self.run_slice)
        self._note_passing()
        self._note_buffered()

    def run_slice(self) -> None:
        """Begin what had to wait for this connection's slice."""
        if not self._machine.to_coordinator:
            self._machine.go_on()
        self.flush()

    def flush_soon(self) -> None:
        """Flush in the loop's next round: answers that come together leave together, and a transport does not expect to
        be written to from its own callbacks."""
        if not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self.flush)

    def end(self) -> None:
        """Close both sides."""
        self._machine.end()
        self._shared.scheduler.forget(self.run_slice)
        self._shared.room.forget(self)
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._broker is not None:
            self._broker.close()
            self._broker = None
        if self._client is not None:
            self._client.close()
            if self._client.get_write_buffer_size():
                # asyncio would wait for a client that does not read as long as that is there.
                self._loop.call_later(_LAST_WORDS_S, self._client.abort)
            self._client = None
        self._shared.buffered.forget(self)
        self._shared.passing.forget(self)
        self._on_end(self)

    def give_up(self, reason: str) -> None:
        """Close the connection, since it holds what others need."""
        client = self._client
        self._break(reason)
        if client is not None:
            client.abort()

    def is_silent(self, seconds: float) -> bool:
        """Return whether the client has sent and read nothing for so long, and waits for nothing; or is gone."""
        if self._client is None:
            return True
        return self._loop.time() - self._moved_s >= seconds and not self._machine.answers_waiting

    @property
    def _has_something_to_ask(self) -> bool:
        """Requests wait that may be handled now; none is for a client that does not read its answers, or is gone."""
        if not self._machine.to_coordinator or self._machine.closing or self._client_is_full:
            return False
        return self._client is not None and not self._client.is_closing()

    def _ask_next(self, now_s: float) -> bool:
        """Handle the next request; False if it has to wait for admission."""
        pending = self._machine.to_coordinator[0]
        if not self._waits_for_room:
            self._weight = self._shared.weigh(pending)
        self._waits_for_room = not self._shared.room.admits(self, self._weight)
        if self._waits_for_room:
            return False
        del self._machine.to_coordinator[0]
        self._metrics.requests[pending.api] += 1
        reply = partial(self._reply, pending.api, pending.number, self._weight, now_s)
        self._ask(pending, self._backing.node_id, reply)
        return True

    def _reply(self, api: str, number: int, weight: int, since_s: float, response: AnyResponse) -> None:
        self._shared.room.release(self, weight)
        self._metrics.answer_ms[api].add((self._loop.time() - since_s) * 1_000)
        self._machine.answer(number, response)
        if not self._is_flushing:  # else it was given at once, and leaves with what is flushed
            self.flush_soon()

    def _note_passing(self) -> None:
        """Report the length of the unfinished request that is passed on."""
        size, number = self._machine.passing
        if (size or self._passes) and self._client is not None:
            self._passes = size > 0
            self._shared.passing.note(self, size, number, is_unfinished=True)

    def _note_buffered(self) -> None:
        """Report the bytes that are buffered for this connection."""
        if self._client is None:
            return
        size = self._machine.buffered_bytes
        if self._client_is_full:  # else it is little, and on its way
            size += self._client.get_write_buffer_size()
        if size or self._is_noted:
            self._is_noted = size > 0
            self._shared.buffered.note(self, size, self._machine.steps, is_unfinished=self._machine.awaits_rest)

    def _write(self) -> None:
        machine = self._machine
        if machine.to_client and self._client is not None:
            data = b"".join(machine.to_client)
            machine.to_client.clear()
            self._metrics.bytes_to_clients += len(data)
            self._moved_s = self._loop.time()
            self._client.write(data)
        elif self._client is None:
            machine.to_client.clear()
        if machine.to_broker and not machine.closing:
            if self._broker is not None:
                data = b"".join(machine.to_broker)
                machine.to_broker.clear()
                self._metrics.bytes_to_brokers += len(data)
                self._broker.write(data)
            elif self._connecting is None:
                self._connecting = self._loop.create_task(self._connect())

    def _pace(self) -> None:
        """Read from each side only as much as can be kept or passed on."""
        if self._broker is not None:
            self._broker.read(self._machine.reads_broker and not self._client_is_full)
            is_full = self._broker.is_full
        else:
            is_full = sum(map(len, self._machine.to_broker)) > _UNSENT_BYTES_MAX
        reads = self._machine.reads_client and not (is_full or self._client_is_full or self._waits_for_room)
        if self._client is not None and reads != self._client_is_read:
            self._client_is_read = reads
            if reads:
                self._client.resume_reading()
            else:
                self._client.pause_reading()

    def _insist_on_login(self) -> None:
        """The time for authentication is over; from now on only silence is watched."""
        if self._machine.has_logged_in:
            self._watch_silence()
        else:
            self._break("the client has not authenticated in time")

    def _watch_silence(self) -> None:
        idle_s = self._bounds.connections_max_idle_ms / 1_000
        silent_s = self._loop.time() - self._moved_s
        if silent_s >= idle_s and not self._machine.answers_waiting:
            self._break("idle")
        else:
            self._watch = self._loop.call_later(max(idle_s - silent_s, idle_s / 10), self._watch_silence)

    def _break(self, reason: str) -> None:
        if self._client is not None:
            self._metrics.connections_broken[reason.split(":")[0]] += 1
            _lines.write("connection of %s closed: %s", self._machine.client_host, reason)
        self.end()

    async def _connect(self) -> None:
        for address in self._backing.brokers():
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    _, broker = await self._loop.create_connection(
                        partial(BrokerSide, self),
                        address.host,
                        address.port,
                        ssl=self._backing.tls,
                        server_hostname=address.host if self._backing.tls else None,
                    )
            except (OSError, TimeoutError) as problem:
                _lines.write("broker %s cannot be reached: %s", address, problem)
                continue
            self._connecting, self._broker = None, broker
            self._machine.broker_connection = broker.name
            self.flush()
            return
        self._connecting = None
        self._backing.on_unreachable()
        self._machine.closing = "no broker can be reached"
        self.flush()
