"""Machines of connections without sockets: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Callable

from group_coordinator.coordinating.gateway.config import Address, Bounds
from group_coordinator.coordinating.gateway.connection import Connection
from group_coordinator.coordinating.gateway.pending_request import AnyResponse
from group_coordinator.coordinating.gateway.versions import accepted_versions
from schemas.messages import HeartbeatResponse

ALL_IS_WELL = HeartbeatResponse()


class AloneConnection(Connection):
    """A connection beside which no other waits: what it has more goes on at once."""

    def from_client(self, data: bytes) -> None:
        super().from_client(data)
        self._finish()

    def from_broker(self, data: bytes) -> None:
        super().from_broker(data)
        self._finish()

    def answer(self, number: int, response: AnyResponse) -> None:
        super().answer(number, response)
        self._finish()

    def _finish(self) -> None:
        while self.has_more:
            self.go_on()


def connection(
    bounds: Bounds | None = None,
    *,
    requires_sasl: bool = False,
    now_s: Callable[[], float] = lambda: 0.0,
    is_alone: bool = True,
) -> Connection:
    gateway_versions = accepted_versions(rewrites_addresses=True, taps=False)
    return (AloneConnection if is_alone else Connection)(
        gateway_versions,
        lambda node_id, _: Address("gateway", 20_000 + node_id),
        bounds or Bounds(),
        requires_sasl=requires_sasl,
        now_s=now_s,
    )


def carried(pieces: list[bytes]) -> bytes:
    data = b"".join(pieces)
    pieces.clear()
    return data


def fed(machine: Connection, *requests: bytes) -> Connection:
    machine.from_client(b"".join(requests))
    return machine
