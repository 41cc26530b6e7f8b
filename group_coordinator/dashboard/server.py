"""The dashboard as a server: `serve` until told to stop, or `start_server` in a thread."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable

import uvicorn

from group_coordinator.dashboard.application import application
from group_coordinator.dashboard.documents import Documents
from group_coordinator.dashboard.index import Index
from group_coordinator.dashboard.news import News
from group_coordinator.dashboard.settings import DashboardSettings
from group_coordinator.dashboard.sources import Source, SourceError
from group_coordinator.dashboard.what_if import ReplayFunction
from schemas.http_host import is_loopback

DEFAULT_PORT = 8450
LISTEN_BACKLOG = 1_024
"""Connections that wait to be accepted: many that come at once must not turn an honest one away."""
_START_TIMEOUT_S = 15.0


class RunningServer:
    """A server in a thread of its own. `stop` ends it; `with` does, too."""

    def __init__(self, server: uvicorn.Server, source: Source, address: str, index: Index) -> None:
        self.address = address
        """Where to look, with the token where one is needed."""
        self.index = index
        self._server = server
        self._source = source
        self._thread = threading.Thread(target=server.run, daemon=True, name="dashboard")

    @property
    def is_running(self) -> bool:
        """Whether it serves in its thread."""
        return self._thread.is_alive()

    def run(self) -> None:
        """Serve in this thread, until SIGINT, SIGTERM or `stop`."""
        try:
            self._server.run()
        finally:
            self._source.stop()

    def start(self) -> None:
        """Serve in a thread. Raises SourceError when the server does not come up."""
        self._thread.start()
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline_s:
                raise SourceError("The dashboard's server did not start.")
            time.sleep(0.02)

    def stop(self) -> None:
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join(_START_TIMEOUT_S)
        self._source.stop()

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def serve(
    source: Source,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    token: str | None = None,
    *,
    settings: DashboardSettings | None = None,
    what_if: ReplayFunction | None = None,
    announce: Callable[[str], None] = lambda address: None,
) -> None:
    """Show a source until SIGINT or SIGTERM. `announce` is told the address before the first request is served.

    On loopback no token is needed; elsewhere one is made where none is given. Raises SourceError when the source cannot be
    read or the port is taken.
    """
    server = _prepare(source, host, port, token, settings, what_if)
    announce(server.address)
    server.run()


def start_server(
    source: Source,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    *,
    settings: DashboardSettings | None = None,
    what_if: ReplayFunction | None = None,
) -> RunningServer:
    """The same in a thread; `port` 0: a free one. Raises SourceError."""
    server = _prepare(source, host, port, token, settings, what_if)
    server.start()
    return server


def _prepare(
    source: Source,
    host: str,
    port: int,
    token: str | None,
    settings: DashboardSettings | None,
    what_if: ReplayFunction | None,
) -> RunningServer:
    if token is None and not is_loopback(host):
        token = secrets.token_urlsafe(24)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as problem:
        listening.close()
        raise SourceError(f"Cannot listen on {host}, port {port}: {problem.strerror}.") from problem
    listening.listen(LISTEN_BACKLOG)
    index = Index(settings)
    try:
        source.start(index)
    except BaseException:
        listening.close()
        raise
    documents = Documents(index, (lambda: time.time_ns() // 1_000_000) if source.is_live else None, what_if)
    news = News(documents)
    app = application(documents, source, news, token)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
    shown = f"[{host}]" if ":" in host else "127.0.0.1" if host == "0.0.0.0" else host
    address = f"http://{shown}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
    return RunningServer(_Server(config, listening, news), source, address, index)


class _Server(uvicorn.Server):
    """A server on a socket that is bound already."""

    def __init__(self, config: uvicorn.Config, listening: socket.socket, news: News) -> None:
        super().__init__(config)
        self._listening = listening
        self._news = news

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        super().run(sockets or [self._listening])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._news.close()  # streams never end by themselves
        await super().shutdown(sockets)
