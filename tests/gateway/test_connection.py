"""One connection, without sockets: the order of answers, what goes where, who may ask, bounds, and ends."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from kafka.protocol.consumer.group import OffsetCommitRequest
from kafka.protocol.metadata import ApiVersionsResponse, FindCoordinatorRequest, MetadataResponse
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)

from gateway.config import Address, Bounds
from gateway.connection import Connection
from gateway.versions import taken
from schemas.error_codes import ErrorCode
from schemas.messages import FindCoordinatorRequest as OurFindCoordinatorRequest
from schemas.messages import HeartbeatResponse, JoinGroupResponse
from tests.gateway import wire

ALL_IS_WELL = HeartbeatResponse()


def connection(bounds: Bounds | None = None, *, requires_sasl: bool = False, now_s: Callable[[], float] = lambda: 0.0) -> Connection:
    ours = taken(rewrites_addresses=True, taps=False)
    return Connection(
        ours, lambda node_id, _: Address("gateway", 20_000 + node_id), bounds or Bounds(), requires_sasl=requires_sasl, now_s=now_s
    )


def carried(pieces: list[bytes]) -> bytes:
    data = b"".join(pieces)
    pieces.clear()
    return data


def fed(machine: Connection, *requests: bytes) -> Connection:
    machine.from_client(b"".join(requests))
    return machine


# ------------------------------------------------------------------------------------------------------- what goes where


def test_a_group_request_is_asked_and_answered_here() -> None:
    machine = fed(connection(), wire.heartbeat(7))
    (asked,) = machine.asked
    assert (asked.api, asked.api_version, asked.client_id, asked.principal) == ("Heartbeat", 4, "client", "User:ANONYMOUS")
    machine.answer(asked.number, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    (answer,) = wire.frames(carried(machine.to_client))
    assert wire.heartbeat_error(answer) == 27
    assert wire.correlations(answer) == [7]
    assert carried(machine.to_broker) == b"", "the broker hears nothing of groups"


def test_all_else_goes_to_the_broker_as_it_is() -> None:
    produce = wire.produce(1, acks=-1, size=100_000)
    machine = connection()
    for start in range(0, len(produce), 7_000):
        machine.from_client(produce[start : start + 7_000])
        assert carried(machine.to_broker) == produce[start : start + 7_000], "in pieces, as it comes"
    answer = wire.raw_answer(1, bytes(50_000))
    for start in range(0, len(answer), 9_000):
        machine.from_broker(answer[start : start + 9_000])
        if start:
            assert carried(machine.to_client), "in pieces, as it comes"
    assert machine.closing is None


def test_addresses_are_those_of_the_gateway() -> None:
    machine = fed(connection(), wire.metadata(3))
    assert carried(machine.to_broker) == wire.metadata(3)
    machine.from_broker(wire.metadata_answer(3))
    read = MetadataResponse.decode(carried(machine.to_client)[4:], version=9, header=True)
    assert [(each.host, each.port) for each in read.brokers] == [("gateway", 20_001)]


def test_the_coordinator_of_a_transaction_is_the_brokers_business() -> None:
    of_group = wire.request(FindCoordinatorRequest(version=3, key="g", key_type=0), 1)
    of_transaction = wire.request(FindCoordinatorRequest(version=3, key="tx", key_type=1), 2)
    machine = fed(connection(), of_group, of_transaction)
    assert [asked.request for asked in machine.asked] == [OurFindCoordinatorRequest(coordinator_keys=("g",))]
    assert carried(machine.to_broker) == of_transaction


@pytest.mark.parametrize("version", [2, 3, 8, 9])
def test_a_produce_that_nobody_confirms_has_no_answer(version: int) -> None:
    transactional_id = None if version < 3 else "t" * 300
    unconfirmed = wire.produce(1, acks=0, version=version, transactional_id=transactional_id)
    for end in (*range(4, 60), 340, len(unconfirmed)):
        machine = connection()
        machine.from_client(unconfirmed[:end])
        machine.from_client(unconfirmed[end:] + wire.metadata(2))
        assert carried(machine.to_broker) == unconfirmed + wire.metadata(2)
        machine.from_broker(wire.metadata_answer(2))
        assert wire.correlations(carried(machine.to_client)) == [2]


# ------------------------------------------------------------------------------------------------------------- the order


def test_answers_leave_in_the_order_of_their_requests() -> None:
    machine = fed(connection(), wire.join(1), wire.heartbeat(2), wire.metadata(3), wire.produce(4, acks=1))
    held, beat = machine.asked
    machine.from_broker(wire.metadata_answer(3) + wire.raw_answer(4))
    machine.answer(beat.number, ALL_IS_WELL)
    assert carried(machine.to_client) == b"", "a held JoinGroup holds what is behind it"
    machine.answer(held.number, JoinGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    assert wire.correlations(carried(machine.to_client)) == [1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(40))
def test_whatever_the_order_of_answers_and_the_size_of_pieces(seed: int) -> None:
    random = Random(seed)
    machine = connection()
    kinds = [random.choice(("group", "broker")) for _ in range(30)]
    stream = b"".join(wire.heartbeat(n) if kind == "group" else wire.produce(n, acks=1) for n, kind in enumerate(kinds))
    answers = b"".join(wire.raw_answer(n, bytes(random.randrange(300))) for n, kind in enumerate(kinds) if kind == "broker")
    to_client, to_broker = b"", b""
    waiting: list[int] = []
    while stream or answers or waiting:
        step = random.random()
        if step < 0.4 and stream:
            cut = random.randrange(1, 200)
            machine.from_client(stream[:cut])
            stream = stream[cut:]
        elif step < 0.7 and answers:
            cut = min(random.randrange(1, 200), len(answers))
            sent = len(wire.frames(to_broker)) if not stream else 0
            if not stream and sent:
                machine.from_broker(answers[:cut])
                answers = answers[cut:]
        elif waiting:
            machine.answer(waiting.pop(random.randrange(len(waiting))), ALL_IS_WELL)
        waiting += [asked.number for asked in machine.asked]
        machine.asked.clear()
        to_broker += carried(machine.to_broker)
        to_client += carried(machine.to_client)
        assert machine.closing is None
    assert wire.correlations(to_client) == list(range(30))
    assert wire.correlations(to_broker)  # whole frames only


def test_an_answer_is_given_once() -> None:
    machine = fed(connection(), wire.heartbeat(1), wire.heartbeat(2))
    first, second = machine.asked
    machine.answer(first.number, ALL_IS_WELL)
    machine.answer(first.number, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    machine.answer(second.number, ALL_IS_WELL)
    assert [wire.heartbeat_error(frame) for frame in wire.frames(carried(machine.to_client))] == [0, 0]


# ---------------------------------------------------------------------------------------------------------- what is offered


def test_versions_are_those_of_both() -> None:
    machine = fed(connection(), wire.api_versions(1))
    assert carried(machine.to_broker) == wire.api_versions(1)
    machine.from_broker(wire.api_versions_answer(1))
    read = ApiVersionsResponse.decode(carried(machine.to_client)[4:], version=3, header=True)
    assert {each.api_key: each.max_version for each in read.api_keys}.items() >= {0: 9, 11: 9, 9: 9}.items()


def test_an_unknown_version_of_api_versions_is_told_which_are_known() -> None:
    newer = bytearray(wire.api_versions(5, version=4))
    newer[6:8] = b"\x00\x63"
    machine = fed(connection(), bytes(newer))
    (frame,) = wire.frames(carried(machine.to_client))
    assert frame[4:10] == b"\x00\x00\x00\x05\x00\x23"
    assert carried(machine.to_broker) == b"", "the broker does not hear of it"
    fed(machine, wire.api_versions(6))
    assert carried(machine.to_broker) == wire.api_versions(6), "the client asks again, in a version that is known"
    machine.from_broker(wire.api_versions_answer(6))
    assert wire.correlations(carried(machine.to_client)) == [6]
    assert machine.closing is None


def test_what_is_not_offered_ends_the_connection() -> None:
    commit = OffsetCommitRequest(version=10, group_id="g", topics=[])
    for refused in (wire.request(commit, 1), wire.produce(1, acks=1, version=10), b"\x00\x00\x00\x0a\x00\x44\x00\x00\x00\x00\x00\x01\xff\xff"):
        assert "is not offered" in (fed(connection(), refused).closing or "")


# ------------------------------------------------------------------------------------------------------------------- SASL


def handshake(correlation_id: int, mechanism: str) -> bytes:
    return wire.request(SaslHandshakeRequest(version=1, mechanism=mechanism), correlation_id)


def handshake_answer(correlation_id: int, error_code: int = 0) -> bytes:
    return wire.response(SaslHandshakeResponse(version=1, error_code=error_code, mechanisms=["PLAIN"]), correlation_id)


def token(correlation_id: int, data: bytes, version: int = 2) -> bytes:
    return wire.request(SaslAuthenticateRequest(version=version, auth_bytes=data), correlation_id)


def token_answer(correlation_id: int, error_code: int = 0, version: int = 2, lifetime_ms: int = 0) -> bytes:
    message = SaslAuthenticateResponse(
        version=version, error_code=error_code, error_message=None, auth_bytes=b"server", session_lifetime_ms=lifetime_ms
    )
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
    assert [asked.principal for asked in machine.asked] == ["User:alice"]


def test_scram_takes_two_rounds() -> None:
    machine = authenticating("SCRAM-SHA-256", b"n,,n=al=2Cice,r=abc")
    machine.from_broker(token_answer(2))
    early = authenticating("SCRAM-SHA-256", b"n,,n=al=2Cice,r=abc")
    early.from_broker(token_answer(2))
    early.from_client(wire.heartbeat(3))
    assert (early.asked, early.closing) == ([], "the client has not authenticated")
    machine.from_client(token(3, b"c=biws,r=abcdef,p=proof"))
    machine.from_broker(token_answer(3))
    machine.from_client(wire.heartbeat(4))
    assert [asked.principal for asked in machine.asked] == ["User:al,ice"]


@pytest.mark.parametrize("said", [b"", wire.heartbeat(9), wire.metadata(9), wire.produce(9, acks=0)])
def test_nothing_before_the_broker_has_said_yes(said: bytes) -> None:
    unknown = fed(connection(requires_sasl=True), said)
    refused = authenticating("PLAIN", b"\x00alice\x00wrong")
    refused.from_broker(token_answer(2, error_code=58))
    for machine in (unknown, refused):
        machine.to_broker.clear()
        machine.from_client(said)
        assert machine.asked == []
        assert machine.to_broker == []
        assert machine.closing == ("the client has not authenticated" if said else None)
    asking = authenticating("PLAIN", b"\x00alice\x00secret")
    asking.from_client(said)
    assert (asking.asked, asking.to_broker, asking.closing) == ([], [], None), "it is not even read"
    asking.from_broker(token_answer(2, error_code=58))
    assert (asking.asked, asking.to_broker) == ([], [])
    assert asking.closing == ("the client has not authenticated" if said else None)


ALICE, ADMIN = b"\x00alice\x00secret", b"\x00admin\x00guess"
ILLEGAL_SASL_STATE, AUTHENTICATION_FAILED = 34, 58


@pytest.mark.parametrize("again", [("handshake", "token"), ("token",), ("handshake",)])
@pytest.mark.parametrize("code", [0, ILLEGAL_SASL_STATE])
def test_a_verdict_is_on_its_own_request_only(again: tuple[str, ...], code: int) -> None:
    """Who writes two authentications at once is not taken for the second by the yes to the first."""
    requests = [handshake(1, "PLAIN"), token(2, ALICE)]
    answers = [handshake_answer(1), token_answer(2)]
    for number, kind in enumerate(again, start=3):
        is_token = kind == "token"
        requests.append(token(number, ADMIN) if is_token else handshake(number, "PLAIN"))
        answers.append(token_answer(number, code or AUTHENTICATION_FAILED) if is_token else handshake_answer(number, code))
    machine = fed(connection(requires_sasl=True), *requests, wire.heartbeat(9))
    for request, answer in zip(requests, answers, strict=True):
        assert carried(machine.to_broker) == request, "nothing more is read before the broker has answered"
        assert not machine.reads_client
        assert machine.asked == []
        machine.from_broker(answer)
    assert machine.asked == []
    assert machine.closing == "the client has not authenticated"


def test_a_handshake_that_the_broker_refused_is_none() -> None:
    machine = fed(connection(requires_sasl=True), handshake(1, "PLAIN"), token(2, ADMIN), wire.heartbeat(3))
    machine.from_broker(handshake_answer(1, error_code=33))
    machine.from_broker(token_answer(2))
    assert (machine.asked, machine.closing) == ([], "the client has not authenticated")


def test_a_session_ends_when_the_broker_has_said() -> None:
    """It is the broker who closes connections whose session is over (KIP-368), and it sees no group requests."""
    now = [100.0]
    machine = authenticating("PLAIN", ALICE, now_s=lambda: now[0])
    machine.from_broker(token_answer(2, lifetime_ms=60_000))
    now[0] += 59
    machine.from_client(wire.heartbeat(3))
    assert len(machine.asked) == 1
    now[0] += 2
    ended = authenticating("PLAIN", ALICE, now_s=lambda: now[0])
    ended.from_broker(token_answer(2, lifetime_ms=60_000))
    machine.from_client(handshake(4, "PLAIN"))
    machine.from_broker(handshake_answer(4))
    machine.from_client(token(5, ALICE))
    machine.from_broker(token_answer(5, lifetime_ms=60_000))
    now[0] += 59
    machine.from_client(wire.heartbeat(6))
    assert (len(machine.asked), machine.closing) == (2, None), "prolonged"
    now[0] += 2
    ended.from_client(wire.heartbeat(3))
    assert (ended.asked, ended.closing) == ([], "the client's session has ended")


@pytest.mark.parametrize(("mechanism", "first"), [("GSSAPI", b"ticket"), ("PLAIN", b"no parts"), ("SCRAM-SHA-256", b"n,,n=t,r=a,tokenauth=true")])
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
    assert [asked.principal for asked in machine.asked] == ["User:alice"]
    machine.from_client(handshake(6, "PLAIN") + wire.heartbeat(7))
    machine.from_broker(handshake_answer(6))
    assert machine.closing == "the client has not authenticated"


# ----------------------------------------------------------------------------------------------------------------- bounds


def test_requests_wait_when_too_many_have_no_answer() -> None:
    machine = connection(Bounds(pending_requests_max=3))
    machine.from_client(b"".join(wire.heartbeat(n) for n in range(10)))
    assert len(machine.asked) == 3
    assert not machine.reads_client
    for number in range(1, 11):
        machine.answer(number, ALL_IS_WELL)
    assert wire.correlations(carried(machine.to_client)) == list(range(10))
    assert machine.reads_client


def test_the_broker_is_not_read_while_its_answers_cannot_leave() -> None:
    machine = fed(connection(Bounds(held_bytes_max=1_000)), wire.join(1), wire.produce(2, acks=1))
    machine.from_broker(wire.raw_answer(2, bytes(5_000))[:2_000])
    assert not machine.reads_broker
    (held,) = machine.asked
    machine.answer(held.number, JoinGroupResponse())
    assert machine.reads_broker
    machine.from_broker(wire.raw_answer(2, bytes(5_000))[2_000:])
    assert wire.correlations(carried(machine.to_client)) == [1, 2]


@pytest.mark.parametrize(
    "data",
    [
        b"\x7f\xff\xff\xff",
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x04\x00\x0c\x00\x04",
        wire.heartbeat(1)[:-3] + b"\xff\xff\xff",
        b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_kafka_ends_this_connection(data: bytes) -> None:
    machine = fed(connection(), data + bytes(100))
    assert machine.closing is not None
    assert machine.closing.startswith("not understood")


def test_a_group_request_has_a_bound_of_its_own() -> None:
    machine = fed(connection(Bounds(group_request_bytes_max=1_000)), wire.heartbeat(1, group_id="g" * 2_000)[:100])
    assert "at most 1000" in (machine.closing or ""), "before it is all here"


# ------------------------------------------------------------------------------------------------------------------- ends


def test_an_idle_broker_that_closes_does_not_close_the_client() -> None:
    machine = fed(connection(), wire.metadata(1))
    machine.from_broker(wire.metadata_answer(1))
    machine.broker_closed()
    assert machine.closing is None
    machine.to_broker.clear()
    machine.from_client(wire.heartbeat(2) + wire.metadata(3))
    assert len(machine.asked) == 1
    assert carried(machine.to_broker) == wire.metadata(3), "for a new connection"


@pytest.mark.parametrize("waits", [wire.metadata(1), wire.produce(1, acks=0)[:50]])
def test_a_broker_that_closes_over_a_request_does(waits: bytes) -> None:
    machine = fed(connection(), waits)
    machine.broker_closed()
    assert machine.closing == "the broker closed the connection"


def test_a_new_connection_to_the_broker_would_not_be_authenticated() -> None:
    machine = authenticating("PLAIN", b"\x00alice\x00secret")
    machine.from_broker(token_answer(2))
    machine.broker_closed()
    machine.from_client(wire.heartbeat(3))
    assert len(machine.asked) == 1, "groups are served still"
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


def test_an_answer_to_nothing_ends_the_connection() -> None:
    machine = connection()
    machine.from_broker(wire.raw_answer(1))
    assert machine.closing == "the broker answers what was not asked"
    other = fed(connection(), wire.metadata(1))
    other.from_broker(wire.metadata_answer(2))
    assert other.closing == "not understood: the broker's answer is not the one to the oldest request"


def test_an_answer_to_a_connection_that_has_ended_is_dropped() -> None:
    machine = fed(connection(), wire.heartbeat(1), b"\xff\xff\xff\xff")
    machine.answer(machine.asked[0].number, ALL_IS_WELL)
    assert machine.to_client == []


def test_random_bytes_never_raise() -> None:
    random = Random(3)
    for _ in range(3_000):
        good = random.choice((wire.heartbeat(1), wire.join(2), wire.metadata(3), wire.produce(4, 1), wire.api_versions(5)))
        damaged = bytearray(good)
        for _ in range(random.randrange(1, 6)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        machine = fed(connection(), bytes(damaged))
        machine.from_broker(random.randbytes(60))
