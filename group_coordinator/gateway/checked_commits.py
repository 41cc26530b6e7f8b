"""A commit for a topic or partition that the brokers do not have is refused here, as a broker does.

Other commits get the topic's id, so that offsets of a deleted topic differ from those of a new one under its name. A
commit may have to wait until brokers have answered. Later requests of its group wait behind it, so that the log keeps
the order of each connection.
"""

from __future__ import annotations

from collections import deque
from typing import cast

from msgspec.structs import replace

from group_coordinator.gateway.refusals import refusal
from group_coordinator.gateway.request_router import CoordinatorClient, GroupEvent, OnAnswer
from group_coordinator.gateway.topic_cache import Absent, Answers, Topic, TopicCache
from schemas.error_codes import ErrorCode
from schemas.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    Response,
)

_WAITING_BYTES_MAX = 16_777_216
"""Requests that wait, of all groups together, by their bytes on the wire; what is beyond is to come again."""
_REQUEST_BYTES = 1_000
"""What a request takes beside them, about."""


class CheckedCommits:
    """This coordinator client (`group_coordinator.gateway.request_router.CoordinatorClient`) checks the topics of
    commits."""

    def __init__(self, coordinator: CoordinatorClient, topics: TopicCache) -> None:
        self._coordinator = coordinator
        self._topics = topics
        self._waiting: dict[str, deque[tuple[GroupEvent, OnAnswer]]] = {}
        """What waits behind a commit that waits for brokers, by group."""
        self._waiting_bytes = 0

    def ask(self, event: GroupEvent, on_answer: OnAnswer) -> None:
        """Send an event; `on_answer` is called once, now or later."""
        waiting = self._waiting.get(event.group_id)
        if waiting is None:
            if not self._send(event, on_answer):
                self._waiting[event.group_id] = deque()
        elif self._is_full(event):
            on_answer(_come_again(event))
        else:
            self._waiting_bytes += _size(event)
            waiting.append((event, on_answer))

    def _is_full(self, event: GroupEvent) -> bool:
        return self._waiting_bytes + _size(event) > _WAITING_BYTES_MAX

    def _send(self, event: GroupEvent, on_answer: OnAnswer) -> bool:
        """Send an event; False if it has to wait for brokers."""
        request = event.request
        if isinstance(request, OffsetCommitRequest) and request.topics:
            return self._check(event, request, on_answer)
        self._coordinator.ask(event, on_answer)
        return True

    def _check(self, event: GroupEvent, request: OffsetCommitRequest, on_answer: OnAnswer) -> bool:
        """Send a commit as far as its topics exist, or refuse it; False if it has to wait for brokers."""
        largest_partitions: dict[str, int] = {}
        for topic in request.topics:
            largest = max((partition.partition_index for partition in topic.partitions), default=-1)
            largest_partitions[topic.name] = max(largest, largest_partitions.get(topic.name, -1))

        def commit_and_release(topics: Answers) -> None:
            self._waiting_bytes -= _size(event)
            self._commit(event, request, topics, on_answer)
            self._release(event.group_id)

        topics = self._topics.known(largest_partitions)
        if topics is not None:
            self._commit(event, request, topics, on_answer)
            return True
        if self._is_full(event) or not self._topics.look_up(largest_partitions, commit_and_release):
            on_answer(_come_again(event))
            return True
        self._waiting_bytes += _size(event)
        return False

    def _release(self, group_id: str) -> None:
        """Send what waited, up to the next commit that must wait itself."""
        waiting = self._waiting[group_id]
        while waiting:
            event, on_answer = waiting.popleft()
            self._waiting_bytes -= _size(event)
            if not self._send(event, on_answer):
                return
        del self._waiting[group_id]

    def _commit(self, event: GroupEvent, request: OffsetCommitRequest, topics: Answers, on_answer: OnAnswer) -> None:
        accepted = tuple(
            replace(
                topic,
                topic_id=verdict.topic_id if isinstance(verdict := topics[topic.name], Topic) else topic.topic_id,
                partitions=partitions,
            )
            for topic in request.topics
            if (partitions := tuple(partition for partition in topic.partitions if _exists(topics, topic, partition)))
        )
        if sum(len(topic.partitions) for topic in accepted) == sum(len(topic.partitions) for topic in request.topics):
            self._coordinator.ask(replace(event, request=replace(request, topics=accepted)), on_answer)
        elif not accepted:
            on_answer(_answer(request, topics, OffsetCommitResponse()))
        else:
            accepted_event = replace(event, request=replace(request, topics=accepted))
            self._coordinator.ask(
                accepted_event, lambda answer: on_answer(_answer(request, topics, cast(OffsetCommitResponse, answer)))
            )


def _size(event: GroupEvent) -> int:
    return event.size + _REQUEST_BYTES


def _come_again(event: GroupEvent) -> Response:
    """Refuse with a code upon which clients ask again."""
    return refusal(event.request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _exists(topics: Answers, topic: OffsetCommitRequestTopic, partition: OffsetCommitRequestPartition) -> bool:
    """Return whether a partition exists. An unknown one counts as existing: only what the brokers deny is refused."""
    verdict = topics[topic.name]
    if isinstance(verdict, Topic):
        return 0 <= partition.partition_index < verdict.partitions
    return not isinstance(verdict, Absent)


def _answer(request: OffsetCommitRequest, topics: Answers, answer: OffsetCommitResponse) -> OffsetCommitResponse:
    """The coordinator's answer, with the partitions that it was not asked about, all in the order of the request."""
    answered_partitions = iter([partition for topic in answer.topics for partition in topic.partitions])
    return replace(
        answer,
        topics=tuple(
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=tuple(
                    next(answered_partitions)
                    if _exists(topics, topic, partition)
                    else OffsetCommitResponsePartition(partition.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
