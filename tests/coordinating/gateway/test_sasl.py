"""Who a client is, as the gateway hears it from client and broker: one request, one verdict, one session."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from group_coordinator.coordinating.gateway.connection import Connection
from tests.coordinating.gateway import wire
from tests.coordinating.gateway.machines import carried, connection, fed

ALICE, ADMIN = b"\x00alice\x00secret", b"\x00admin\x00guess"
ILLEGAL_SASL_STATE, AUTHENTICATION_FAILED = 34, 58


def handshake(correlation_id: int, mechanism: str) -> bytes:
    return wire.request(SaslHandshakeRequest(version=1, mechanism=mechanism), correlation_id)


def handshake_answer(correlation_id: int, error_code: int = 0) -> bytes:
    return wire.response(SaslHandshakeResponse(version=1, error_code=error_code, mechanisms=["PLAIN"]), correlation_id)


def token(correlation_id: int, data: bytes, version: int = 2) -> bytes:
    return wire.request(SaslAuthenticateRequest(version=version, auth_bytes=data), correlation_id)


def token_answer(correlation_id: int, error_code: int = 0, version: int = 2, lifetime_ms: int = 0) -> bytes:
    message = SaslAuthenticateResponse(
        version=version, error_code=error_code, error_message=None, auth_bytes=b"server",
        session_lifetime_ms=lifetime_ms,
    )  # fmt: skip
    return wire.response(message, correlation_id)


def authenticating(mechanism: str, first_token: bytes, now_s: Callable[[], float] = lambda: 0.0) -> Connection:
    machine = fed(connection(requires_sasl=True, now_s=now_s), handshake(1, mechanism))
    machine.from_broker(handshake_answer(1))
    machine.from_client(token(2, first_token))
    assert carried(machine.to_broker) == handshake(1, mechanism) + token(2, first_token), "the broker decides"
    return machine


def test_plain() -> None:
    machine = authenticating("PLAIN", b"\x00alice\x00secret")
    machine.from_broker(token_answer(2))
    machine.from_client(wire.heartbeat(3))
    assert [pending.principal for pending in machine.to_coordinator] == ["User:alice"]


def test_scram_takes_two_rounds() -> None:
    machine = authenticating("SCRAM-SHA-256", b"n,,n=al=2Cice,r=abc")
    machine.from_broker(token_answer(2))
    early = authenticating("SCRAM-SHA-256", b"n,,n=al=2Cice,r=abc")
    early.from_broker(token_answer(2))
    early.from_client(wire.heartbeat(3))
    assert (early.to_coordinator, early.closing) == ([], "the client has not authenticated")
    machine.from_client(token(3, b"c=biws,r=abcdef,p=proof"))
    machine.from_broker(token_answer(3))
    machine.from_client(wire.heartbeat(4))
    assert [pending.principal for pending in machine.to_coordinator] == ["User:al,ice"]


@pytest.mark.parametrize("said", [b"", wire.heartbeat(9), wire.metadata(9), wire.produce(9, acks=0)])
def test_nothing_before_the_broker_has_said_yes(said: bytes) -> None:
    unknown = fed(connection(requires_sasl=True), said)
    refused = authenticating("PLAIN", b"\x00alice\x00wrong")
    refused.from_broker(token_answer(2, error_code=58))
    for machine in (unknown, refused):
        machine.to_broker.clear()
        machine.from_client(said)
        assert machine.to_coordinator == []
        assert machine.to_broker == []
        assert machine.closing == ("the client has not authenticated" if said else None)
    asking = authenticating("PLAIN", b"\x00alice\x00secret")
    asking.from_client(said)
    assert (asking.to_coordinator, asking.to_broker, asking.closing) == ([], [], None), "it is not even read"
    asking.from_broker(token_answer(2, error_code=58))
    assert (asking.to_coordinator, asking.to_broker) == ([], [])
    assert asking.closing == ("the client has not authenticated" if said else None)


@pytest.mark.parametrize("again", [("handshake", "token"), ("token",), ("handshake",)])
@pytest.mark.parametrize("code", [0, ILLEGAL_SASL_STATE])
def test_a_verdict_is_on_its_own_request_only(again: tuple[str, ...], code: int) -> None:
    """Who writes two authentications at once is not taken for the second by the yes to the first."""
    requests = [handshake(1, "PLAIN"), token(2, ALICE)]
    answers = [handshake_answer(1), token_answer(2)]
    for number, kind in enumerate(again, start=3):
        is_token = kind == "token"
        requests.append(token(number, ADMIN) if is_token else handshake(number, "PLAIN"))
        answers.append(
            token_answer(number, code or AUTHENTICATION_FAILED) if is_token else handshake_answer(number, code)
        )
    machine = fed(connection(requires_sasl=True), *requests, wire.heartbeat(9))
    for request, answer in zip(requests, answers, strict=True):
        assert carried(machine.to_broker) == request, "nothing more is read before the broker has answered"
        assert not machine.reads_client
        assert machine.to_coordinator == []
        machine.from_broker(answer)
    assert machine.to_coordinator == []
    assert machine.closing == "the client has not authenticated"


def test_a_handshake_that_the_broker_refused_is_none() -> None:
    machine = fed(connection(requires_sasl=True), handshake(1, "PLAIN"), token(2, ADMIN), wire.heartbeat(3))
    machine.from_broker(handshake_answer(1, error_code=33))
    machine.from_broker(token_answer(2))
    assert (machine.to_coordinator, machine.closing) == ([], "the client has not authenticated")


def test_a_session_ends_when_the_broker_has_said() -> None:
    """It is the broker who closes connections whose session is over (KIP-368), and it sees no group requests."""
    now = [100.0]
    machine = authenticating("PLAIN", ALICE, now_s=lambda: now[0])
    machine.from_broker(token_answer(2, lifetime_ms=60_000))
    now[0] += 59
    machine.from_client(wire.heartbeat(3))
    assert len(machine.to_coordinator) == 1
    now[0] += 2
    ended = authenticating("PLAIN", ALICE, now_s=lambda: now[0])
    ended.from_broker(token_answer(2, lifetime_ms=60_000))
    machine.from_client(handshake(4, "PLAIN"))
    machine.from_broker(handshake_answer(4))
    machine.from_client(token(5, ALICE))
    machine.from_broker(token_answer(5, lifetime_ms=60_000))
    now[0] += 59
    machine.from_client(wire.heartbeat(6))
    assert (len(machine.to_coordinator), machine.closing) == (2, None), "prolonged"
    now[0] += 2
    ended.from_client(wire.heartbeat(3))
    assert (ended.to_coordinator, ended.closing) == ([], "the client's session has ended")


@pytest.mark.parametrize(
    ("mechanism", "first"),
    [("GSSAPI", b"ticket"), ("PLAIN", b"no parts"), ("SCRAM-SHA-256", b"n,,n=t,r=a,tokenauth=true")],
)
def test_who_cannot_be_named_is_not_served(mechanism: str, first: bytes) -> None:
    machine = authenticating(mechanism, first)
    for number in (2, 3, 4):
        machine.from_broker(token_answer(number))
        machine.from_client(token(number + 1, b"more"))
    machine.from_broker(token_answer(5))
    machine.from_client(wire.heartbeat(9))
    assert machine.closing == "the client has not authenticated"


def test_a_session_is_prolonged_only_by_the_broker() -> None:
    machine = authenticating("PLAIN", b"\x00alice\x00secret")
    machine.from_broker(token_answer(2))
    machine.from_client(handshake(3, "PLAIN"))
    machine.from_broker(handshake_answer(3))
    machine.from_client(token(4, b"\x00alice\x00secret"))
    machine.from_broker(token_answer(4))
    machine.from_client(wire.heartbeat(5))
    assert [pending.principal for pending in machine.to_coordinator] == ["User:alice"]
    machine.from_client(handshake(6, "PLAIN") + wire.heartbeat(7))
    machine.from_broker(handshake_answer(6))
    assert machine.closing == "the client has not authenticated"


def test_strangers_have_a_bound_of_their_own() -> None:
    """It is enough to see how long a request will be."""
    newer = bytearray(wire.api_versions(1))
    newer[6:8] = b"\x00\x63"
    for request in (token(1, b""), handshake(1, "PLAIN"), wire.api_versions(1), bytes(newer)):
        begun = (600_000).to_bytes(4) + request[4:]
        assert "of 600000 bytes" in (fed(connection(requires_sasl=True), begun).closing or "")


def test_a_new_connection_to_the_broker_would_not_be_authenticated() -> None:
    machine = authenticating("PLAIN", b"\x00alice\x00secret")
    machine.from_broker(token_answer(2))
    machine.broker_closed()
    machine.from_client(wire.heartbeat(3))
    assert len(machine.to_coordinator) == 1, "groups are served still"
    machine.to_broker.clear()
    machine.from_client(wire.metadata(4))
    assert machine.closing == "the broker has closed the authenticated connection"
    assert machine.to_broker == []


def test_a_client_that_authenticates_anew_has_its_new_connection_to_the_broker() -> None:
    machine = authenticating("PLAIN", ALICE)
    machine.from_broker(token_answer(2))
    machine.broker_closed()
    machine.from_client(handshake(3, "PLAIN"))
    machine.from_broker(handshake_answer(3))
    machine.from_client(token(4, ALICE))
    machine.from_broker(token_answer(4))
    machine.to_broker.clear()
    machine.from_client(wire.metadata(5))
    assert machine.closing is None
    assert carried(machine.to_broker) == wire.metadata(5)


def test_an_authentication_does_not_begin_with_one_connection_and_end_with_another() -> None:
    machine = fed(connection(requires_sasl=True), handshake(1, "PLAIN"))
    machine.from_broker(handshake_answer(1))
    machine.broker_closed()
    machine.from_client(token(2, ADMIN))
    machine.from_broker(token_answer(2))
    machine.from_client(wire.heartbeat(3))
    assert machine.closing == "the client has not authenticated"


@pytest.mark.parametrize("length", [1_000, 1_001, 400_000])
def test_a_name_is_kept_only_if_it_is_one(length: int) -> None:
    """It stays in memory for as long as the connection; a broker that takes any name must not make it megabytes."""
    machine = authenticating("PLAIN", b"\x00" + b"a" * length + b"\x00secret")
    machine.from_broker(token_answer(2))
    machine.from_client(wire.heartbeat(3))
    assert len(machine.to_coordinator) == (length <= 1_000)
    assert machine.closing == (None if length <= 1_000 else "the client has not authenticated")
