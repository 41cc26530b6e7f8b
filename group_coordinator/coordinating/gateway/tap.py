"""A tap is a gateway that takes nothing out: the cluster's own coordinator answers, and the tap writes requests and
answers into a request log (`tap_log`), as the brokers themselves would.

It sees only clients that bootstrap at the tap.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from group_coordinator.coordinating.gateway.config import Bounds, GatewayError, TapSettings
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.frames import RequestHead
from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from group_coordinator.coordinating.gateway.ports import Ports
from group_coordinator.coordinating.gateway.proxy_server import ProxyServer
from group_coordinator.coordinating.gateway.request_router import Reply
from group_coordinator.coordinating.gateway.rewriting import Locate, Rewrite
from group_coordinator.coordinating.gateway.tap_log import (
    LOGGED_APIS,
    Exchange,
    LongAnswers,
    RequestLogLines,
    RotatedFile,
)
from group_coordinator.coordinating.gateway.versions import Versions, accepted_versions
from schemas.wire import DecodeError

_FLUSH_INTERVAL_S = 0.5
_EXCHANGE_BYTES_MAX = 1_048_576
"""The longest request and answer, together, that have a line: to take them apart holds up all connections. Larger ones
list thousands of topics, as a rule."""
_log = logging.getLogger(__name__)


class TapConnection(Connection):
    """The requests of this connection go to the broker, and those that are logged are noted with their answers."""

    taps = True
    answered_apis = LOGGED_APIS

    def __init__(
        self,
        gateway_versions: Versions,
        locate: Locate | None,
        bounds: Bounds,
        long_answers: LongAnswers,
        write: Callable[[str, bytes], None],
        *,
        requires_sasl: bool,
        now_s: Callable[[], float],
    ) -> None:
        """`write` gets the name of the API and the line."""
        super().__init__(gateway_versions, locate, bounds, requires_sasl=requires_sasl, now_s=now_s)
        self._long_answers, self._write, self._now_s = long_answers, write, now_s
        self._lines = RequestLogLines()
        self._unanswered = 0
        self._answered_s = 0.0

    def _take_group_request(self, head: RequestHead) -> bool:
        payload = self._from_client.whole()
        if payload is None:
            return False
        self._count(1)
        rewrite = self._rewrite_of(head)
        self._forward(head, partial(self._listen, head, payload, self.principal, self._now_s(), rewrite))
        self._send(payload)
        return True

    def _listen(
        self, head: RequestHead, request: bytes, principal: str, came_s: float, rewrite: Rewrite | None, payload: bytes
    ) -> bytes:
        """Note an answer, which goes on as it is, but for the addresses of brokers."""
        self._count(-1)
        now_s = self._now_s()
        # A broker takes up a request when it has answered the one before on the same connection.
        since_s, self._answered_s = max(came_s, self._answered_s), now_s
        exchange = Exchange(
            head=head,
            request=request,
            response=payload,
            connection=self.broker_connection,
            client_host=self.client_host,
            principal=principal,
            took_ms=(now_s - since_s) * 1_000,
            answered_us=time.time_ns() // 1_000,
        )
        if len(request) + len(payload) <= _EXCHANGE_BYTES_MAX and not self._long_answers.is_repeated(exchange):
            self._note(exchange)
        return payload if rewrite is None else rewrite(payload)

    def _count(self, further: int) -> None:
        """A group remembers what a client asked that is gone, so the answer is still waited for."""
        self._unanswered += further
        self.outlives_client = self._unanswered > 0

    def _note(self, exchange: Exchange) -> None:
        try:
            line = self._lines.line(exchange)
        except DecodeError:
            return  # an error that the broker tells in the layout of another version, or bytes that are no answer
        self._write(LOGGED_APIS[exchange.head.api_key], line)


class Tap(ProxyServer):
    """The tap listens, passes on and writes a log."""

    def __init__(self, config: TapSettings, log: Path) -> None:
        """Raises GatewayError where the log cannot be written."""
        super().__init__(config)
        self._gateway_versions = accepted_versions(rewrites_addresses=not config.routes, taps=True)
        try:
            self._file = RotatedFile(log, config.file_bytes_max, config.files_max)
        except OSError as problem:
            raise GatewayError(f"{log} cannot be written: {problem.strerror}.") from problem
        self._long_answers = LongAnswers()
        self.log_failure: str | None = None
        """Why nothing is logged any more; clients are served all the same."""
        self.lines = 0
        """The number of requests that were logged."""
        self._flusher: asyncio.TimerHandle | None = None

    async def _begin(self, ports: Ports) -> None:
        self._flush()

    async def _finish(self) -> None:
        if self._flusher is not None:
            self._flusher.cancel()
        self._try(self._file.close)

    def _flush(self) -> None:
        self._try(self._file.flush)
        self._flusher = asyncio.get_running_loop().call_later(_FLUSH_INTERVAL_S, self._flush)

    def _machine(self, locate: Locate | None) -> Connection:
        return TapConnection(
            self._gateway_versions,
            locate,
            self._config,
            self._long_answers,
            self.write,
            requires_sasl=self._config.speaks_sasl,
            now_s=time.monotonic,
        )

    def write(self, api: str, line: bytes) -> None:
        """Write a line. Where that fails, the log ends, and clients go on."""
        self.metrics.requests[api] += 1
        self._try(partial(self._file.write, line))
        self.lines += self.log_failure is None

    def _try(self, write: Callable[[], None]) -> None:
        if self.log_failure is None:
            try:
                write()
            except OSError as problem:
                self.log_failure = str(problem)
                _log.error("the log ends here, clients go on: %s", problem)

    def _ask(self, pending: PendingRequest, node_id: int | None, reply: Reply) -> None:
        raise AssertionError("a tap answers nothing")
