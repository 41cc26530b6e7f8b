"""The dashboard as a server in a thread."""

from __future__ import annotations

import time

from group_coordinator.ground.http_server.server import HttpServer, ServerError, listen_guarded
from group_coordinator.watching.dashboard.application import application
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.news import News
from group_coordinator.watching.dashboard.sources import Source, SourceError
from group_coordinator.watching.dashboard.what_if import ReplayFunction

DEFAULT_PORT = 8450
CONNECTIONS_MAX = 512
"""Each page that is open holds one."""


class RunningServer:
    """A server in a thread of its own. `stop` ends it; `with` does, too."""

    def __init__(self, server: HttpServer, source: Source, address: str, index: Index) -> None:
        self.address = address
        """Where to look, with the token where one is needed."""
        self.index = index
        self.source = source
        self._server = server

    @property
    def is_running(self) -> bool:
        """True while the server runs in its thread."""
        return self._server.is_running

    def stop(self) -> None:
        self._server.stop()
        self.source.stop()

    def __enter__(self) -> RunningServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_server(
    source: Source,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    *,
    index: Index | None = None,
    what_if: ReplayFunction | None = None,
) -> RunningServer:
    """Start a server in a thread; `port` 0 is a free one. `index`: what the source fills, with its settings.

    On loopback no token is needed; elsewhere one is made where none is given. Raises SourceError when the source cannot
    be read or the port is taken.
    """
    index = Index() if index is None else index
    try:
        listening, token = listen_guarded(host, port, token)
    except ServerError as problem:
        raise SourceError(str(problem)) from problem
    try:
        source.start(index)
    except BaseException:
        listening.close()
        raise
    documents = Documents(index, (lambda: time.time_ns() // 1_000_000) if source.is_live else None, what_if)
    news = News(documents)
    app = application(documents, source, news, token)
    server = HttpServer(app, listening, name="dashboard", connections_max=CONNECTIONS_MAX, before_shutdown=news.close)
    try:
        server.start()
    except ServerError as problem:
        raise SourceError(str(problem)) from problem
    return RunningServer(server, source, server.url + "/" + (f"?token={token}" if token else ""), index)
