"""The way to the coordinator, with a producer and a reader that are told what to do: deadlines, doubts, sizes, stray answers."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from confluent_kafka import KafkaError

from gateway.config import GatewayConfig
from gateway.coordinator_client import EventsClient
from gateway.door import GroupEvent
from gateway.metrics import GatewayMetrics
from gateway.topic_reader import TopicRecord
from schemas.error_codes import ErrorCode
from schemas.events import ResponseDocument, encode_json
from schemas.java_hash import group_partition
from schemas.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    Request,
    Response,
    SyncGroupRequest,
)

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
SHARDS = 4


class Producer:
    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, bytes, int]] = []
        self.is_full = False

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        if self.is_full:
            raise BufferError
        self.sent.append((topic, value, key, partition))

    def poll(self, _: float) -> None:
        pass


class Loop:
    """Time that is told, and calls at once."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def time(self) -> float:
        return self.now_s

    def call_later(self, _: float, call: Any) -> None:
        pass

    def call_soon_threadsafe(self, call: Any, *arguments: Any) -> None:
        call(*arguments)


class Bench:
    def __init__(self) -> None:
        self.metrics = GatewayMetrics()
        self.client = EventsClient(GatewayConfig(bootstrap_servers="unused"), self.metrics)
        self.producer, self.loop = Producer(), Loop()
        self.client._producer = self.producer  # type: ignore[assignment]
        self.client._loop = self.loop  # type: ignore[assignment]
        self.client._shards, self.client._responses_partitions, self.client._reply_partition = SHARDS, 8, 3
        self.answers: list[Response] = []

    def ask(self, request: Request = BEAT, api: str = "Heartbeat", group_id: str = "g") -> str:
        """The id of the request that was sent; empty: none was."""
        before = len(self.producer.sent)
        event = GroupEvent(
            group_id=group_id, api=api, api_version=4, client_id="c", client_host="/h", new_member_id=None, request=request
        )
        self.client.ask(event, self.answers.append)
        return msgspec.json.decode(self.producer.sent[-1][1])["request_id"] if len(self.producer.sent) > before else ""

    def answer(self, request_id: str, response: Response | None = None) -> None:
        document = ResponseDocument(
            request_id=request_id, group_id="g", epoch=0, seq=1, api="Heartbeat", api_version=4, answers_offset=1, time_ms=0,
            body=response or HeartbeatResponse(),
        )  # fmt: skip
        self.client._read([TopicRecord(request_id.encode(), encode_json(document), 0)])

    def after(self, seconds: float) -> list[Response]:
        self.loop.now_s += seconds
        self.client.begin()
        return self.answers


def test_an_event_goes_to_the_shard_of_its_group_and_its_answer_comes_back() -> None:
    bench = Bench()
    for group_id in ("g", "orders", "billing"):
        request_id = bench.ask(HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m"), group_id=group_id)
        topic, value, key, partition = bench.producer.sent[-1]
        assert (topic, key, partition) == ("coordinator.events", group_id.encode(), group_partition(group_id, SHARDS))
        assert msgspec.json.decode(value)["reply_partition"] == 3
        bench.answer(request_id)
    assert bench.answers == [HeartbeatResponse()] * 3
    assert bench.metrics.pending == 0


def test_each_answer_is_for_its_request() -> None:
    bench = Bench()
    first, second = bench.ask(), bench.ask()
    bench.answer(second, HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION))
    bench.answer(first)
    assert bench.answers == [HeartbeatResponse(error_code=ErrorCode.ILLEGAL_GENERATION), HeartbeatResponse()]


def test_answers_that_nobody_waits_for_are_dropped() -> None:
    bench = Bench()
    request_id = bench.ask()
    bench.answer("of-another-gateway")
    bench.answer(request_id)
    bench.answer(request_id)
    assert len(bench.answers) == 1
    assert bench.metrics.answers_unexpected == 2


def test_in_doubt_a_client_is_sent_to_look_again_and_never_fenced() -> None:
    bench = Bench()
    request_id = bench.ask()
    assert bench.after(24.9) == []
    assert bench.after(0.2) == [HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]
    bench.answer(request_id, HeartbeatResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert len(bench.answers) == 1, "it comes too late"
    assert bench.metrics.in_doubt == 1


@pytest.mark.parametrize(
    ("api", "request_", "held_s"),
    [
        ("JoinGroup", JoinGroupRequest(group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=300_000, protocol_type="c", protocols=()), 314),
        ("JoinGroup", JoinGroupRequest(group_id="g", session_timeout_ms=45_000, protocol_type="c", protocols=()), 59),
        ("SyncGroup", SyncGroupRequest(group_id="g", generation_id=1, member_id="m"), 309),
    ],
)
def test_what_a_group_holds_is_waited_for(api: str, request_: Request, held_s: float) -> None:
    bench = Bench()
    bench.ask(request_, api)
    assert bench.after(held_s) == []
    assert len(bench.after(2)) == 1


def test_a_log_that_takes_no_more() -> None:
    bench = Bench()
    bench.producer.is_full = True
    assert bench.ask() == ""
    assert bench.answers == [HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_an_event_that_could_not_be_written() -> None:
    bench = Bench()
    bench.ask()

    class Failed:
        def value(self) -> bytes:
            return bench.producer.sent[-1][1]

    bench.client._not_written(KafkaError(KafkaError._MSG_TIMED_OUT), Failed())  # type: ignore[arg-type]
    assert bench.answers == [HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def commit(metadata: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    return OffsetCommitRequest(group_id="g", topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),))


def test_what_would_be_a_dead_letter_is_answered_here() -> None:
    """No event is written that nobody will ever answer."""
    bench = Bench()
    many = tuple(LeaveGroupMember(member_id="m" * 1_000) for _ in range(1_100))
    for request, api in (
        (commit("x" * 1_000_000), "OffsetCommit"),
        (LeaveGroupRequest(group_id="g", members=many), "LeaveGroup"),
        (commit("x" * 32_760), "OffsetCommit"),
        (HeartbeatRequest(group_id="g", generation_id=1, member_id="m" * 32_760), "Heartbeat"),
    ):
        assert bench.ask(request, api) == ""
    codes = [str(answer) for answer in bench.answers]
    assert "INVALID_COMMIT_OFFSET_SIZE" in codes[0]
    assert "MESSAGE_TOO_LARGE" in codes[1]
    assert "OFFSET_METADATA_TOO_LARGE" in codes[2]
    assert "INVALID_REQUEST" in codes[3]


def test_a_large_event_that_is_good_is_sent() -> None:
    bench = Bench()
    assert bench.ask(LeaveGroupRequest(group_id="g", members=tuple(LeaveGroupMember(member_id="m" * 100) for _ in range(1_000))), "LeaveGroup")


def test_an_answer_that_cannot_be_read() -> None:
    bench = Bench()
    request_id = bench.ask()
    bench.client._read([TopicRecord(request_id.encode(), b"{", 0)])
    assert bench.answers == [HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_the_reader_calls_in_the_loops_thread() -> None:
    bench = Bench()
    called: list[str] = []

    async def live() -> None:
        bench.client._loop = asyncio.get_running_loop()
        request_id = bench.ask()
        await asyncio.to_thread(bench.answer, request_id)
        await asyncio.sleep(0.01)
        called.extend(str(answer) for answer in bench.answers)

    asyncio.run(live())
    assert len(called) == 1
