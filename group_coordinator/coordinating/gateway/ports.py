"""The gateway's ports: where clients bootstrap, and one for each broker, opened as brokers become known."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import ssl
from collections.abc import Callable, Iterable
from functools import partial

from group_coordinator.coordinating.gateway.brokers import Node
from group_coordinator.coordinating.gateway.config import Address, GatewayError, ProxySettings
from group_coordinator.coordinating.gateway.session import Backing
from schemas.settings import PORT_MAX

_BACKLOG = 1_024
_TLS_TIMEOUT_S = 15.0
"""How long a client may take for its TLS handshake."""
_log = logging.getLogger(__name__)


class Ports:
    """Knows the brokers and the ports that stand for them; in the event loop's thread."""

    def __init__(
        self,
        config: ProxySettings,
        accept: Callable[[Backing], asyncio.Protocol],
        client_tls: ssl.SSLContext | None,
        broker_tls: ssl.SSLContext | None,
        on_unreachable: Callable[[], None],
    ) -> None:
        self._config = config
        self._accept = accept
        self._client_tls = client_tls
        self._broker_tls = broker_tls
        self._on_unreachable = on_unreachable
        self._brokers: dict[int, Address] = {}
        """Every broker that was ever seen, where it was last."""
        self._advertised: dict[int, Address] = {}
        """The address that clients are told."""
        self._present: tuple[int, ...] = ()
        self._servers: set[asyncio.Task[asyncio.Server]] = set()
        self.bootstrap = config.address

    def open(self) -> None:
        """Listen where clients bootstrap. Raises GatewayError when a port is taken."""
        routes = self._config.routes_to_brokers
        for route in routes:
            self._listen(route.listen, self._backing(None, partial(list, [route.broker])))
        self.bootstrap = (
            routes[0].listen if routes else self._listen(self.bootstrap, self._backing(None, self._any_broker))
        )

    async def close(self) -> None:
        """Stop listening."""
        for task in self._servers:
            (await task).close()

    def nodes(self) -> tuple[Node, ...]:
        """Return the brokers that are present, as clients know them."""
        return tuple(Node(node_id, self._advertised[node_id]) for node_id in self._present)

    def set_brokers(self, brokers: Iterable[tuple[int, Address]]) -> None:
        """Take these as the cluster's brokers. Raises GatewayError when a port for one of them cannot be had."""
        addresses = dict(brokers)
        for node_id, address in addresses.items():
            if self._config.routes:
                self._advertised[node_id] = address
            else:
                self.locate(node_id, address)
        self._present = tuple(sorted(addresses))

    def locate(self, node_id: int, address: Address) -> Address:
        """Return the gateway's address for a broker; its port opens when the broker is first seen."""
        self._brokers[node_id] = address
        advertised = self._advertised.get(node_id)
        if advertised is None:
            backing = self._backing(node_id, lambda: [self._brokers[node_id]])
            host, port = self._config.address
            bound = self._listen(Address(host, _port_of(node_id, port)), backing)
            advertised = Address(self._config.advertised_host or host, bound.port)
            self._advertised[node_id] = advertised
        return advertised

    def _backing(self, node_id: int | None, brokers: Callable[[], list[Address]]) -> Backing:
        return Backing(node_id, brokers, self._broker_tls, self._on_unreachable)

    def _any_broker(self) -> list[Address]:
        return [self._brokers[node_id] for node_id in random.sample(self._present, len(self._present))]

    def _listen(self, address: Address, backing: Backing) -> Address:
        family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
        try:
            listening = socket.create_server((address.host, address.port), family=family, backlog=_BACKLOG)
        except OSError as problem:
            reason = os.strerror(problem.errno) if problem.errno else str(problem)
            raise GatewayError(f"The gateway cannot listen on {address}: {reason}.") from problem
        listening.setblocking(False)
        loop = asyncio.get_running_loop()
        self._servers.add(
            loop.create_task(
                loop.create_server(
                    lambda: self._accept(backing),
                    sock=listening,
                    ssl=self._client_tls,
                    ssl_handshake_timeout=_TLS_TIMEOUT_S if self._client_tls else None,
                )
            )
        )
        return Address(address.host, listening.getsockname()[1])


def _port_of(node_id: int, bootstrap_port: int) -> int:
    """Return a broker's port, the same after every start: clients and firewalls may remember it."""
    if bootstrap_port == 0:
        return 0
    port = bootstrap_port + 1 + node_id
    if port > PORT_MAX:
        raise GatewayError(
            f"Broker {node_id} would be at port {port}: choose a lower port than {bootstrap_port} to listen on."
        )
    return port
