"""The gateway's sockets without Kafka: slots, clients that do not read, do not log in, or say nothing."""

from __future__ import annotations

import socket
import ssl
import time
from contextlib import suppress

import pytest

from group_coordinator.coordinating.gateway.config import Bounds, GatewayError
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.proxies import FIXTURES, connect, front, is_closed_within
from tests.waiting import wait_until, wait_until_still


def test_a_tls_handshake_that_fails_takes_no_slot() -> None:
    with front(connections_max=2, tls=True) as gateway:
        for _ in range(5):
            with connect(gateway) as stranger:
                stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                with suppress(OSError):
                    stranger.recv(100)
        context = ssl.create_default_context(cafile=str(FIXTURES / "certificate.pem"))
        with context.wrap_socket(connect(gateway), server_hostname="localhost") as client:
            client.sendall(wire.heartbeat(1))
            assert wire.heartbeat_error(client.recv(100)) == 0
            assert (gateway.metrics.connections_open, gateway.metrics.connections_refused) == (1, 0)
        wait_until(lambda: gateway.metrics.connections_open == 0, timeout_s=10)


def list_groups(correlation_id: int) -> bytes:
    head = (16).to_bytes(2) + (0).to_bytes(2) + correlation_id.to_bytes(4) + b"\xff\xff"
    return len(head).to_bytes(4) + head


def test_answers_of_the_gateway_itself_do_not_pile_up_for_a_client_that_does_not_read() -> None:
    with front() as gateway, connect(gateway) as client:
        requests = b"".join(map(list_groups, range(50_000)))
        client.settimeout(1)
        sent = 0
        with suppress(TimeoutError):
            while sent < len(requests):
                sent += client.send(requests[sent:])
        wait_until_still(lambda: gateway.metrics.bytes_to_clients)
        (session,) = gateway.sessions
        assert session.client is not None
        assert session.client.get_write_buffer_size() < 1_000_000
        before = gateway.metrics.bytes_to_clients
        assert before < 20_000_000
        bytes_received = 0
        while bytes_received < before:
            bytes_received += len(client.recv(1_000_000))
        wait_until(lambda: gateway.metrics.bytes_to_clients > before, timeout_s=10)


def test_who_does_not_log_in_is_not_waited_for() -> None:
    with front(Bounds(login_timeout_ms=300), sasl=True) as gateway, connect(gateway) as client:
        assert is_closed_within(client, 5)
        assert gateway.metrics.connections_broken == {"the client has not authenticated in time": 1}


@pytest.mark.parametrize("holds", [False, True])
def test_a_silent_client_is_let_go_unless_it_waits_for_an_answer(holds: bool) -> None:
    with front(Bounds(login_timeout_ms=100, connections_max_idle_ms=600)) as gateway, connect(gateway) as client:
        gateway.holds = holds
        for number in range(4):
            time.sleep(0.25)  # less than a client may be silent, and four times more
            client.sendall(wire.heartbeat(number))
            assert holds or client.recv(100)
        assert is_closed_within(client, 2) is not holds
        assert gateway.metrics.connections_broken == ({} if holds else {"idle": 1})


def test_a_gateway_that_cannot_go_on_says_why_and_is_not_ready() -> None:
    gateway = front()
    gateway.start()
    was_ready = gateway.is_ready
    gateway.give_up(GatewayError("No event can be written any more."))
    assert (was_ready, gateway.is_ready) == (True, False)
    gateway.stop()
    with pytest.raises(GatewayError, match="No event can be written"):
        gateway.check()


def test_the_kernel_watches_over_connections() -> None:
    with front() as gateway, connect(gateway) as client:
        client.sendall(wire.heartbeat(1))
        client.recv(100)
        (session,) = gateway.sessions
        assert session.client is not None
        assert session.client.get_extra_info("socket").getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


