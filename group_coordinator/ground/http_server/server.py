"""A server of an ASGI application on a socket of its own, in this thread or in another."""

from __future__ import annotations

import asyncio
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from group_coordinator.ground.http_server.access import App
from schemas.http_host import is_loopback

LISTEN_BACKLOG = 1_024
"""Connections that wait to be accepted: many that come at once must not turn an honest one away."""
_START_TIMEOUT_S = 15.0
_GRACE_S = 5


class ServerError(RuntimeError):
    """The server did not come up. The message is a sentence."""


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens; port 0 stands for a free one. Raises OSError."""
    listening = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(LISTEN_BACKLOG)
    except OSError:
        listening.close()
        raise
    return listening


def listen_guarded(host: str, port: int, token: str | None) -> tuple[socket.socket, str | None]:
    """Return a socket that listens, and the token that visitors must have. On loopback none is needed; elsewhere one is
    made where none is given. Raises ServerError."""
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    try:
        return listen(host, port), token
    except OSError as problem:
        raise ServerError(f"Cannot listen on {host}, port {port}: {problem.strerror}.") from problem


class HttpServer:
    """Serves until `stop`. A context manager, which serves in a thread."""

    def __init__(
        self,
        app: App,
        listening: socket.socket,
        *,
        name: str,
        connections_max: int,
        before_shutdown: Callable[[], None] = lambda: None,
    ) -> None:
        """`connections_max`: one more closes the oldest, so that silent ones cannot keep others out.

        `before_shutdown` ends what would never end by itself, such as a stream of events.
        """
        self._listening = listening
        self._name = name
        config = uvicorn.Config(
            app,
            http=partial(_BoundedProtocol, _OpenConnections(connections_max)),  # type: ignore[arg-type]
            log_level="error",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = _Server(config, listening, before_shutdown)
        self._thread = threading.Thread(target=self._server.run, daemon=True, name=name)

    @property
    def url(self) -> str:
        """The server's address, as this machine calls it."""
        host, port = self._listening.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
        return f"http://{shown}:{port}"

    @property
    def is_running(self) -> bool:
        """True while the server runs in its thread."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Serve in a thread. Raises ServerError."""
        self._thread.start()
        give_up_s = time.monotonic() + _START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > give_up_s:
                raise ServerError(f"The {self._name}'s server did not start.")
            time.sleep(0.02)

    def stop(self) -> None:
        """Returns when it serves no more."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_START_TIMEOUT_S)
        self._listening.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class _Server(uvicorn.Server):
    """A server on a socket that listens already."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, before_shutdown: Callable[[], None]) -> None:
        super().__init__(config)
        self._listening = listening
        self._before_shutdown = before_shutdown

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(sockets or [self._listening])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._before_shutdown()
        await super().shutdown(sockets)


class _OpenConnections:
    """The connections of one server, the oldest first."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[asyncio.BaseTransport, None] = {}

    def opened(self, transport: asyncio.BaseTransport) -> None:
        self._open[transport] = None
        if len(self._open) > self._most:
            oldest = next(iter(self._open))
            del self._open[oldest]
            assert isinstance(oldest, asyncio.WriteTransport)
            oldest.abort()

    def closed(self, transport: asyncio.BaseTransport | None) -> None:
        if transport is not None:
            self._open.pop(transport, None)


class _BoundedProtocol(H11Protocol):
    """One connection, which is counted."""

    def __init__(self, connections: _OpenConnections, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._connections = connections
        self._counted: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._counted = transport
        self._connections.opened(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connections.closed(self._counted)
