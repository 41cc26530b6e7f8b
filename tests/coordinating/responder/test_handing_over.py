"""The loop of a responder beside a gateway on its machine: the gateway has answers at once, and Kafka in a moment."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, KafkaException

from group_coordinator.coordinating.answer_sockets import AnswerSender, AnswerSocket, HandedAnswer
from group_coordinator.coordinating.gateway.request_ids import RequestIds
from group_coordinator.coordinating.responder import loop
from group_coordinator.coordinating.responder.loop import Responder
from group_coordinator.coordinating.responder.permission import ResponderError, ResponderRefusedError
from schemas.events import encode_tick
from schemas.query_progress import (
    DECIDED_AT_HEADER,
    WRITER_HEADER,
    QueryProgress,
    ResponderProgress,
    decode_progress,
    encode_progress,
    key_of,
)
from tests.coordinating.responder.fake_kafka import FakeKafka
from tests.coordinating.responder.fake_shard import CONFIG, STATE, TOPICS, heartbeat, kafka_with_progress


@pytest.fixture
def fake_kafka(monkeypatch: pytest.MonkeyPatch) -> FakeKafka:
    """Nothing is held for too long unless a test says so."""
    monkeypatch.setattr(loop, "HELD_S", 600.0)
    return kafka_with_progress(monkeypatch)


class Gateway:
    """On the responder's machine."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._ids = RequestIds()
        self._socket = AnswerSocket(directory, self._ids.run_id)

    def ask(self, fake_kafka: FakeKafka) -> bytes:
        return ask(fake_kafka, self._ids.new())

    def answers(self) -> list[HandedAnswer]:
        """What has come since the last look."""
        answers: list[HandedAnswer] = []
        while (datagram := self._socket.receive()) is not None:
            answers += datagram.answers
        return answers

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    with tempfile.TemporaryDirectory() as directory:
        gateway = Gateway(f"{directory}/answers")
        yield gateway
        gateway.close()


def ask(fake_kafka: FakeKafka, request_id: str) -> bytes:
    """Write a heartbeat to the log; return its request id."""
    fake_kafka.append(TOPICS.events, b"g", heartbeat(request_id))
    return request_id.encode()


def run(gateway: Gateway, doings: Iterator[object]) -> None:
    """Run a responder; before each of its looks the next thing happens."""
    sender = AnswerSender(gateway.directory)
    responder = Responder(CONFIG.operator_config(), {}, STATE, "ours", alone_max_ms=60_000, sender=sender)
    try:
        responder.run(lambda: next(doings, "end") != "end")
    finally:
        sender.close()


def in_kafka(fake_kafka: FakeKafka) -> list[HandedAnswer]:
    answers: list[HandedAnswer] = []
    for record in fake_kafka.logs[TOPICS.responses, 0]:
        headers = {name: text.decode() for name, text in record.headers()}
        answers.append(HandedAnswer(record.key() or b"", record.value() or b"", headers))
    return answers


def clock_answered_ms(fake_kafka: FakeKafka) -> int:
    """The clock up to which it says that it has answered."""
    records = [decode_progress(record.value() or b"") for record in fake_kafka.logs[TOPICS.progress, 0]]
    return max((record.clock_ms for record in records if isinstance(record, ResponderProgress)), default=0)


def test_the_gateway_has_an_answer_before_kafka_and_the_same(
    fake_kafka: FakeKafka, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def story() -> Iterator[None]:
        fake_kafka.append(TOPICS.events, None, encode_tick(2_000))
        request_id = gateway.ask(fake_kafka)
        fake_kafka.append(TOPICS.events, None, encode_tick(3_000))
        yield
        (answer,) = gateway.answers()
        assert answer.request_id == request_id
        assert answer.headers.items() >= {WRITER_HEADER: "responder-0", DECIDED_AT_HEADER: "1"}.items()
        yield
        assert in_kafka(fake_kafka) == []
        assert clock_answered_ms(fake_kafka) == 2_000, "what Kafka has not taken is not answered"
        monkeypatch.setattr(loop, "HELD_S", 0.0)
        yield
        yield
        assert in_kafka(fake_kafka) == [answer]
        assert clock_answered_ms(fake_kafka) == 3_000
        assert gateway.answers() == []

    run(gateway, story())


def test_an_answer_for_another_machine_takes_those_before_it_along(fake_kafka: FakeKafka, gateway: Gateway) -> None:
    elsewhere = RequestIds()

    def story() -> Iterator[None]:
        first = gateway.ask(fake_kafka)
        yield
        assert len(gateway.answers()) == 1
        assert in_kafka(fake_kafka) == []
        second, third = ask(fake_kafka, elsewhere.new()), gateway.ask(fake_kafka)
        yield
        assert [answer.request_id for answer in gateway.answers()] == [third]
        assert [answer.request_id for answer in in_kafka(fake_kafka)] == [first, second, third]

    run(gateway, story())


def test_many_answers_are_not_held(fake_kafka: FakeKafka, gateway: Gateway) -> None:
    def story() -> Iterator[None]:
        asked = [gateway.ask(fake_kafka) for _ in range(loop.HELD_MAX + 1)]
        yield
        assert [answer.request_id for answer in gateway.answers()] == asked
        assert [answer.request_id for answer in in_kafka(fake_kafka)][: loop.HELD_MAX] == asked[: loop.HELD_MAX]

    run(gateway, story())


@pytest.mark.parametrize("is_refused", [False, True])
def test_at_its_end_nothing_is_held(fake_kafka: FakeKafka, gateway: Gateway, is_refused: bool) -> None:
    def story() -> Iterator[None]:
        gateway.ask(fake_kafka)
        yield
        if is_refused:
            theirs = QueryProgress(core_hash="theirs", batch_id=4, start_offset=0, end_offset=1, clock_ms=1_000)
            fake_kafka.append(TOPICS.progress, key_of(QueryProgress), encode_progress(theirs))
            yield

    if is_refused:
        with pytest.raises(ResponderRefusedError):
            run(gateway, story())
    else:
        run(gateway, story())
    assert in_kafka(fake_kafka) == gateway.answers() != []


def test_what_was_asked_before_the_start_is_not_handed_over(fake_kafka: FakeKafka, gateway: Gateway) -> None:
    """Most of it was answered long ago, by a responder before this one."""
    first = gateway.ask(fake_kafka)

    def story() -> Iterator[None]:
        yield
        assert [answer.request_id for answer in in_kafka(fake_kafka)] == [first]
        assert gateway.answers() == []
        second = gateway.ask(fake_kafka)
        yield
        assert [answer.request_id for answer in gateway.answers()] == [second]

    run(gateway, story())


@pytest.mark.parametrize("problem", [KafkaException(KafkaError(KafkaError._FATAL)), ResponderError()])
def test_the_reason_of_the_end_is_told_whatever_comes_of_what_is_held(
    fake_kafka: FakeKafka, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, problem: Exception
) -> None:
    def fail(*_: object) -> None:
        raise problem

    def story() -> Iterator[None]:
        gateway.ask(fake_kafka)
        yield
        monkeypatch.setattr(Responder, "_write", fail)
        theirs = QueryProgress(core_hash="theirs", batch_id=4, start_offset=0, end_offset=1, clock_ms=1_000)
        fake_kafka.append(TOPICS.progress, key_of(QueryProgress), encode_progress(theirs))
        yield

    with pytest.raises(ResponderRefusedError):
        run(gateway, story())


def test_where_the_gateway_has_ended_kafka_has_an_answer_at_once(fake_kafka: FakeKafka, gateway: Gateway) -> None:
    def story() -> Iterator[None]:
        first = gateway.ask(fake_kafka)
        yield
        gateway.close()
        second = gateway.ask(fake_kafka)
        yield
        assert [answer.request_id for answer in in_kafka(fake_kafka)] == [first, second]

    run(gateway, story())
