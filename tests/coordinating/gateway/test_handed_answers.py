"""Answers that a responder on this machine hands to a gateway, and how Kafka gets each of them."""

from __future__ import annotations

import asyncio
import logging
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import KafkaError, KafkaException

from group_coordinator.coordinating.answer_sockets import AnswerDatagram, AnswerSender, HandedAnswer
from group_coordinator.coordinating.gateway import coordinator_client, unrecorded_answers
from group_coordinator.coordinating.gateway.answer_sizes import AnswerSizes
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.coordinator_client import EventsClient
from group_coordinator.coordinating.gateway.group_events import GroupEvent
from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from schemas.error_codes import ErrorCode
from schemas.events import ResponseDocument, encode_json
from schemas.messages import HeartbeatRequest, HeartbeatResponse, LeaveGroupResponse, Response
from schemas.query_progress import WRITER_HEADER
from tests.coordinating.gateway.answers import HEADERS, handed, in_kafka, value_of
from tests.coordinating.gateway.told_loop import Producer

TIMEOUT_S = 10.0
PARTITION = 3
RECORDED = {**HEADERS, WRITER_HEADER: "gateway-7"}


@pytest.fixture
def home() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        yield f"{directory}/answers"


@pytest.fixture(autouse=True)
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway looks when a test says so, and a responder has no time to give an answer to Kafka."""
    monkeypatch.setattr(coordinator_client, "_SWEEP_INTERVAL_S", 600.0)
    monkeypatch.setattr(unrecorded_answers, "RECORDED_AFTER_S", 0.0)


@pytest.fixture(autouse=True)
def recorder(monkeypatch: pytest.MonkeyPatch) -> Producer:
    """Keeps what a gateway gives to Kafka in the place of a responder."""
    producer = Producer()
    monkeypatch.setattr(unrecorded_answers, "new_producer", lambda *_: producer)
    return producer


class Bench:
    """A gateway's client in a real event loop, whose producer keeps what it sends."""

    def __init__(self, directory: str, recorder: Producer) -> None:
        self.metrics = GatewayMetrics()
        self.producer, self.recorder = Producer(), recorder
        self.answers: list[Response] = []
        config = GatewaySettings(bootstrap_servers="unused", answers_directory=directory)
        self.client = EventsClient(config, self.metrics, AnswerSizes(), lambda failure: None)

    async def ask(self) -> str:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        event = GroupEvent(
            group_id="g", api="Heartbeat", api_version=4, client_id="c", client_host="/h", new_member_id=None,
            request=request,
        )  # fmt: skip
        self.client.ask(event, self.answers.append)
        await asyncio.sleep(0)
        return cast(str, msgspec.json.decode(self.producer.sent[-1][1])["request_id"])

    @property
    def recorded(self) -> list[tuple[bytes, bytes]]:
        """Key and value of the answers that the gateway has given to Kafka."""
        assert all(dict(headers) == RECORDED for headers in self.recorder.headers)
        assert {(topic, place) for topic, *_, place in self.recorder.sent} <= {("coordinator.responses", PARTITION)}
        return [(key, value) for _, value, key, _ in self.recorder.sent]

    def look(self) -> list[tuple[bytes, bytes]]:
        self.client.sweep()
        return self.recorded


@asynccontextmanager
async def both(home: str, recorder: Producer) -> AsyncIterator[tuple[Bench, AnswerSender]]:
    """A gateway and a responder."""
    bench, responder = Bench(home, recorder), AnswerSender(home)
    bench.client.attach(asyncio.get_running_loop(), cast(Any, bench.producer), 1, PARTITION)
    bench.client.begin()
    yield bench, responder
    bench.client.stop_watching()
    bench.client.end()
    responder.close()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not is_so():
            await asyncio.sleep(0.01)


async def told(bench: Bench, responder: AnswerSender, requests: int) -> list[str]:
    """Return the ids of so many requests whose clients have answers from the responder."""
    names = [await bench.ask() for _ in range(requests)]
    assert responder.hand_over(handed(name) for name in names)
    await until(lambda: len(bench.answers) == requests)
    return names


def test_an_answer_that_was_handed_over_is_given_and_kafkas_copies_are_dropped(home: str, recorder: Producer) -> None:
    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            names = await told(bench, responder, 3)
            assert bench.answers == [HeartbeatResponse()] * 3
            assert (bench.metrics.pending, bench.metrics.answers_handed_over) == (0, 3)
            copies = [in_kafka(name) for name in names]
            bench.client.read([*copies, *copies, TopicRecord(b"of-another", b"gateway", 0)])
            assert bench.look() == []
            assert len(bench.answers) == 3
        assert bench.recorded == []
        assert not responder.hand_over([handed(names[0])]), "the gateway has ended"

    asyncio.run(story())


def test_kafka_gets_what_a_client_was_told_if_its_responder_does_not_give_it(
    home: str, recorder: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrecorded_answers, "RECORDED_AFTER_S", 600.0)

    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            first, second, third = [await bench.ask() for _ in range(3)]
            assert responder.hand_over([handed(first), handed(second)])
            await until(lambda: len(bench.answers) == 2)
            assert bench.look() == [], "it has time"
            monkeypatch.setattr(unrecorded_answers, "RECORDED_AFTER_S", 0.0)
            assert responder.hand_over([handed(third)])
            await until(lambda: len(bench.answers) == 3)
            bench.client.read([in_kafka(second, ErrorCode.UNKNOWN_MEMBER_ID)])  # this is not what the client was told
            assert bench.look() == []
            bench.client.read([in_kafka(first)])
        assert bench.recorded == [(second.encode(), value_of(second)), (third.encode(), value_of(third))]
        assert bench.metrics.answers_recorded == 2
        assert bench.look() == bench.recorded
        assert len(bench.recorded) == 2, "once"

    asyncio.run(story())


def test_what_another_responder_hands_over_later_is_not_what_the_client_was_told(home: str, recorder: Producer) -> None:
    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            name = await bench.ask()
            for error_code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE):
                assert responder.hand_over([handed(name, error_code)])
            await until(lambda: bench.metrics.answers_handed_over == 3)
            bench.client.read([in_kafka(name, ErrorCode.REBALANCE_IN_PROGRESS)])
            assert bench.look() == [(name.encode(), value_of(name))]
            assert bench.answers == [HeartbeatResponse()]

    asyncio.run(story())


@pytest.mark.parametrize("is_first_here", [True, False])
def test_what_was_read_when_it_was_handed_over_is_in_kafka(home: str, recorder: Producer, is_first_here: bool) -> None:
    """The reader's thread may be ahead of the event loop."""

    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            other, name = [await bench.ask() for _ in range(2)]
            assert responder.hand_over([handed(name)])
            if not is_first_here:  # the loop takes what was handed over between the two
                bench.client.read([in_kafka(other)])
            bench.client.read([in_kafka(name)])
            await until(lambda: bench.metrics.answers_handed_over == 1 and bench.metrics.answers_unexpected == 1)
            assert bench.look() == []
            assert len(bench.answers) == 2 - is_first_here

    asyncio.run(story())


def test_what_kafka_does_not_take_is_told(
    home: str, recorder: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            await told(bench, responder, 2)
            recorder.is_full = True
            assert bench.look() == []
            recorder.is_full = False
            assert len(bench.look()) == 2
            for on_delivery in recorder.on_delivery:
                on_delivery(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), None)
            assert len(bench.look()) == 2
            assert (bench.metrics.answers_recorded, bench.metrics.answers_not_recorded) == (2, 2)

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    (line,) = caplog.messages
    assert "needs Write on coordinator.responses" in line


def test_what_cannot_even_be_sent_is_told_and_holds_up_nothing(
    home: str, recorder: Producer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise KafkaException(KafkaError(KafkaError.INVALID_CONFIG))

    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            names = [await bench.ask() for _ in range(2)]
            monkeypatch.setattr(unrecorded_answers, "new_producer", refuse)
            assert responder.hand_over([handed(names[0])])
            await until(lambda: len(bench.answers) == 1)
            bench.look()
            monkeypatch.setattr(unrecorded_answers, "new_producer", lambda *_: recorder)
            assert responder.hand_over([handed(names[1])])
            await until(lambda: len(bench.answers) == 2)
            assert bench.look() == [(names[1].encode(), value_of(names[1]))]
            assert (bench.metrics.answers_recorded, bench.metrics.answers_not_recorded) == (1, 1)

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("is_full", [True, False])
def test_at_the_end_it_says_what_kafka_has_not_taken(
    home: str, recorder: Producer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, is_full: bool
) -> None:
    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            await told(bench, responder, 3)
            recorder.is_full = is_full
            monkeypatch.setattr(recorder, "flush", lambda _: 0 if is_full else 3)
        assert bench.metrics.answers_not_recorded == 3

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())
    (line,) = caplog.messages
    assert "has ended before" in line


def test_more_answers_than_are_taken_at_once_all_come(home: str, recorder: Producer) -> None:
    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            names = [await bench.ask() for _ in range(100)]
            for name in names:
                while not responder.hand_over([handed(name)]):
                    await asyncio.sleep(0)  # the socket is full: the gateway has to take some
            await until(lambda: len(bench.answers) == 100)

    asyncio.run(story())


def test_while_kafka_takes_nothing_only_so_many_are_taken(
    home: str, recorder: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrecorded_answers, "KEPT_BYTES_MAX", 3_000)

    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            names = [await bench.ask() for _ in range(1_000)]
            recorder.is_full = True
            count = 0
            while responder.hand_over([handed(names[count])]):
                count += 1
                await asyncio.sleep(0)
            taken = bench.metrics.answers_handed_over
            assert 0 < taken < 10 < count < 1_000
            bench.look()
            await asyncio.sleep(0.1)
            assert bench.metrics.answers_handed_over == taken
            recorder.is_full = False
            await until(lambda: (bench.look(), bench.metrics.answers_handed_over == count)[1])
            assert len(bench.answers) == count
        assert len(bench.recorded) == count

    asyncio.run(story())


def has(bench: Bench, answers: int) -> bool:
    return len(bench.answers) == answers


def test_what_kafka_has_makes_room_at_once(
    home: str, recorder: Producer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unrecorded_answers, "KEPT_BYTES_MAX", 3_000)
    monkeypatch.setattr(unrecorded_answers, "RECORDED_AFTER_S", 600.0)

    async def story() -> None:
        async with both(home, recorder) as (bench, responder):
            for count in range(1, 30):
                name = await bench.ask()
                assert responder.hand_over([handed(name)])
                await until(partial(has, bench, count))
                bench.client.read([in_kafka(name)])
                assert bench.look() == []

    asyncio.run(story())


@pytest.mark.parametrize("directory", ["", "/proc/answers"])
def test_without_a_directory_answers_come_through_kafka_alone(
    directory: str, recorder: Producer, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        bench = Bench(directory, recorder)
        bench.client.attach(asyncio.get_running_loop(), cast(Any, bench.producer), 1, PARTITION)
        bench.client.begin()
        name = await bench.ask()
        bench.client.read([in_kafka(name)])
        await until(lambda: bench.answers == [HeartbeatResponse()])
        bench.client.stop_watching()
        bench.client.end()

    asyncio.run(story())
    assert ["through Kafka alone" in line for line in caplog.messages] == [True] * bool(directory)


def test_garbage_in_a_datagram_costs_only_itself(home: str, recorder: Producer) -> None:
    """The event loop meets no exception, and the answers behind it are given."""

    async def story() -> None:
        problems: list[Any] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        async with both(home, recorder) as (bench, _):
            first, second = await bench.ask(), await bench.ask()
            join = ResponseDocument(
                request_id=first, group_id="g", epoch=0, seq=1, api="LeaveGroup", api_version=4, answers_offset=1,
                time_ms=0, body=LeaveGroupResponse(error_code=ErrorCode.NONE, members=()),
            )  # fmt: skip
            answers = [
                HandedAnswer(b"\xff\xfe", b"{}", HEADERS),
                HandedAnswer(first.encode(), encode_json(join), HEADERS),
                handed(second),
            ]
            (path,) = Path(home).iterdir()
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as stranger:
                stranger.sendto(msgspec.msgpack.encode(AnswerDatagram(0, answers)), str(path))
            await until(lambda: has(bench, 2))
            error_codes = [cast(HeartbeatResponse, answer).error_code for answer in bench.answers]
            assert error_codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE]
        assert problems == []

    asyncio.run(story())
