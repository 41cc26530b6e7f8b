"""Requests that go through to a broker:
it takes memory for all of one when it sees its length, so what has no end is bounded."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest

from group_coordinator.coordinating.gateway.buffered import Buffered
from group_coordinator.coordinating.gateway.config import Address, Bounds
from group_coordinator.coordinating.gateway.proxy_server import ProxyServer
from tests.coordinating.gateway.accounts import Clock, Someone
from tests.coordinating.gateway.proxies import Alone, connect, front, is_closed_within
from tests.coordinating.gateway.raw_requests import produce, varint
from tests.waiting import wait_until

MIB = 1_048_576


class Sink:
    """A broker that takes everything and says nothing."""

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.bytes_taken = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listening.accept()
                threading.Thread(target=self._take, args=(client,), daemon=True).start()

    def _take(self, client: socket.socket) -> None:
        with suppress(OSError):
            while data := client.recv(65_536):
                self.bytes_taken += len(data)


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sink]:
    started = Sink()
    address = Address("127.0.0.1", started.listening.getsockname()[1])
    monkeypatch.setattr(Alone, "_find_brokers", lambda self: [(1, address)])
    yield started
    started.listening.close()


def bulk(size: int, acks: bytes = b"\xff\xff") -> bytes:
    """A Produce of one partition."""
    request = produce(b"\x02\x02t\x02\x00\x00\x00\x01" + varint(size + 1) + b"r" * size + b"\x00\x00\x00")
    return request[:17] + acks + request[19:]


def create_acls(size: int) -> bytes:
    """An API that names no topics."""
    return struct.pack(">ihhih", size, 30, 3, 1, -1)


def passing(gateway: ProxyServer) -> int:
    return gateway.shared.passing.bytes


@pytest.mark.parametrize(
    "opening",
    [bulk(MIB)[:100], bulk(MIB, acks=b"\x00\x00")[:100], create_acls(MIB)],
    ids=["produce", "unconfirmed", "other"],
)
def test_what_requests_without_an_end_claim_at_brokers_is_bounded(sink: Sink, opening: bytes) -> None:
    """A few bytes each, and a length."""
    with front(Bounds(passing_bytes_max=8 * MIB), connections_max=200) as gateway:
        hostile = [connect(gateway) for _ in range(40)]
        for client in hostile:
            client.sendall(opening)
        wait_until(lambda: gateway.metrics.connections_broken.get("no room", 0) >= 30, timeout_s=10)
        assert 0 < passing(gateway) <= 8 * MIB
        with connect(gateway) as honest:
            before = sink.bytes_taken
            honest.sendall(bulk(MIB))
            wait_until(lambda: sink.bytes_taken >= before + MIB, timeout_s=10)
            assert not is_closed_within(honest, 0.1)
        for client in hostile:
            client.close()
        wait_until(lambda: passing(gateway) == 0, timeout_s=10)


def test_who_claims_much_goes_before_who_sends_what_others_send() -> None:
    clock = Clock()
    account = Buffered(100 * MIB, 30.0, clock, honest_s=1.0, place="at brokers")
    honest, hostile = [Someone() for _ in range(20)], Someone()
    for holder in honest:
        account.note(holder, MIB, 1, is_unfinished=True)
    clock.now = 1.5
    account.note(hostile, 90 * MIB, 1, is_unfinished=True)
    assert hostile.given_up
    assert not any(holder.given_up for holder in honest)


@pytest.mark.parametrize("acks", [b"\xff\xff", b"\x00\x00"])
def test_a_request_that_goes_through_has_its_time_and_many_have_more(sink: Sink, acks: bytes) -> None:
    """Each of them its own, also those that have no answer."""
    request = bulk(200_000, acks)
    with front(Bounds(request_timeout_ms=2_000)) as gateway, connect(gateway) as stuck, connect(gateway) as busy:
        stuck.sendall(request[:1_000])
        busy.sendall(request[:1_000])
        for _ in range(7):
            assert not is_closed_within(busy, 0.6)
            busy.sendall(request[1_000:] + request[:1_000])
        assert is_closed_within(stuck, 1.0)
        assert gateway.metrics.connections_broken == {"unfinished": 1}
