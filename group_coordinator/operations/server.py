"""The HTTP endpoint: `/metrics` for Prometheus, `/health/live` and `/health/ready` for probes. Read-only, no secrets."""

from __future__ import annotations

import json
import socket
import threading
from collections import OrderedDict
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from group_coordinator.operations.health import Probes
from schemas.http_host import is_loopback, names_this_machine

REQUEST_TIMEOUT_S = 10.0
"""A peer that says nothing holds a thread no longer than this."""
CONNECTIONS_MAX = 64
"""Each connection has a thread. One more closes the oldest, so that silent ones cannot keep a probe out."""


class OperationsServer:
    """The endpoint, in a thread of its own. A context manager."""

    def __init__(self, host: str, port: int, registry: CollectorRegistry, health: Probes) -> None:
        """Port 0: a free one. Raises OSError where it cannot listen."""

        class Handler(_Handler):
            pass

        Handler.registry, Handler.health, Handler.local_only = registry, health, is_loopback(host)
        try:
            self._server = _Server((host, port), Handler)
        except OSError as problem:
            raise OSError(f"The endpoint with the metrics cannot listen on {host}, port {port}: {problem.strerror}.") from problem
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="operations", daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._server.server_address[:2]
        return f"http://{host!s}:{port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1_024

    def __init__(self, *arguments: Any) -> None:
        self._open: OrderedDict[socket.socket, None] = OrderedDict()
        self._lock = threading.Lock()
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open[request] = None
            while len(self._open) > CONNECTIONS_MAX:
                oldest, _ = self._open.popitem(last=False)
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end and closes it
        super().process_request(request, client_address)

    def close_request(self, request: Any) -> None:
        with self._lock:
            self._open.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A peer that goes in the midst is no news."""


class _Handler(BaseHTTPRequestHandler):
    registry: CollectorRegistry
    health: Probes
    local_only: bool
    """Bound to this machine: then only requests that name it are answered, so that no page from elsewhere can read it."""
    timeout = REQUEST_TIMEOUT_S
    server_version, sys_version = "group-coordinator", ""

    def do_GET(self) -> None:
        if self.local_only and not names_this_machine(self.headers.get("Host", "localhost")):
            self._send(403, "text/plain; charset=utf-8", b"This endpoint answers to localhost only.\n")
            return
        match self.path.partition("?")[0]:
            case "/metrics":
                encode, content_type = choose_encoder(self.headers.get("Accept", ""))
                self._send(200, content_type, encode(self.registry))
            case "/health/live":
                self._send_health(self.health.not_live())
            case "/health/ready":
                self._send_health(self.health.not_ready())
            case _:
                self._send(404, "text/plain; charset=utf-8", b"/metrics, /health/live, /health/ready\n")

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send_health(self, reasons: list[str]) -> None:
        body = json.dumps({"status": "failing" if reasons else "ok", "reasons": reasons}).encode() + b"\n"
        self._send(503 if reasons else 200, "application/json", body)

    def _send(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Scrapes are no news."""
