"""AddOffsetsToTxn and TxnOffsetCommit in the gateway: who may, where they go, and what clients are told."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from group_coordinator.coordinating.gateway.answer_sizes import AnswerSizes
from group_coordinator.coordinating.gateway.authorization import Authorizer, parse_rules
from group_coordinator.coordinating.gateway.config import Bounds, GatewaySettings
from group_coordinator.coordinating.gateway.coordinator_client import EventsClient
from group_coordinator.coordinating.gateway.group_events import GroupEvent
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.coordinating.gateway.offset_topics import Rules, split_commit, with_refused
from group_coordinator.coordinating.gateway.pending_request import AnyResponse, PendingRequest
from group_coordinator.coordinating.gateway.request_router import RequestRouter
from group_coordinator.coordinating.gateway.topic_access import TopicAccess
from group_coordinator.coordinating.gateway.topic_cache import ABSENT, Topic
from group_coordinator.coordinating.gateway.transactions import OnCode, added_code, appended_code
from group_coordinator.coordinating.gateway.translation import write_response
from group_coordinator.coordinating.gateway.versions import accepted_versions, offered_versions
from schemas.error_codes import ErrorCode
from schemas.events import decode_request_event
from schemas.message_versions import GroupRequest
from schemas.messages import Response, TxnOffsetCommitRequest, TxnOffsetCommitResponse
from schemas.transaction_messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.coordinating.gateway.answers import read_response
from tests.coordinating.gateway.router_bench import NODES, Coordinator, Groups
from tests.coordinating.gateway.told_loop import Loop, Producer

ID = "00000000-0000-0000-0000-000000000001"
ADD = AddOffsetsToTxnRequest(transactional_id="tx", producer_id=7, producer_epoch=1, group_id="g")


def commit(**partitions: int) -> TxnOffsetCommitRequest:
    topics = [
        TxnOffsetCommitRequestTopic(
            name=name,
            partitions=tuple(
                TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=5) for index in range(count)
            ),
        )
        for name, count in partitions.items()
    ]
    return TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=7, producer_epoch=1, topics=tuple(topics)
    )


def codes(answer: object) -> set[ErrorCode]:
    assert isinstance(answer, TxnOffsetCommitResponse)
    return {partition.error_code for topic in answer.topics for partition in topic.partitions}


class Log:
    """A log of transactions that does as it is told."""

    def __init__(self) -> None:
        self.added: list[tuple[AddOffsetsToTxnRequest, OnCode]] = []
        self.appended: list[tuple[TxnOffsetCommitRequest, int, bytes, OnCode]] = []
        self.forgotten: list[int] = []

    def connect(self, loop: asyncio.AbstractEventLoop, shards: int) -> None:
        raise AssertionError

    def add(self, request: AddOffsetsToTxnRequest, on_code: OnCode) -> None:
        self.added.append((request, on_code))

    def append(self, request: TxnOffsetCommitRequest, version: int, value: bytes, on_refused: OnCode) -> None:
        self.appended.append((request, version, value, on_refused))

    def forget(self, producer_id: int) -> None:
        self.forgotten.append(producer_id)

    def end(self) -> None:
        raise AssertionError


class Bench:
    def __init__(self, rules: str | None = None) -> None:
        self.log, self.coordinator = Log(), Coordinator()
        self.answers: list[AnyResponse] = []
        authorizer = Authorizer(None if rules is None else parse_rules(rules))
        self._router = RequestRouter(
            self.coordinator, Groups(), lambda: NODES, authorizer, bounds=Bounds(), sizes=AnswerSizes(),
            topics=TopicAccess("coordinator", authorizer), transaction_log=self.log,
        )

    def ask(self, api: str, request: GroupRequest, version: int = 4, host: str = "127.0.0.1") -> None:
        pending = PendingRequest(
            number=1, api=api, api_version=version, client_id="c", client_host=host, principal="User:alice",
            request=request,
        )  # fmt: skip
        self._router.ask(pending, None, self.answers.append)


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ("User:alice g allow", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
        ("User:alice transaction tx allow", ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ("User:alice transaction * deny\nUser:alice * allow", ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
def test_both_the_transactional_id_and_the_group_must_be_allowed(rules: str, code: ErrorCode) -> None:
    bench = Bench(rules)
    bench.ask("AddOffsetsToTxn", ADD)
    bench.ask("TxnOffsetCommit", commit(t=2))
    assert bench.answers[0] == AddOffsetsToTxnResponse(error_code=code)
    assert codes(bench.answers[1]) == {code}
    assert (bench.log.added, bench.coordinator.events) == ([], [])


def test_who_may_reaches_the_log_and_the_coordinator() -> None:
    bench = Bench("User:alice transaction t* allow\nUser:alice g allow")
    bench.ask("AddOffsetsToTxn", ADD)
    bench.ask("TxnOffsetCommit", commit(t=1))
    ((added, on_code),) = bench.log.added
    assert added == ADD
    on_code(ErrorCode.NONE)
    assert bench.answers == [AddOffsetsToTxnResponse()]
    assert [event.request for event, _ in bench.coordinator.events] == [commit(t=1)]


def test_without_rules_others_than_this_machine_may_not() -> None:
    bench = Bench()
    bench.ask("AddOffsetsToTxn", ADD, host="10.0.0.1")
    assert bench.answers == [AddOffsetsToTxnResponse(error_code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)]


def test_a_transactional_id_that_is_too_long_is_refused() -> None:
    bench = Bench()
    bench.ask("AddOffsetsToTxn", AddOffsetsToTxnRequest(
        transactional_id="x" * 2_000, producer_id=7, producer_epoch=1, group_id="g"
    ))  # fmt: skip
    assert bench.answers == [AddOffsetsToTxnResponse(error_code=ErrorCode.INVALID_REQUEST)]


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.NONE, 0, ErrorCode.NONE),
        (ErrorCode.PRODUCER_FENCED, 1, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 2, ErrorCode.PRODUCER_FENCED),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 4, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, 4, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, 4, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 4, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_adding_is_answered(code: ErrorCode, version: int, told: ErrorCode) -> None:
    assert added_code(code, version) is told


@pytest.mark.parametrize(
    ("code", "version", "told"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, 3, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.PRODUCER_FENCED, 4, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.INVALID_TXN_STATE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.INVALID_TXN_STATE, 4, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.TRANSACTION_ABORTABLE, 3, ErrorCode.INVALID_TXN_STATE),
        (ErrorCode.CONCURRENT_TRANSACTIONS, 3, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.MESSAGE_TOO_LARGE, 3, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, 1, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ],
)
def test_what_a_commit_is_answered_that_is_not_appended(code: ErrorCode, version: int, told: ErrorCode) -> None:
    """A client ends at codes that its producer does not expect."""
    assert appended_code(code, version) is told


class Asked:
    """The way to the coordinator, with a log of transactions."""

    def __init__(self) -> None:
        self.log, self.loop = Log(), Loop()
        self.client = EventsClient(
            GatewaySettings(bootstrap_servers="unused"), GatewayMetrics(), AnswerSizes(), _fail, self.log
        )
        self.producer = Producer()
        self.client.attach(cast(Any, self.loop), cast(Any, self.producer), 4, 3)
        self.answers: list[Response] = []

    def ask(self, request: TxnOffsetCommitRequest, version: int = 3) -> None:
        event = GroupEvent(
            group_id="g", api="TxnOffsetCommit", api_version=version, client_id="c", client_host="/127.0.0.1",
            new_member_id=None, request=request, principal="User:alice",
        )  # fmt: skip
        self.client.ask(event, self.answers.append)


def _fail(problem: Exception) -> None:
    raise AssertionError(problem)


def test_a_commit_goes_to_the_log_alone_and_only_the_groups_answer_counts() -> None:
    asked = Asked()
    asked.ask(commit(t=1))
    ((request, version, value, _),) = asked.log.appended
    envelope, read = decode_request_event("g", value)
    assert (request, version, read, envelope.reply_partition) == (commit(t=1), 3, commit(t=1), 3)
    assert envelope.principal == "User:alice"
    assert (asked.producer.sent, asked.answers) == ([], [])


def test_a_commit_that_is_not_appended_is_refused_once() -> None:
    asked = Asked()
    asked.ask(commit(t=2))
    ((*_, on_refused),) = asked.log.appended
    on_refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    on_refused(ErrorCode.INVALID_PRODUCER_EPOCH)
    assert [codes(answer) for answer in asked.answers] == [{ErrorCode.INVALID_PRODUCER_EPOCH}]


def test_a_commit_that_nobody_answers_comes_again_with_a_sequence_number_that_is_asked_for() -> None:
    asked = Asked()
    asked.ask(commit(t=1))
    asked.loop.now_s += 26.0
    asked.client.sweep()
    assert [codes(answer) for answer in asked.answers] == [{ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}]
    assert asked.log.forgotten == [7]


def test_topics_that_are_not_there_are_refused_first_and_the_others_go_on() -> None:
    rules = Rules(topics={"t": Topic(ID, 1), "gone": ABSENT}, refuses=lambda name: name == "secret")
    passed, refused = split_commit(commit(t=2, gone=1, secret=1, unknown=1), rules)
    assert [(topic.name, len(topic.partitions)) for topic in passed.topics] == [("t", 1), ("unknown", 1)]
    answer = with_refused(refused, TxnOffsetCommitResponse(topics=()), rules)
    assert [(topic.name, [each.error_code for each in topic.partitions]) for topic in answer.topics] == [
        ("t", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]), ("gone", [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]),
        ("secret", [ErrorCode.TOPIC_AUTHORIZATION_FAILED]),
    ]  # fmt: skip


@pytest.mark.parametrize("version", range(6))
def test_both_answers_can_be_said_in_every_version_that_is_offered(version: int) -> None:
    added, last = AddOffsetsToTxnResponse(error_code=ErrorCode.CONCURRENT_TRANSACTIONS), min(version, 4)
    assert read_response("AddOffsetsToTxn", last, write_response("AddOffsetsToTxn", last, 1, added)) == added
    asked = Asked()
    asked.ask(commit(t=2), version)
    asked.log.appended[0][3](ErrorCode.CONCURRENT_TRANSACTIONS)
    (refused,) = asked.answers
    assert codes(read_response("TxnOffsetCommit", version, write_response("TxnOffsetCommit", version, 1, refused))) == {
        ErrorCode.CONCURRENT_TRANSACTIONS
    }


def test_both_are_offered_where_there_is_a_log_and_with_them_transactions_of_version_2() -> None:
    broker = {0: (0, 13), 25: (0, 4), 28: (0, 6), 3: (0, 13)}
    without, with_log = (
        offered_versions(
            broker, accepted_versions(rewrites_addresses=True, taps=False, transactions=transactions), taps=False
        )
        for transactions in (False, True)
    )
    assert without.keys().isdisjoint({25, 28})
    assert (with_log[25], with_log[28]) == ((0, 4), (0, 5)), "6 names topics by id"
    assert (without[0], with_log[0]) == ((0, 9), (0, 12))
