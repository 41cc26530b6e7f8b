"""A tap's log: the order of arrival, ticks, ids that brokers gave out, answers by group."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from group_coordinator.coordinating.gateway.tap_log import TapLog, TappedAnswer, TappedEvent
from group_coordinator.coordinating.gateway.tap_topics import FoundTopics, OnTopics, topic_metadata
from group_coordinator.coordinating.gateway.tap_transactions import Ending
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
)
from schemas.error_codes import ErrorCode
from schemas.events import (
    TransactionEnded,
    decode_group_event,
    decode_request_event,
    decode_response_event,
    decode_tick,
)
from schemas.group_metadata_events import DescribedTopic, RegexesResolved, TopicMetadata
from schemas.message_versions import GroupRequest
from schemas.messages import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from schemas.transaction_messages import (
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)


class Written:
    """A log and what it has put out."""

    def __init__(self) -> None:
        self.out: list[TappedEvent] = []
        self.answers: list[TappedAnswer] = []
        self.questions: list[tuple[tuple[str, ...], str | None, OnTopics]] = []
        self.log = TapLog(self.out.append, self.answers.append, lambda *question: self.questions.append(question))

    @property
    def said(self) -> list[Any]:
        """A number for a tick, (group, api, new member id) for a request."""
        events: list[Any] = []
        for event in self.out:
            if event.key is None:
                events.append(decode_tick(event.value).clock_ms)
            else:
                envelope, _ = decode_request_event(event.key.decode(), event.value)
                events.append((event.key.decode(), envelope.api, envelope.new_member_id))
        return events


def pending(api: str, request: GroupRequest, version: int = 4) -> PendingRequest:
    return PendingRequest(
        number=0, api=api, api_version=version, client_id="c", client_host="10.0.0.1", principal="", request=request
    )


def beat(group_id: str = "g") -> PendingRequest:
    return pending("Heartbeat", HeartbeatRequest(group_id=group_id, generation_id=1, member_id="m"))


def join(member_id: str = "") -> PendingRequest:
    return pending(
        "JoinGroup",
        JoinGroupRequest(
            group_id="g", session_timeout_ms=1, member_id=member_id, protocol_type="consumer", protocols=()
        ),
    )


def test_a_tick_before_each_request_whose_time_is_new() -> None:
    written = Written()
    for tapped in [written.log.request(beat(), time_ms) for time_ms in (10, 10, 12, 11)]:
        assert tapped is not None
        tapped.answered(HeartbeatResponse(), 15)
    written.log.end(20)
    beats = ("g", "Heartbeat", None)
    assert written.said == [10, beats, beats, 12, beats, beats, 20]
    assert written.log.events == 4


def test_a_new_member_waits_for_the_id_that_the_broker_gives_it_and_others_behind_it() -> None:
    written = Written()
    first = written.log.request(join(), 10)
    between = written.log.request(beat("other"), 11)
    second = written.log.request(join(), 12)
    assert first is not None
    assert between is not None
    assert second is not None
    between.answered(HeartbeatResponse(), 12)
    second.answered(JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="c-2"), 13)
    assert written.said == []
    first.answered(JoinGroupResponse(generation_id=1, member_id="c-1"), 14)
    assert written.said == [
        10, ("g", "JoinGroup", "c-1"), 11, ("other", "Heartbeat", None), 12, ("g", "JoinGroup", "c-2"),
    ]  # fmt: skip


def test_what_the_coordinator_never_saw_is_no_event() -> None:
    """A broker that is starting answers before its coordinator is there."""
    written = Written()
    for number, error_code in enumerate(
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
    ):
        tapped = written.log.request(beat(), 10 + number)
        assert tapped is not None
        tapped.answered(HeartbeatResponse(error_code=error_code), 15)
    assert written.said == [12, ("g", "Heartbeat", None)]
    assert len(written.answers) == 1
    assert written.log.set_aside == 2


def test_a_client_that_leaves_before_its_answer_holds_nobody_up() -> None:
    written = Written()
    tapped = written.log.request(join(), 10)
    behind = written.log.request(beat(), 11)
    assert tapped is not None
    assert behind is not None
    behind.answered(HeartbeatResponse(), 12)
    tapped.ended()
    assert written.said == [10, ("g", "JoinGroup", None), 11, ("g", "Heartbeat", None)]


def test_the_end_waits_for_nobody() -> None:
    written = Written()
    written.log.request(join(), 10)
    written.log.end(10)
    assert written.said == [10, ("g", "JoinGroup", None)]


def test_a_request_for_several_groups_is_an_event_for_each_and_so_is_its_answer() -> None:
    written = Written()
    tapped = written.log.request(pending("DescribeGroups", DescribeGroupsRequest(groups=("a", "b"))), 10)
    assert tapped is not None
    tapped.answered(
        DescribeGroupsResponse(
            groups=tuple(DescribedGroup(group_id=group_id, group_state="Dead") for group_id in "ab")
        ),
        11,
    )
    assert written.said == [10, ("a", "DescribeGroups", None), ("b", "DescribeGroups", None)]
    ids = [msgspec.json.decode(event.value)["request_id"] for event in written.out[1:]]
    answers = [decode_response_event(answer.value) for answer in written.answers]
    assert [envelope.request_id for envelope, _ in answers] == ids
    assert [(envelope.group_id, response) for envelope, response in answers] == [
        (group_id, DescribeGroupsResponse(groups=(DescribedGroup(group_id=group_id, group_state="Dead"),)))
        for group_id in "ab"
    ]


def test_old_answers_to_offset_fetch_name_their_group() -> None:
    written = Written()
    request = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=()),))
    tapped = written.log.request(pending("OffsetFetch", request, version=5), 10)
    assert tapped is not None
    tapped.answered(OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id=""),)), 11)
    _, response = decode_response_event(written.answers[0].value)
    assert response == OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g"),))


def txn_commit(producer_id: int = 7) -> PendingRequest:
    topic = TxnOffsetCommitRequestTopic(
        name="t", partitions=(TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5),)
    )
    request = TxnOffsetCommitRequest(
        transactional_id="tx", group_id="g", producer_id=producer_id, producer_epoch=1, topics=(topic,)
    )
    return pending("TxnOffsetCommit", request)


def commit_in_transaction(written: Written, code: ErrorCode = ErrorCode.NONE, producer_id: int = 7) -> None:
    tapped = written.log.request(txn_commit(producer_id), 10)
    assert tapped is not None
    answered = (TxnOffsetCommitResponsePartition(0, code),)
    tapped.answered(TxnOffsetCommitResponse(topics=(TxnOffsetCommitResponseTopic(name="t", partitions=answered),)), 11)


def ends(written: Written) -> list[tuple[int, bool]]:
    events = [decode_group_event("g", event.value) for event in written.out if event.key is not None]
    return [(event.producer_id, event.committed) for event in events if isinstance(event, TransactionEnded)]


@pytest.mark.parametrize("committed", [True, False])
def test_the_end_of_a_transaction_is_an_event_of_each_group_with_offsets_in_it(committed: bool) -> None:
    written = Written()
    commit_in_transaction(written)
    ending = written.log.ending(Ending("tx", committed), 12)
    behind = written.log.request(beat(), 13)
    assert behind is not None
    behind.answered(HeartbeatResponse(), 14)
    assert ends(written) == []
    assert len(written.out) == 2, "who comes behind it waits"
    ending.decided(has_succeeded=True)
    assert ends(written) == [(7, committed)]
    assert [None if event.key is None else event.time_ms for event in written.out] == [None, 10, None, 12, None, 13]
    written.log.ending(Ending("tx", committed=True), 15).decided(has_succeeded=True)
    assert len(ends(written)) == 1, "what has no offsets needs no end"


def test_an_end_that_brokers_refuse_is_none_and_one_without_an_answer_is_in_doubt() -> None:
    """Until the same producer hears of it; another one with its name learns only that it has ended."""
    for heard, told in ((Ending("tx", committed=True), [(7, True)]), (Ending("tx", committed=False), [])):
        written = Written()
        commit_in_transaction(written)
        written.log.ending(Ending("tx", committed=True), 12).decided(has_succeeded=False)
        written.log.ending(Ending("tx", committed=True), 13).ended()
        assert ends(written) == []
        written.log.ending(heard, 14).decided(has_succeeded=True)
        assert ends(written) == told


def test_a_commit_that_the_transaction_has_no_place_for_is_no_event_of_the_group() -> None:
    written = Written()
    commit_in_transaction(written, ErrorCode.INVALID_PRODUCER_EPOCH)
    written.log.ending(Ending("tx", committed=True), 12).decided(has_succeeded=True)
    assert (written.out, written.log.set_aside) == ([], 1)
    commit_in_transaction(written, ErrorCode.ILLEGAL_GENERATION)
    assert written.said == [10, ("g", "TxnOffsetCommit", None)], "this one the group has refused"


def test_what_is_no_event() -> None:
    written = Written()
    assert written.log.request(pending("FindCoordinator", FindCoordinatorRequest(coordinator_keys=("g",))), 10) is None
    assert written.out == []


def test_every_event_can_be_handled() -> None:
    written = Written()
    tapped = written.log.request(beat(), 10)
    assert tapped is not None
    tapped.answered(HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), 15)
    envelope, request = decode_request_event("g", written.out[1].value)
    assert (envelope.client_host, envelope.client_id, envelope.api_version) == ("/10.0.0.1", "c", 4)
    assert request == beat().request
    answer, response = decode_response_event(written.answers[0].value)
    assert (answer.request_id, answer.time_ms, response) == (
        envelope.request_id, 15, HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS),
    )  # fmt: skip


def test_requests_behind_one_without_an_answer_are_bounded_in_bytes() -> None:
    """A JoinGroup may wait for minutes, and megabytes may come behind it:
    then the order of arrival is kept, and its id is not known."""
    written = Written()
    written.log.request(join(), 1)
    for number in range(80):
        tapped = written.log.request(msgspec.structs.replace(beat(f"g{number}"), size=1_000_000), 2 + number)
        assert tapped is not None
        tapped.answered(HeartbeatResponse(), 3 + number)
    requests = [entry for entry in written.said if not isinstance(entry, int)]
    assert requests[0] == ("g", "JoinGroup", None)
    assert [entry[0] for entry in requests[1:]] == [f"g{number}" for number in range(80)]
    assert written.log.waiting_bytes == 0


def test_a_new_consumer_member_is_replayed_with_the_id_that_the_broker_gave_it() -> None:
    """Version 0 of its heartbeat; in version 1 it brings an id of its own."""
    written = Written()
    for member_id in ("", "own"):
        request = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=0)
        tapped = written.log.request(pending("ConsumerGroupHeartbeat", request, version=0), 10)
        assert tapped is not None
        tapped.answered(ConsumerGroupHeartbeatResponse(member_id=member_id or "given", member_epoch=1), 11)
    assert written.said == [10, ("g", "ConsumerGroupHeartbeat", "given"), ("g", "ConsumerGroupHeartbeat", None)]
    assert [decode_response_event(answer.value)[0].api for answer in written.answers] == ["ConsumerGroupHeartbeat"] * 2


def test_consumer_groups_are_described_one_by_one() -> None:
    written = Written()
    request = ConsumerGroupDescribeRequest(group_ids=("a", "b"))
    tapped = written.log.request(pending("ConsumerGroupDescribe", request, version=1), 10)
    assert tapped is not None
    groups = (
        DescribedConsumerGroup(group_id="a", error_code=ErrorCode.NOT_COORDINATOR),
        DescribedConsumerGroup(group_id="b", group_state="Stable"),
    )
    tapped.answered(ConsumerGroupDescribeResponse(groups=groups), 11)
    assert written.said == [10, ("b", "ConsumerGroupDescribe", None)], "the other's coordinator was never asked"
    assert written.log.set_aside == 1
    (answer,) = written.answers
    assert decode_response_event(answer.value)[1] == ConsumerGroupDescribeResponse(groups=groups[1:])


def modern_beat(*names: str, epoch: int = 0, regex: str | None = None) -> PendingRequest:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=epoch, subscribed_topic_names=names or None,
        subscribed_topic_regex=regex,
    )  # fmt: skip
    return pending("ConsumerGroupHeartbeat", request, version=1)


def test_a_heartbeat_that_names_topics_waits_for_what_they_are_and_brings_it_along() -> None:
    written = Written()
    joining, keeping = written.log.request(modern_beat("orders"), 10), written.log.request(modern_beat(epoch=1), 11)
    assert joining is not None
    assert keeping is not None
    for tapped in (joining, keeping):
        tapped.answered(ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1), 12)
    assert written.said == []
    ((names, regex, on_topics),) = written.questions
    assert (names, regex) == (("orders",), None)
    told = TopicMetadata(version=7, topics=(ORDERS,))
    on_topics(FoundTopics(version=7, metadata=told))
    first, second = [decode_request_event("g", event.value)[0] for event in written.out if event.key is not None]
    assert (first.topic_metadata, second.topic_metadata) == (told, msgspec.UNSET)


def test_what_an_expression_matches_is_an_event_behind_the_heartbeat_that_brings_it() -> None:
    written = Written()
    tapped = written.log.request(modern_beat(regex="ord.*"), 10)
    assert tapped is not None
    tapped.answered(ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1), 12)
    ((names, regex, on_topics),) = written.questions
    assert (names, regex) == ((), "ord.*")
    on_topics(FoundTopics(version=7, metadata=TopicMetadata(version=7, topics=(ORDERS,)), matching=("orders",)))
    tick, _, resolved = written.out
    assert decode_tick(tick.value).clock_ms == 10
    assert decode_group_event("g", resolved.value) == RegexesResolved(
        version=7, resolved={"ord.*": ("orders",)}, began_ms=10
    )


def test_a_heartbeat_is_recorded_without_topics_where_nobody_tells_them() -> None:
    written = Written()
    tapped = written.log.request(modern_beat("orders"), 10)
    assert tapped is not None
    written.questions[0][2](FoundTopics())
    assert written.said == [], "nor is it answered"
    tapped.ended()
    assert written.said == [10, ("g", "ConsumerGroupHeartbeat", None)]


ORDERS = DescribedTopic(name="orders", topic_id="00000000-0000-0000-0000-000000000001", partitions=(("a",), ("",)))


def test_what_is_known_of_named_topics() -> None:
    topics = {"orders": ORDERS, "gone": None, "others": ORDERS}
    assert topic_metadata(3, ("gone", "orders", "hidden", "orders"), topics) == TopicMetadata(
        version=3, topics=(ORDERS,), absent=("gone",)
    )
    assert topic_metadata(3, ("hidden",), topics) is msgspec.UNSET


def test_topics_that_do_not_fit_beside_a_request_are_left_out(caplog: pytest.LogCaptureFixture) -> None:
    large = {
        name: msgspec.structs.replace(ORDERS, name=name, partitions=(("rack",),) * 10_000) for name in ("a", "b", "c")
    }
    assert topic_metadata(3, large, large) == TopicMetadata(version=3, topics=(large["a"], large["b"]))
    assert "lacks c" in caplog.text
