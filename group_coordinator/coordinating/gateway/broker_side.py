"""A session's connection with its broker."""

from __future__ import annotations

import asyncio
from ipaddress import ip_address
from typing import Protocol, cast


def as_java_prints(address: str) -> str:
    """Return an address as brokers print it: of IPv6 all eight groups, none with leading zeros."""
    groups = ip_address(address.partition("%")[0]).exploded.split(":")
    return address if len(groups) == 1 else ":".join(f"{int(group, 16):x}" for group in groups)


class Carrier(Protocol):
    """The session carries what comes."""

    def from_broker(self, data: bytes) -> None: ...

    def broker_lost(self) -> None: ...

    def flush(self) -> None: ...

    def flush_soon(self) -> None: ...


class BrokerSide(asyncio.Protocol):
    """The connection of a session with its broker."""

    def __init__(self, session: Carrier) -> None:
        self._session = session
        self._transport: asyncio.Transport | None = None
        self._is_read = True
        self.is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    @property
    def name(self) -> str:
        """The connection as brokers name it: their own end, then the other one."""
        if self._transport is None:
            return ""
        broker, own = map(self._transport.get_extra_info, ("peername", "sockname"))
        return f"{as_java_prints(broker[0])}:{broker[1]}-{as_java_prints(own[0])}:{own[1]}"

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._session.from_broker(data)

    def pause_writing(self) -> None:
        self.is_full = True
        self._session.flush()

    def resume_writing(self) -> None:
        self.is_full = False
        self._session.flush_soon()

    def connection_lost(self, problem: Exception | None) -> None:
        if self._transport is not None:
            self._transport = None
            self._session.broker_lost()

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def read(self, is_wanted: bool) -> None:
        if self._transport is not None and is_wanted != self._is_read:
            self._is_read = is_wanted
            if is_wanted:
                self._transport.resume_reading()
            else:
                self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.close()
