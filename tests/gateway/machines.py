"""Machines of connections without sockets: bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Callable

from group_coordinator.gateway.config import Address, Bounds
from group_coordinator.gateway.connection import Connection
from group_coordinator.gateway.versions import accepted_versions
from schemas.messages import HeartbeatResponse

ALL_IS_WELL = HeartbeatResponse()


class AloneConnection(Connection):
    """Nobody else wants a turn."""

    def _guarded(self, step: Callable[[], None]) -> None:
        super()._guarded(step)
        while self.has_more and step != self.go_on:
            self.go_on()


def connection(
    bounds: Bounds | None = None, *, requires_sasl: bool = False, now_s: Callable[[], float] = lambda: 0.0
) -> Connection:
    ours = accepted_versions(rewrites_addresses=True, taps=False)
    return AloneConnection(
        ours,
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
