"""Commits on their way to the coordinator: topics that the brokers do not have are refused, ids go with the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from msgspec.structs import replace

from group_coordinator.coordinating.gateway.checked_offsets import CheckedOffsets
from group_coordinator.coordinating.gateway.group_events import GroupEvent
from group_coordinator.coordinating.gateway.topic_cache import ABSENT, UNKNOWN, Answers, Topic, TopicCache
from schemas.error_codes import ErrorCode
from schemas.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
    Request,
    Response,
)
from tests.coordinating.gateway.filtered_connections import SECRET, access

ID = "00000000-0000-0000-0000-000000000001"
NONE, UNKNOWN_TOPIC, LOADING, REFUSED = (
    ErrorCode.NONE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
)


class Book:
    """Answers at once, or when told."""

    def __init__(self, **topics: object) -> None:
        self.topics = topics
        self.at_once = True
        self.waiting: list[Callable[[Answers], None]] = []
        self.is_full = False

    is_busy = False

    def known(self, largest_partitions: dict[str, int], *, at_present: bool = False) -> Answers | None:
        return cast(Answers, self.topics) if self.at_once or not largest_partitions else None

    def look_up(
        self, largest_partitions: dict[str, int], on_known: Callable[[Answers], None], *, at_present: bool = False
    ) -> bool:
        if not self.is_full:
            self.waiting.append(on_known)
        return not self.is_full

    def answer(self) -> None:
        self.waiting.pop(0)(cast(Answers, self.topics))


class Bench:
    def __init__(self, **topics: object) -> None:
        self.book = Book(**topics)
        self.sent: list[tuple[GroupEvent, Callable[[Response], None]]] = []
        self.answers: list[Response] = []
        self.commits = CheckedOffsets(self, cast(TopicCache, self.book), access())

    def ask(self, event: GroupEvent, on_answer: Callable[[Response], None]) -> None:
        """The coordinator's side."""
        self.sent.append((event, on_answer))

    def say(self, request: Request, group_id: str = "g", size: int = 100) -> None:
        event = GroupEvent(
            group_id=group_id, api=type(request).__name__.removesuffix("Request"), api_version=9, client_id="c",
            client_host="/127.0.0.1", new_member_id=None, request=request, size=size,
        )  # fmt: skip
        self.commits.ask(event, self.answers.append)

    def accept(self) -> None:
        """The coordinator takes the latest commit whole."""
        event, on_answer = self.sent[-1]
        request = event.request
        assert isinstance(request, OffsetCommitRequest)
        on_answer(
            OffsetCommitResponse(
                topics=tuple(
                    OffsetCommitResponseTopic(
                        name=topic.name,
                        partitions=tuple(
                            OffsetCommitResponsePartition(partition.partition_index) for partition in topic.partitions
                        ),
                    )
                    for topic in request.topics
                )
            )
        )

    @property
    def codes(self) -> list[tuple[str, int, ErrorCode]]:
        (answer,) = self.answers
        assert isinstance(answer, OffsetCommitResponse)
        return [
            (topic.name, partition.partition_index, partition.error_code)
            for topic in answer.topics
            for partition in topic.partitions
        ]


def commit(*topics: tuple[str, tuple[int, ...]]) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id="g",
        topics=tuple(
            OffsetCommitRequestTopic(
                name=name,
                partitions=tuple(
                    OffsetCommitRequestPartition(partition_index=index, committed_offset=7) for index in each_of
                ),
            )
            for name, each_of in topics
        ),
    )


def test_what_the_brokers_have_goes_on_with_its_topics_id() -> None:
    bench = Bench(t=Topic(ID, 2), old=Topic(None, 1))
    request = commit(("t", (0, 1)), ("old", (0,)))
    bench.say(request)
    sent = bench.sent[0][0].request
    assert sent == replace(request, topics=(replace(request.topics[0], topic_id=ID), request.topics[1]))
    bench.accept()
    assert [code for _, _, code in bench.codes] == [NONE] * 3


def test_topics_and_partitions_that_are_not_there_are_refused_each_by_itself_and_come_first() -> None:
    bench = Bench(gone=ABSENT, t=Topic(ID, 2))
    bench.say(commit(("gone", (0,)), ("t", (5, 1, -1, 0)), ("gone", (3,)), ("t", (2,))))
    sent = bench.sent[0][0].request
    assert isinstance(sent, OffsetCommitRequest)
    assert [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in sent.topics] == [
        ("t", [1, 0])
    ]
    bench.accept()
    assert bench.codes == [
        ("gone", 0, UNKNOWN_TOPIC), ("gone", 3, UNKNOWN_TOPIC), ("t", 5, UNKNOWN_TOPIC), ("t", -1, UNKNOWN_TOPIC),
        ("t", 2, UNKNOWN_TOPIC), ("t", 1, NONE), ("t", 0, NONE),
    ]  # fmt: skip


def test_where_nothing_is_left_the_coordinator_is_not_asked() -> None:
    """Kafka looks at topics first: who commits is not even looked at."""
    bench = Bench(gone=ABSENT)
    bench.say(commit(("gone", (0, 1))))
    assert bench.sent == []
    assert bench.codes == [("gone", 0, UNKNOWN_TOPIC), ("gone", 1, UNKNOWN_TOPIC)]


def test_in_doubt_nothing_is_refused() -> None:
    bench = Bench(t=UNKNOWN)
    request = commit(("t", (9,)))
    bench.say(request)
    assert bench.sent[0][0].request == request


def test_other_requests_and_empty_commits_go_through() -> None:
    bench = Bench()
    for request in (
        HeartbeatRequest(group_id="g", generation_id=1, member_id="m"),
        OffsetCommitRequest(group_id="g", topics=()),
    ):
        bench.say(request)
        assert bench.sent[-1][0].request == request


def test_what_a_group_says_behind_a_commit_that_waits_keeps_its_place() -> None:
    bench = Bench(t=Topic(ID, 1))
    bench.book.at_once = False
    first, second = commit(("t", (0,))), commit(("t", (0,)))
    leave = LeaveGroupRequest(group_id="g", members=())
    for request in (first, leave, second, leave):
        bench.say(request)
    bench.say(leave, "another")
    assert [event.group_id for event, _ in bench.sent] == ["another"], "others do not wait"
    bench.book.answer()
    assert [event.api for event, _ in bench.sent[1:]] == ["OffsetCommit", "LeaveGroup"], "up to the next that must wait"
    bench.say(leave)
    bench.book.answer()
    assert [event.api for event, _ in bench.sent[3:]] == ["OffsetCommit", "LeaveGroup", "LeaveGroup"]
    bench.say(leave)
    assert len(bench.sent) == 7, "nothing waits any more"


def test_order_holds_when_an_answer_at_once_brings_the_next_request() -> None:
    """An answer makes room on its connection, whose next request is then asked within the answer."""
    bench = Bench(t=Topic(ID, 1), gone=ABSENT)
    bench.book.at_once = False
    bench.say(commit(("gone", (0,))))
    bench.say(HeartbeatRequest(group_id="g", generation_id=1, member_id="first"))
    refused, bench.answers = bench.answers, _Talking(bench)
    bench.book.answer()
    assert refused, "the commit is answered here"
    bench.say(commit(("gone", (0,))))
    bench.say(HeartbeatRequest(group_id="g", generation_id=1, member_id="third"))
    bench.book.answer()
    said = [event.request.member_id for event, _ in bench.sent]  # type: ignore[union-attr]
    assert said == ["first", "third", "said within an answer"]


class _Talking(list[Response]):
    def __init__(self, bench: Bench) -> None:
        super().__init__()
        self._bench = bench

    def append(self, answer: Response) -> None:
        super().append(answer)
        self._bench.say(HeartbeatRequest(group_id="g", generation_id=1, member_id="said within an answer"))


def test_topics_that_the_client_may_not_name_are_refused_in_every_request() -> None:
    """Topics that do not exist may be deleted from: what went unseen leaves its offsets."""
    bench = Bench(t=Topic(ID, 1))
    bench.say(commit((SECRET, (0,)), ("t", (0,))))
    bench.accept()
    assert bench.codes == [(SECRET, 0, REFUSED), ("t", 0, NONE)]
    bench.say(
        OffsetDeleteRequest(
            group_id="g",
            topics=tuple(
                OffsetDeleteRequestTopic(name=name, partitions=(OffsetDeleteRequestPartition(partition_index=3),))
                for name in (SECRET, "gone")
            ),
        )
    )
    deletion, on_answer = bench.sent[-1]
    assert isinstance(deletion.request, OffsetDeleteRequest)
    assert [topic.name for topic in deletion.request.topics] == ["gone"]
    on_answer(OffsetDeleteResponse())
    deleted = bench.answers[-1]
    assert isinstance(deleted, OffsetDeleteResponse)
    assert [(topic.name, topic.partitions[0].error_code) for topic in deleted.topics] == [(SECRET, REFUSED)]
    fetches = (None, (OffsetFetchRequestTopic(name=SECRET, partition_indexes=(0,)),))
    stored = OffsetFetchResponseTopic(
        name=SECRET, partitions=(OffsetFetchResponsePartition(partition_index=0, committed_offset=1),)
    )
    for topics, coordinators, told in ((fetches[0], (stored,), []), (fetches[1], (), [REFUSED])):
        bench.say(OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=topics),)))
        bench.sent[-1][1](OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", topics=coordinators),)))
        answer = bench.answers[-1]
        assert isinstance(answer, OffsetFetchResponse)
        assert [topic.partitions[0].error_code for topic in answer.groups[0].topics] == told


def test_too_much_to_ask_for_is_to_come_again() -> None:
    bench = Bench()
    bench.book.at_once, bench.book.is_full = False, True
    bench.say(commit(("t", (0,))))
    assert bench.codes == [("t", 0, LOADING)]


def test_what_waits_has_a_bound_in_bytes() -> None:
    bench = Bench(t=Topic(ID, 1))
    bench.book.at_once = False
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    bench.say(commit(("t", (0,))), size=8_000_000)
    for _ in range(10_000):
        bench.say(heartbeat, size=9_000)
    waiting = 10_000 - len(bench.answers)
    assert 500 < waiting < 1_000
    assert bench.answers == [HeartbeatResponse(error_code=LOADING)] * (10_000 - waiting)
    bench.answers.clear()
    bench.say(commit(("t", (0,))), "another", size=9_000)
    assert bench.codes == [("t", 0, LOADING)], "of all groups together"
    bench.book.answer()
    assert len(bench.sent) == 1 + waiting
    bench.say(commit(("t", (0,))), size=16_000_000)
    bench.book.answer()
    assert len(bench.sent) == 2 + waiting, "there is room again"
