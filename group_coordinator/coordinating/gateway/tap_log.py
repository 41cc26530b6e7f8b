"""A tap's log, without sockets and files: group requests in the order of their arrival, with ticks, and what was
answered.

A request for several groups becomes an event for each. Events are put out when they are answered, in the order in which
they came: a new member's JoinGroup must say which id the broker gave out, so that a replay gives out the same; and what
a broker refused because it did not (yet) coordinate the group, its coordinator never saw, so it is no event. A
consumer group's heartbeat that names topics also waits for what those topics are; which topics its expression matches
is an event behind it, as with a broker. So is the end of a transaction with offsets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.coordinating.gateway.group_configs import ConfigsRequest
from group_coordinator.coordinating.gateway.pending_request import PendingRequest
from group_coordinator.coordinating.gateway.request_ids import RequestIds
from group_coordinator.coordinating.gateway.tap_topics import FoundTopics, OnTopics
from group_coordinator.coordinating.gateway.tap_transactions import Ending, OpenTransactions
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from schemas.error_codes import ErrorCode
from schemas.events import ResponseDocument, encode_json, encode_request_event, encode_tick
from schemas.group_metadata_events import RegexesResolved
from schemas.message_versions import GroupResponse
from schemas.messages import (
    DeleteGroupsResponse,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    ListGroupsRequest,
    OffsetCommitResponse,
    OffsetFetchResponse,
    Request,
    Response,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from schemas.several_groups import by_group, one_per_group
from schemas.transaction_messages import AddOffsetsToTxnRequest

LookUp = Callable[[tuple[str, ...], str | None, OnTopics], None]
"""Names of topics and an expression, and what is called when it is known which topics these are."""
_WAITING_MAX = 100_000
_WAITING_BYTES_MAX = 67_108_864
"""Requests that wait for the answer to an earlier one, by their bytes on the wire. Beyond it the earliest are put
out as they are."""
_NOT_THE_COORDINATOR = frozenset(
    {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
)
_OF_THE_TRANSACTION = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_TXN_STATE, ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.PRODUCER_FENCED,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)  # fmt: skip
"""What the transaction coordinator, or the log, answers to TxnOffsetCommit: the group was not asked."""


class TappedEvent(Struct, frozen=True):
    """A record for the events topic: a request, or with a null key a tick."""

    time_ms: int
    key: bytes | None
    value: bytes


class TappedAnswer(Struct, frozen=True):
    """A record as on the responses topic: what the broker answered."""

    time_ms: int
    key: bytes
    value: bytes


class Tapped:
    """One request on its way; its connection says how it ends."""

    __slots__ = ("_log", "_parts", "_pending", "time_ms")

    def __init__(self, log: TapLog, pending: PendingRequest | None, time_ms: int, parts: list[_Part]) -> None:
        """`pending`: None: it is one after which a transaction has ended, and becomes events of other kinds."""
        self._log, self._pending, self.time_ms, self._parts = log, pending, time_ms, parts

    def answered(self, response: GroupResponse, time_ms: int) -> None:
        """Record the broker's answer."""
        assert self._pending is not None
        if isinstance(response, JoinGroupResponse | ConsumerGroupHeartbeatResponse):
            self._parts[0].new_member_id = response.member_id or None
        for part, answer in zip(self._parts, by_group(cast(Response, response)), strict=False):
            part.is_event = not _never_asked(answer)
            if part.is_event:
                self._log.answer(part, self._pending.api, self._pending.api_version, answer, time_ms)
        self.ended()

    def decided(self, has_succeeded: bool) -> None:
        """Record whether a transaction has ended."""
        self._parts[0].is_event = has_succeeded
        self.ended()

    def ended(self) -> None:
        """Record that there will be no answer."""
        for part in self._parts:
            part.waits_for_answer = False
        self._log.release()

    def look_up_topics(self, look_up: LookUp) -> None:
        """Find out what the topics are that a heartbeat names."""
        part, request = self._parts[0], self._parts[0].request
        if isinstance(request, ConsumerGroupHeartbeatRequest) and (
            request.subscribed_topic_names or request.subscribed_topic_regex
        ):
            part.waits_for_topics = True
            names = request.subscribed_topic_names or ()
            look_up(names, request.subscribed_topic_regex, partial(self._topics_found, part))

    def _topics_found(self, part: _Part, topics: FoundTopics) -> None:
        part.topics = topics
        part.waits_for_topics = False
        self._log.release()

    def encode(self, part: _Part) -> bytes:
        pending = self._pending
        assert pending is not None
        assert not isinstance(part.request, Ending)
        return encode_request_event(
            pending.api,
            pending.api_version,
            part.request,
            request_id=part.request_id,
            reply_partition=0,
            client_id=pending.client_id,
            client_host=f"/{pending.client_host}",
            new_member_id=part.new_member_id if part.is_new_member else None,
            topic_metadata=part.topics.metadata,
        )


class _Part:
    """One request to one group, or one after which a transaction has ended."""

    __slots__ = (
        "group_id", "is_event", "is_new_member", "new_member_id", "request", "request_id", "size", "topics",
        "waits_for_answer", "waits_for_topics",
    )  # fmt: skip

    def __init__(self, request_id: str, group_id: str, request: Request | Ending, size: int) -> None:
        self.group_id = group_id
        self.size = size
        self.request = request
        self.request_id = request_id
        self.is_new_member = (
            isinstance(request, JoinGroupRequest | ConsumerGroupHeartbeatRequest) and not request.member_id
        )
        self.waits_for_answer = True
        self.waits_for_topics = False
        self.is_event = not isinstance(request, Ending)  # such a one is, when it has succeeded
        self.new_member_id: str | None = None
        self.topics = FoundTopics()


class TapLog:
    """Puts events out in the order of arrival."""

    def __init__(
        self,
        on_event: Callable[[TappedEvent], None],
        on_answer: Callable[[TappedAnswer], None],
        look_up_topics: LookUp,
    ) -> None:
        self.events = 0
        self.set_aside = 0
        """Requests that the broker answered without asking its coordinator."""
        self._on_event = on_event
        self._on_answer = on_answer
        self._look_up_topics = look_up_topics
        self._request_ids = RequestIds()
        self._waiting: deque[tuple[Tapped, _Part]] = deque()
        self._waiting_bytes = 0
        self._clock_ms = 0
        self._answers = 0
        self._transactions = OpenTransactions()

    @property
    def waiting_bytes(self) -> int:
        """Bytes of requests that wait until those before them are answered."""
        return self._waiting_bytes

    def request(self, pending: PendingRequest, time_ms: int) -> Tapped | None:
        """Record a request; return None for one that is no event (FindCoordinator, ListGroups)."""
        request = pending.request
        if isinstance(request, FindCoordinatorRequest | ListGroupsRequest | AddOffsetsToTxnRequest | ConfigsRequest):
            return None
        requests = one_per_group(request)
        parts = [
            _Part(self._request_ids.new(), group_id, own, pending.size // len(requests)) for group_id, own in requests
        ]
        if not parts:
            return None
        tapped = Tapped(self, pending, time_ms, parts)
        self._waiting.extend((tapped, part) for part in parts)
        self._waiting_bytes += sum([part.size for part in parts])
        tapped.look_up_topics(self._look_up_topics)
        if self._is_full:
            self.release()
        return tapped

    def ending(self, ending: Ending, time_ms: int) -> Tapped:
        """Record a request after which a transaction has ended."""
        part = _Part("", "", ending, 0)
        tapped = Tapped(self, None, time_ms, [part])
        self._waiting.append((tapped, part))
        return tapped

    def answer(self, part: _Part, api: str, api_version: int, answer: Response, time_ms: int) -> None:
        self._answers += 1
        document = ResponseDocument(
            request_id=part.request_id,
            group_id=part.group_id,
            epoch=0,
            seq=self._answers,
            api=api,
            api_version=api_version,
            answers_offset=-1,  # the request may still wait for its place
            time_ms=time_ms,
            body=_named(answer, part.group_id),
        )
        self._on_answer(TappedAnswer(time_ms, part.request_id.encode(), encode_json(document)))

    def release(self, even_waiting: bool = False) -> None:
        """Put out what need not wait, up to the first that must; with `even_waiting` that too."""
        while self._waiting:
            tapped, part = self._waiting[0]
            waits = part.waits_for_answer or part.waits_for_topics
            if waits and not even_waiting and not self._is_full:
                return
            self._waiting.popleft()
            self._waiting_bytes -= part.size
            if isinstance(part.request, Ending):
                self._end_transaction(part.request, tapped.time_ms, has_succeeded=part.is_event)
                continue
            if not part.is_event:
                self.set_aside += 1
                continue
            self._put_out(tapped.time_ms, part.group_id, tapped.encode(part))
            self.events += 1
            self._resolve(part)
            if isinstance(part.request, TxnOffsetCommitRequest):
                self._transactions.wrote(part.request)

    def _put_out(self, time_ms: int, group_id: str, value: bytes) -> None:
        if time_ms > self._clock_ms:
            self._clock_ms = time_ms
            self._on_event(TappedEvent(self._clock_ms, None, encode_tick(self._clock_ms)))
        self._on_event(TappedEvent(self._clock_ms, group_id.encode(), value))

    def _end_transaction(self, ending: Ending, time_ms: int, *, has_succeeded: bool) -> None:
        if not has_succeeded:
            self._transactions.not_heard_of(ending)
            return
        for group_id, event in self._transactions.ended(ending):
            self._put_out(time_ms, group_id, encode_json(event))

    def _resolve(self, part: _Part) -> None:
        """Tell which topics match a heartbeat's expression: the broker finds that out when it has answered."""
        request, topics = part.request, part.topics
        if isinstance(request, ConsumerGroupHeartbeatRequest) and topics.matching is not None:
            assert request.subscribed_topic_regex is not None
            resolved = RegexesResolved(
                version=topics.version,
                resolved={request.subscribed_topic_regex: topics.matching},
                began_ms=self._clock_ms,
            )
            self._on_event(TappedEvent(self._clock_ms, part.group_id.encode(), encode_json(resolved)))

    @property
    def _is_full(self) -> bool:
        return len(self._waiting) > _WAITING_MAX or self._waiting_bytes > _WAITING_BYTES_MAX

    def end(self, time_ms: int) -> None:
        """Put out all there is, and a last tick."""
        self.release(even_waiting=True)
        if time_ms > self._clock_ms:
            self._clock_ms = time_ms
            self._on_event(TappedEvent(time_ms, None, encode_tick(time_ms)))


def _never_asked(answer: Response) -> bool:
    match answer:
        case OffsetCommitResponse() | TxnOffsetCommitResponse():
            codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
            if isinstance(answer, TxnOffsetCommitResponse) and not codes.isdisjoint(_OF_THE_TRANSACTION):
                return True
        case OffsetFetchResponse():
            codes = {group.error_code for group in answer.groups}
        case DescribeGroupsResponse():
            codes = {group.error_code for group in answer.groups}
        case DeleteGroupsResponse():
            codes = {result.error_code for result in answer.results}
        case ConsumerGroupDescribeResponse():
            codes = {group.error_code for group in answer.groups}
        case FindCoordinatorResponse():
            codes = set()
        case _:
            codes = {answer.error_code}
    return not codes.isdisjoint(_NOT_THE_COORDINATOR)


def _named(answer: Response, group_id: str) -> Response:
    """OffsetFetch before version 8 does not name the group that it answers."""
    if isinstance(answer, OffsetFetchResponse):
        return OffsetFetchResponse(groups=(replace(answer.groups[0], group_id=group_id),))
    return answer
