"""Answers that a responder on this machine hands to a gateway, and what Kafka says of them later."""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, cast

import msgspec
import pytest

from group_coordinator.gateway import handed_answers
from group_coordinator.gateway.answer_sizes import AnswerSizes
from group_coordinator.gateway.config import GatewayConfig
from group_coordinator.gateway.coordinator_client import EventsClient
from group_coordinator.gateway.group_events import GroupEvent
from group_coordinator.gateway.handed_answers import HandedAnswers
from group_coordinator.gateway.handover import TopicRecord
from group_coordinator.gateway.metrics import GatewayMetrics
from group_coordinator.system.answer_sockets import AnswerSender, HandedAnswer
from schemas.error_codes import ErrorCode
from schemas.events import ResponseDocument, encode_json
from schemas.messages import HeartbeatRequest, HeartbeatResponse, Response
from tests.gateway.told_loop import Producer

TIMEOUT_S = 10.0


@pytest.fixture
def home() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as directory:
        yield f"{directory}/answers"


class Bench:
    """A gateway's client in a real event loop, whose producer keeps what it sends."""

    def __init__(self, directory: str) -> None:
        self.metrics = GatewayMetrics()
        self.producer = Producer()
        self.answers: list[Response] = []
        config = GatewayConfig(bootstrap_servers="unused", answers_directory=directory)
        self.client = EventsClient(config, self.metrics, AnswerSizes(), lambda failure: None)

    async def begin(self) -> None:
        self.client.attach(asyncio.get_running_loop(), cast(Any, self.producer), 1, 0)
        self.client.begin()

    async def ask(self) -> str:
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        event = GroupEvent(
            group_id="g", api="Heartbeat", api_version=4, client_id="c", client_host="/h", new_member_id=None,
            request=request,
        )  # fmt: skip
        self.client.ask(event, self.answers.append)
        await asyncio.sleep(0)
        return cast(str, msgspec.json.decode(self.producer.sent[-1][1])["request_id"])

    async def end(self) -> None:
        self.client.stop_watching()
        self.client.end()


def value_of(request_id: str, error_code: ErrorCode = ErrorCode.NONE, seq: int = 1) -> bytes:
    document = ResponseDocument(
        request_id=request_id, group_id="g", epoch=0, seq=seq, api="Heartbeat", api_version=4, answers_offset=1,
        time_ms=0, body=HeartbeatResponse(error_code=error_code),
    )  # fmt: skip
    return encode_json(document)


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(TIMEOUT_S):
        while not is_so():
            await asyncio.sleep(0.01)


def test_an_answer_that_was_handed_over_is_given_and_its_copies_in_kafka_are_compared(
    home: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        bench, responder = Bench(home), AnswerSender(home)
        await bench.begin()
        request_ids = [await bench.ask() for _ in range(3)]
        values = {request_id: value_of(request_id) for request_id in request_ids}
        assert responder.hand_over(HandedAnswer(name.encode(), value) for name, value in values.items())
        await until(lambda: len(bench.answers) == 3)
        assert bench.answers == [HeartbeatResponse()] * 3
        assert (bench.metrics.pending, bench.metrics.answers_handed_over) == (0, 3)

        records = [TopicRecord(name.encode(), value, 0) for name, value in values.items()]
        bench.client.read([*records, *records, TopicRecord(b"of-another", b"gateway", 0)])
        assert bench.metrics.answers_differing == 0
        another = value_of(request_ids[1], ErrorCode.FENCED_INSTANCE_ID)
        bench.client.read([TopicRecord(request_ids[1].encode(), another, 0, partition=2, offset=7)])
        assert bench.metrics.answers_differing == 1
        assert [request_ids[1] in record.message for record in caplog.records] == [True]
        assert "in partition 2 of the responses topic, offset 7" in caplog.text
        assert len(bench.answers) == 3
        await bench.end()
        assert not responder.hand_over([HandedAnswer(request_ids[0].encode(), b"")])
        responder.close()

    with caplog.at_level(logging.ERROR):
        asyncio.run(story())


def test_more_answers_than_are_taken_at_once_all_come(home: str) -> None:
    async def story() -> None:
        bench, responder = Bench(home), AnswerSender(home)
        await bench.begin()
        names = [await bench.ask() for _ in range(100)]
        for name in names:
            while not responder.hand_over([HandedAnswer(name.encode(), value_of(name))]):
                await asyncio.sleep(0)  # the socket is full: the gateway has to take some
        await until(lambda: len(bench.answers) == 100)
        await bench.end()
        responder.close()

    asyncio.run(story())


@pytest.mark.parametrize(("seq", "differing"), [(1, 3), (2, 0)])
def test_what_the_client_was_told_counts_whatever_another_responder_hands_over(
    home: str, caplog: pytest.LogCaptureFixture, seq: int, differing: int
) -> None:
    """It follows a responder that was killed. Only a request that came twice has two answers, each at its place."""

    async def story() -> None:
        bench, responder = Bench(home), AnswerSender(home)
        await bench.begin()
        name = await bench.ask()
        key, another = name.encode(), value_of(name, ErrorCode.REBALANCE_IN_PROGRESS, seq)
        for value in (value_of(name), another):
            assert responder.hand_over([HandedAnswer(key, value)])
        await until(lambda: bench.metrics.answers_handed_over == 2)
        assert ("which another responder hands over" in caplog.text) == bool(differing)
        bench.client.read([TopicRecord(key, another, 0), TopicRecord(key, another, 0)])
        assert bench.metrics.answers_differing == differing
        assert bench.answers == [HeartbeatResponse()]
        await bench.end()
        responder.close()

    asyncio.run(story())


def test_only_the_last_are_remembered(home: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handed_answers, "REMEMBERED_MAX", 2)

    async def story() -> None:
        metrics, taken = GatewayMetrics(), list[TopicRecord]()
        answers = HandedAnswers(home, "0123456789abcdef", metrics, taken.extend)
        answers.begin(asyncio.get_running_loop())
        responder = AnswerSender(home)
        keys = [b"0123456789abcdef-%x" % number for number in range(3)]
        assert responder.hand_over(HandedAnswer(key, b"one") for key in keys)
        await until(lambda: len(taken) == 3)
        answers.compare(TopicRecord(key, b"another", 0) for key in keys)
        assert metrics.answers_differing == 2
        answers.end()
        responder.close()

    asyncio.run(story())


@pytest.mark.parametrize("directory", ["", "/proc/answers"])
def test_without_a_directory_answers_come_through_kafka_alone(
    directory: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        bench = Bench(directory)
        await bench.begin()
        request_id = await bench.ask()
        bench.client.read([TopicRecord(request_id.encode(), value_of(request_id), 0)])
        await until(lambda: bench.answers == [HeartbeatResponse()])
        await bench.end()

    asyncio.run(story())
    assert ["through Kafka alone" in record.message for record in caplog.records] == [True] * bool(directory)
