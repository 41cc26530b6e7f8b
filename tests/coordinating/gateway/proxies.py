"""Gateways with sockets and without Kafka."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from group_coordinator.coordinating.gateway.config import Address, Bounds, GatewaySettings
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from group_coordinator.coordinating.gateway.ports import Ports
from group_coordinator.coordinating.gateway.proxy_server import ProxyServer
from group_coordinator.coordinating.gateway.request_router import Reply
from group_coordinator.coordinating.gateway.rewriting import Locate
from group_coordinator.coordinating.gateway.versions import accepted_versions
from schemas.messages import HeartbeatResponse, ListedGroup, ListGroupsRequest, ListGroupsResponse

FIXTURES = Path(__file__).parent / "fixtures"

LISTED = ListGroupsResponse(groups=(ListedGroup(group_id="g" * 100, protocol_type="c", group_state="Stable"),) * 1_000)


class Alone(ProxyServer):
    """Answers at once, and has a broker that nobody reaches."""

    holds = False
    """Whether answers are held back."""
    on_ask: Callable[[PendingRequest, Reply], None] | None = None
    """Answers in its place."""
    loop: asyncio.AbstractEventLoop
    """In which it lives, once it was started."""

    async def _begin(self, ports: Ports) -> None:
        self.loop = asyncio.get_running_loop()

    def _find_brokers(self) -> list[tuple[int, Address]]:
        return [(1, Address("127.0.0.1", 1))]

    def _machine(self, locate: Locate | None) -> Connection:
        gateway_versions = accepted_versions(rewrites_addresses=True, taps=False)
        return Connection(gateway_versions, locate, self._config, requires_sasl=self._config.speaks_sasl)

    def _ask(self, pending: PendingRequest, node_id: int | None, reply: Reply) -> None:
        if self.on_ask is not None:
            self.on_ask(pending, reply)
        elif not self.holds:
            reply(LISTED if isinstance(pending.request, ListGroupsRequest) else HeartbeatResponse())


def front(bounds: Bounds | None = None, connections_max: int = 100, *, tls: bool = False, sasl: bool = False) -> Alone:
    return Alone(
        GatewaySettings(
            listen="127.0.0.1:0",
            bootstrap_servers="127.0.0.1:1",
            kafka={"security.protocol": "SASL_PLAINTEXT"} if sasl else {},
            tls_certificate=str(FIXTURES / "certificate.pem") if tls else None,
            tls_key=str(FIXTURES / "key.pem") if tls else None,
            **{**asdict(bounds or Bounds()), "connections_max": connections_max},
        )
    )


def connect(gateway: ProxyServer) -> socket.socket:
    host, port = gateway.bootstrap_servers.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=5)


def is_closed_within(client: socket.socket, seconds: float) -> bool:
    client.settimeout(seconds)
    try:
        return client.recv(1_000) == b""
    except TimeoutError:
        return False
