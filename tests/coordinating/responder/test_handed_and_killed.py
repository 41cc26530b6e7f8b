"""A responder is killed before Kafka has what it has handed to a gateway: the auditor sees it all the same."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NoReturn

import msgspec
import pytest

from group_coordinator.coordinating.answer_sockets import AnswerSender, HandedAnswer
from group_coordinator.coordinating.gateway import unrecorded_answers
from group_coordinator.coordinating.gateway.answer_sizes import AnswerSizes
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.coordinator_client import EventsClient
from group_coordinator.coordinating.gateway.group_events import GroupEvent
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.ground.kafka_topics.reader import offset_of, read_topic
from schemas.error_codes import ErrorCode
from schemas.events import ResponseDocument, encode_json
from schemas.messages import HeartbeatResponse, Response
from schemas.query_progress import DECIDED_AT_HEADER, WRITER_HEADER, AnswerDifference, decode_progress
from streaming.config import StreamingConfig
from tests.coordinating.responder.running_world import SESSION_LONG_MS, Configure, World
from tests.streaming.running_app import GROUP, HEARTBEAT, TIMEOUT_S
from tests.waiting import wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


TRIGGER_INTERVAL_MS = 3_000
RECORDED_AFTER_S = 0.5


class GatewayOnThisMachine:
    """A gateway's way to the coordinator; to be used in its event loop."""

    def __init__(self, config: StreamingConfig) -> None:
        self.metrics = GatewayMetrics()
        gateway_config = GatewaySettings(
            bootstrap_servers=config.bootstrap_servers, topic_prefix=config.topic_prefix,
            answers_directory=config.answers_directory,
        )  # fmt: skip
        self._client = EventsClient(gateway_config, self.metrics, AnswerSizes(), _fail)

    async def __aenter__(self) -> GatewayOnThisMachine:
        self._client.connect(asyncio.get_running_loop())
        self._client.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._client.stop_watching()
        self._client.end()

    async def heartbeat(self, at_once: Callable[[], None] = lambda: None) -> Response:
        """Call `at_once` when the answer comes, and return it."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()

        def take(response: Response) -> None:
            at_once()
            answer.set_result(response)

        event = GroupEvent(
            group_id=GROUP, api="Heartbeat", api_version=4, client_id="c", client_host="/h", new_member_id=None,
            request=HEARTBEAT,
        )  # fmt: skip
        self._client.ask(event, take)
        return await asyncio.wait_for(answer, TIMEOUT_S)


def _fail(problem: Exception) -> NoReturn:
    raise problem


@pytest.fixture
def world(configure: Configure, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """One whose responders hand answers over in a directory of its own, and whose query takes its time."""
    monkeypatch.setattr(unrecorded_answers, "RECORDED_AFTER_S", RECORDED_AFTER_S)
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory())
        config = configure(answers_directory=f"{directory}/answers", trigger_interval_ms=TRIGGER_INTERVAL_MS)
        yield World(config, spark, stack)


def test_what_it_has_handed_over_is_compared(world: World) -> None:
    world.client.join(SESSION_LONG_MS)
    world.start_responders()

    def kill_the_responder() -> None:
        os.kill(world.responders.process_ids[0], signal.SIGKILL)

    async def story() -> None:
        async with GatewayOnThisMachine(world.config) as gateway, asyncio.timeout(TIMEOUT_S):
            while not gateway.metrics.answers_recorded:  # responder or query may have been faster
                await asyncio.to_thread(world.wait_for_a_responder)
                assert await gateway.heartbeat(kill_the_responder) == HeartbeatResponse()
                await asyncio.sleep(2 * RECORDED_AFTER_S)

    asyncio.run(story())
    answers = world.answers()
    by_responders = [1 for records in answers.values() if {writer for writer, *_ in records} != {"query"}]
    assert "gateway-0" in {writer for records in answers.values() for writer, *_ in records}
    wait_until(lambda: world.auditor.counts.compared == len(by_responders), TIMEOUT_S)
    assert all(len({record[1:] for record in records}) == 1 for records in world.answers().values())
    assert world.auditor.counts.differences == 0


def test_a_wrong_answer_is_loud(world: World) -> None:
    world.client.join(SESSION_LONG_MS)
    properties = world.config.client_properties
    wrong = HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID)

    def of_a_wrong_responder(known: int) -> HandedAnswer | None:
        """Its answer to a request of the gateway, behind the events that are known."""
        for event in read_topic(properties, world.topics.events):
            if event.key() and offset_of(event) >= known:
                request_id, offset = msgspec.json.decode(event.value() or b"")["request_id"], offset_of(event)
                document = ResponseDocument(
                    request_id=request_id, group_id=GROUP, epoch=0, seq=1_000, api="Heartbeat", api_version=4,
                    answers_offset=offset, time_ms=0, body=wrong,
                )  # fmt: skip
                headers = {"epoch": "0", "seq": "1000", WRITER_HEADER: "responder-0", DECIDED_AT_HEADER: str(offset)}
                return HandedAnswer(request_id.encode(), encode_json(document), headers)
        return None

    async def story() -> None:
        responder = AnswerSender(world.config.answers_directory)
        async with GatewayOnThisMachine(world.config) as gateway:
            known = len(list(read_topic(properties, world.topics.events)))
            asked = asyncio.create_task(gateway.heartbeat())
            while (answer := await asyncio.to_thread(of_a_wrong_responder, known)) is None:
                pass
            assert responder.hand_over([answer])
            assert await asked == wrong
        responder.close()

    asyncio.run(story())
    (record,) = wait_until(lambda: list(read_topic(properties, world.topics.differences)), TIMEOUT_S)
    assert world.auditor.counts.differences == 1
    difference = decode_progress(record.value() or b"")
    assert isinstance(difference, AnswerDifference)
    assert (difference.seq, difference.query_offset) == (1_000, None)
