"""The way to the coordinator, with a producer and a reader that are told what to do: deadlines, doubts, answers."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from typing import Any, cast

import msgspec
import pytest
from confluent_kafka import KafkaError

from coordinator_state import GroupConfig
from group_coordinator.coordinating.gateway.answer_sizes import AnswerSizes
from group_coordinator.coordinating.gateway.config import GatewayError, GatewaySettings
from group_coordinator.coordinating.gateway.coordinator_client import EventsClient
from group_coordinator.coordinating.gateway.group_events import GroupEvent
from group_coordinator.coordinating.gateway.handover import TopicRecord
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from schemas.error_codes import ErrorCode
from schemas.events import ResponseDocument, encode_json
from schemas.group_metadata_events import TopicMetadata
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
from tests.coordinating.gateway.told_loop import Loop, Producer

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
SHARDS, REPLY_PARTITION = 4, 3


class Bench:
    def __init__(self) -> None:
        self.metrics = GatewayMetrics()
        self.failures: list[GatewayError] = []
        self.sizes = AnswerSizes()
        self.client = EventsClient(
            GatewaySettings(bootstrap_servers="unused"), self.metrics, self.sizes, self.failures.append
        )
        self.producer, self.loop = Producer(), Loop()
        self.attach(self.loop)
        self.answers: list[Response] = []

    def attach(self, loop: Any) -> None:
        self.client.attach(loop, cast(Any, self.producer), SHARDS, REPLY_PARTITION)

    def ask(
        self,
        request: Request = BEAT,
        api: str = "Heartbeat",
        group_id: str = "g",
        on_answer: Callable[[Response], None] | None = None,
        **fields: Any,
    ) -> str:
        """The id of the request that was sent; empty: none was."""
        before = len(self.producer.sent)
        event = GroupEvent(
            group_id=group_id, api=api, api_version=4, client_id="c", client_host="/h", new_member_id=None,
            request=request, **fields,
        )  # fmt: skip
        self.client.ask(event, on_answer or self.answers.append)
        return msgspec.json.decode(self.producer.sent[-1][1])["request_id"] if len(self.producer.sent) > before else ""

    def answer(self, request_id: str, response: Response | None = None) -> None:
        self.client.read([self.record(request_id, response)])

    def record(self, request_id: str, response: Response | None = None) -> TopicRecord:
        document = ResponseDocument(
            request_id=request_id, group_id="g", epoch=0, seq=1, api="Heartbeat", api_version=4, answers_offset=1,
            time_ms=0, body=response or HeartbeatResponse(),
        )  # fmt: skip
        return TopicRecord(request_id.encode(), encode_json(document), 0)

    def after(self, seconds: float) -> list[Response]:
        self.loop.now_s += seconds
        self.client.sweep()
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


def test_what_a_group_is_told_of_topics_goes_with_the_request_if_there_is_room() -> None:
    bench = Bench()
    news = TopicMetadata(version=3, topics=(), absent=("x" * 100,) * 1_000)
    bench.ask(topic_metadata=news)
    assert msgspec.json.decode(bench.producer.sent[-1][1])["topic_metadata"]["absent"] == list(news.absent)
    large = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, subscribed_topic_names=("y" * 30_000,) * 32
    )
    assert bench.ask(large, "ConsumerGroupHeartbeat", topic_metadata=news)
    assert "topic_metadata" not in msgspec.json.decode(bench.producer.sent[-1][1])
    assert bench.answers == []


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
    ("api", "request_"),
    [
        ("Heartbeat", BEAT),
        ("JoinGroup", JoinGroupRequest(
            group_id="g", session_timeout_ms=1, rebalance_timeout_ms=1, member_id="m", protocol_type="consumer",
            protocols=(),
        )),
        ("SyncGroup", SyncGroupRequest(group_id="g", generation_id=1, member_id="m", assignments=())),
    ],
)  # fmt: skip
def test_what_a_group_is_told_of_topics_is_not_kept_until_the_answer(api: str, request_: Request) -> None:
    bench, metadata = Bench(), TopicMetadata(version=1, topics=())
    references = sys.getrefcount(metadata)
    assert bench.ask(request_, api, topic_metadata=metadata)
    assert bench.metrics.pending == 1
    assert sys.getrefcount(metadata) == references


def test_a_heartbeat_of_a_consumer_group_is_given_up_before_its_interval_is_over() -> None:
    """Else librdkafka forgets it and does not ask again for what it missed."""
    interval_s = GroupConfig().group_consumer_heartbeat_interval_ms / 1_000
    bench = Bench()
    bench.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), "ConsumerGroupHeartbeat")
    assert bench.after(3.9) == []
    assert bench.after(interval_s - 4) == [
        ConsumerGroupHeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ]


def test_what_one_answer_runs_into_does_not_end_the_deadlines_of_others() -> None:
    bench = Bench()

    def fails(_: Response) -> None:
        raise RuntimeError("ours")

    bench.ask(on_answer=fails)
    bench.ask()
    with pytest.raises(RuntimeError, match="ours"):
        bench.after(26)
    assert bench.loop.to_call == bench.client.sweep
    bench.loop.to_call()
    assert len(bench.answers) == 1


def test_a_producer_that_is_done_for_is_told() -> None:
    bench = Bench()
    bench.client.producer_failed(KafkaError(KafkaError._ALL_BROKERS_DOWN))
    assert bench.failures == []
    bench.client.producer_failed(KafkaError(KafkaError._FATAL, "out of order", fatal=True))
    (failure,) = bench.failures
    assert "out of order" in str(failure)


@pytest.mark.parametrize(
    ("api", "request_", "held_s"),
    [
        (
            "JoinGroup",
            JoinGroupRequest(
                group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=300_000, protocol_type="c", protocols=()
            ),
            314,
        ),
        ("JoinGroup", JoinGroupRequest(group_id="g", session_timeout_ms=45_000, protocol_type="c", protocols=()), 59),
        ("SyncGroup", SyncGroupRequest(group_id="g", generation_id=1, member_id="m"), 309),
    ],
)
def test_what_a_group_holds_is_waited_for(api: str, request_: Request, held_s: float) -> None:
    bench = Bench()
    bench.ask(request_, api)
    assert bench.after(held_s) == []
    assert len(bench.after(2)) == 1


def test_what_a_heartbeat_has_waited_before_counts() -> None:
    bench = Bench()
    bench.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=1), waited_ms=3_000)
    assert (len(bench.after(0.8)), len(bench.after(0.4))) == (0, 1)


def test_a_log_that_takes_no_more() -> None:
    bench = Bench()
    bench.producer.is_full = True
    assert bench.ask() == ""
    assert bench.answers == [HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_an_event_that_could_not_be_written() -> None:
    bench = Bench()
    lost: list[str] = []
    bench.ask()
    bench.client.append("g", b"{}", lambda: lost.append("appended"))
    for on_delivery in bench.producer.on_delivery:
        on_delivery(KafkaError(KafkaError._MSG_TIMED_OUT), None)
    assert (bench.answers, lost) == ([HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)], ["appended"])


@pytest.mark.parametrize("is_full", [False, True])
def test_events_of_one_turn_of_the_loop_are_sent_together_in_their_order(is_full: bool) -> None:
    bench = Bench()
    bench.producer.is_full = is_full
    failures: list[str] = []

    async def live() -> None:
        bench.attach(asyncio.get_running_loop())
        for _ in range(2):
            before = len(bench.producer.sent)
            bench.ask(group_id="a")
            bench.client.append("b", b"{}", lambda: failures.append("b"))
            bench.ask(group_id="a")
            assert len(bench.producer.sent) == before
            await asyncio.sleep(0)
        assert (len(bench.answers), len(failures)) == ((4, 2) if is_full else (0, 0))

    asyncio.run(live())
    assert [key for _, _, key, _ in bench.producer.sent] == ([] if is_full else [b"a", b"b", b"a"] * 2)


def test_what_was_asked_last_is_sent_before_the_end() -> None:
    bench = Bench()

    async def live() -> None:
        bench.attach(asyncio.get_running_loop())
        bench.ask()
        bench.client.stop_watching()

    asyncio.run(live())
    assert len(bench.producer.sent) == 1


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
    assert bench.ask(
        LeaveGroupRequest(group_id="g", members=tuple(LeaveGroupMember(member_id="m" * 100) for _ in range(1_000))),
        "LeaveGroup",
    )


def test_an_answer_that_cannot_be_read() -> None:
    bench = Bench()
    request_id = bench.ask()
    bench.client.read([TopicRecord(request_id.encode(), b"{", 0)])
    assert bench.answers == [HeartbeatResponse(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)]


def test_the_reader_calls_in_the_loops_thread() -> None:
    bench = Bench()
    called: list[threading.Thread] = []

    async def live() -> None:
        bench.attach(asyncio.get_running_loop())
        bench.ask(on_answer=lambda _: called.append(threading.current_thread()))
        await asyncio.sleep(0)
        request_id = msgspec.json.decode(bench.producer.sent[-1][1])["request_id"]
        await asyncio.to_thread(bench.answer, request_id)
        async with asyncio.timeout(10):
            while not called:
                await asyncio.sleep(0)

    asyncio.run(live())
    assert called == [threading.current_thread()]
