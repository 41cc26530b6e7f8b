"""Requests about offsets pass a broker's checks of their topics here
(`group_coordinator.coordinating.gateway.offset_topics`), and requests that join a group get what it must know of topics
(`group_coordinator.coordinating.gateway.joined_topics`).

Commits get the topic's id, so that offsets of a deleted topic differ from those of a new one under its name. A commit,
a fetch by ids and a join may have to wait until brokers have answered. Later requests of the group wait behind it, so
that the log keeps the order of each connection. What is fetched is shown without the offsets of topics that are gone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from msgspec.structs import replace

from group_coordinator.coordinating.gateway.group_events import GroupEvent, OnAnswer
from group_coordinator.coordinating.gateway.joined_topics import Attached, JoinedTopics, Joining
from group_coordinator.coordinating.gateway.offset_topics import (
    BY_ID_FROM,
    Commit,
    Rules,
    shown,
    split_commit,
    split_delete,
    split_fetch,
    with_offsets,
    with_refused,
    without_gone,
    without_id,
)
from group_coordinator.coordinating.gateway.refusals import refusal
from group_coordinator.coordinating.gateway.request_router import CoordinatorClient
from group_coordinator.coordinating.gateway.topic_access import TopicAccess
from group_coordinator.coordinating.gateway.topic_cache import Answers, TopicCache
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.error_codes import ErrorCode
from schemas.messages import (
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    Response,
    TxnOffsetCommitRequest,
)

_WAITING_BYTES_MAX = 16_777_216
"""Requests that wait, of all groups together, by their bytes on the wire; what is beyond is to come again."""
_REQUEST_BYTES = 1_000
"""What a request takes beside them, about."""


class CheckedOffsets:
    """This coordinator client (`group_coordinator.coordinating.gateway.request_router.CoordinatorClient`) checks the
    topics of requests about offsets."""

    def __init__(
        self,
        coordinator: CoordinatorClient,
        topics: TopicCache,
        access: TopicAccess,
        joined: JoinedTopics | None = None,
    ) -> None:
        """`access` knows which topics clients may name, `joined` what goes with requests that join a group; None:
        nothing."""
        self._coordinator = coordinator
        self._topics = topics
        self._access = access
        self._joined = joined
        self._waiting: dict[str, deque[tuple[GroupEvent, OnAnswer]]] = {}
        """What waits behind a request that waits for brokers, by group."""
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
        request, rules = event.request, self._rules(event)
        if isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest) and request.topics:
            largest_partitions: dict[str, int] = {}
            for topic in request.topics:
                if topic.name and not rules.refuses(topic.name):
                    largest = max((partition.partition_index for partition in topic.partitions), default=-1)
                    largest_partitions[topic.name] = max(largest, largest_partitions.get(topic.name, -1))
            return self._look_up(event, largest_partitions, on_answer)
        if isinstance(request, OffsetFetchRequest):
            (group,) = request.groups
            names = {topic.name: -1 for topic in group.topics or () if rules.by_id and topic.name}
            return self._look_up(event, names, on_answer)
        if self._joined is not None and isinstance(request, ConsumerGroupHeartbeatRequest | JoinGroupRequest):
            return self._join(event, request, self._joined, on_answer)
        self._send_checked(event, {}, on_answer)
        return True

    def _join(self, event: GroupEvent, request: Joining, joined: JoinedTopics, on_answer: OnAnswer) -> bool:
        """Send a request with what its group is to be told of topics; False if it has to wait for that."""
        since_s = joined.now_s()

        def send(attached: Attached) -> None:
            waited_ms = event.waited_ms + 1_000 * (joined.now_s() - since_s)
            self._coordinator.ask(replace(event, topic_metadata=attached, waited_ms=waited_ms), on_answer)

        def send_and_release(attached: Attached) -> None:
            self._waiting_bytes -= _size(event)
            send(attached)
            self._release(event.group_id)

        attached = joined.attached(request)
        if attached is not None or self._is_full(event):
            send(joined.as_published(request) if attached is None else attached)
            return True
        self._waiting_bytes += _size(event)
        joined.look_up(request, send_and_release)
        return False

    def _rules(self, event: GroupEvent, topics: Answers | None = None) -> Rules:
        return Rules(
            topics=topics or {},
            refuses=partial(self._access.refuses, event.principal),
            by_id=event.api_version >= BY_ID_FROM,
        )

    def _look_up(self, event: GroupEvent, largest_partitions: dict[str, int], on_answer: OnAnswer) -> bool:
        """Send a request when it is known which of its topics exist; False if it has to wait for that."""

        def send_and_release(topics: Answers) -> None:
            self._waiting_bytes -= _size(event)
            self._send_checked(event, topics, on_answer)
            self._release(event.group_id)

        topics = self._topics.known(largest_partitions, at_present=True)
        if topics is not None:
            self._send_checked(event, topics, on_answer)
            return True
        if self._is_full(event) or not self._topics.look_up(largest_partitions, send_and_release, at_present=True):
            on_answer(_come_again(event))
            return True
        self._waiting_bytes += _size(event)
        return False

    def _release(self, group_id: str) -> None:
        """Send what waited, up to the next request that must wait itself."""
        waiting = self._waiting[group_id]
        while waiting:
            event, on_answer = waiting.popleft()
            self._waiting_bytes -= _size(event)
            if not self._send(event, on_answer):
                return
        del self._waiting[group_id]

    # ------------------------------------------------------------------------------------------- to the coordinator

    def _send_checked(self, event: GroupEvent, topics: Answers, on_answer: OnAnswer) -> None:
        """Send a request as far as its topics pass."""
        request, rules = event.request, self._rules(event, topics)
        if isinstance(request, OffsetCommitRequest | TxnOffsetCommitRequest):
            self._commit(event, request, rules, on_answer)
        elif isinstance(request, OffsetFetchRequest):
            self._fetch(event, request, rules, on_answer)
        elif isinstance(request, OffsetDeleteRequest):
            kept, not_deleted = split_delete(request, rules)

            def take_deleted(answer: Response) -> None:
                deleted = cast(OffsetDeleteResponse, answer)
                on_answer(deleted if deleted.error_code else with_refused(not_deleted, deleted, rules))

            self._coordinator.ask(replace(event, request=kept), take_deleted)
        else:
            self._coordinator.ask(event, on_answer)

    def _commit(self, event: GroupEvent, request: Commit, rules: Rules, on_answer: OnAnswer) -> None:
        """As a broker does with its own: what the topics lack is refused before the log of transactions is asked."""
        passed, refused = split_commit(request, rules)
        if self._joined is not None:
            self._joined.tell_of(event.group_id, rules.topics)  # a topic that is seen may later be seen to be gone
        if request.topics and not passed.topics:
            on_answer(refused)
        else:
            self._coordinator.ask(
                replace(event, request=passed),
                lambda answer: on_answer(with_refused(refused, cast(Any, answer), rules)),
            )

    def _fetch(self, event: GroupEvent, request: OffsetFetchRequest, rules: Rules, on_answer: OnAnswer) -> None:
        (asked,) = request.groups
        passed, refused = split_fetch(asked, rules)

        def on_response(answer: Response) -> None:
            (group,) = cast(OffsetFetchResponse, answer).groups
            if group.error_code:
                on_answer(answer)
            else:
                self._check_present(event, group, reply)

        def reply(group: OffsetFetchResponseGroup) -> None:
            if asked.topics is None:
                self._show(event, OffsetFetchResponse(groups=(group,)), on_answer)
            else:
                on_answer(OffsetFetchResponse(groups=(replace(group, topics=(*group.topics, *refused)),)))

        fetch = replace(request, groups=(passed,), tells_committed_ids=True)
        self._coordinator.ask(replace(event, request=fetch), on_response)

    def _check_present(
        self, event: GroupEvent, group: OffsetFetchResponseGroup, reply: Callable[[OffsetFetchResponseGroup], None]
    ) -> None:
        """Reply without the offsets of topics that are gone, of which the group may not have heard yet. Where brokers
        are asked for very much already, they are not asked for this, too."""
        (asked,) = cast(OffsetFetchRequest, event.request).groups

        def take(topics: Answers) -> None:
            present, past_ids = without_gone(group, topics, all_topics=asked.topics is None)
            if past_ids and self._joined is not None:
                self._joined.tell_of_past(event.group_id, past_ids)
            reply(present)

        names = dict.fromkeys(with_offsets(group), -1)
        topics = self._topics.known(names, at_present=True)
        if topics is not None:
            take(topics)
        elif self._topics.is_busy or not self._topics.look_up(names, take, at_present=True):
            take({})

    def _show(self, event: GroupEvent, answer: OffsetFetchResponse, on_answer: OnAnswer) -> None:
        """Answer a fetch of all topics; where it must name them by ids, with those that brokers know."""
        (group,) = answer.groups

        def reply(topics: Answers) -> None:
            on_answer(OffsetFetchResponse(groups=(shown(group, self._rules(event, topics)),)))

        names = dict.fromkeys(without_id(group, self._rules(event)), -1)
        topics = self._topics.known(names)
        if topics is not None:
            reply(topics)
        elif not self._topics.look_up(names, reply):
            on_answer(_come_again(event))


def _size(event: GroupEvent) -> int:
    return event.size + _REQUEST_BYTES


def _come_again(event: GroupEvent) -> Response:
    """Refuse with a code upon which clients ask again."""
    return refusal(event.request, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
