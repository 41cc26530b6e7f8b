"""Heartbeats of settled members of consumer groups (KIP-848) are answered before the coordinator has answered them.

Every heartbeat goes to the log all the same. In this protocol an answer may carry news for its member: another epoch,
other partitions. A member that was told "as before" has missed them, and would be fenced if it went on as it does.
These rules make it safe:

- Only a member that says nothing new is answered, if the coordinator's last answer to it was "as before", and the group
  as last published is Stable in the member's epoch and has the member. So the coordinator, as far as it is known, would
  say the same.
- While the coordinator's answer to such a heartbeat is awaited, the member's next one waits. So one answer at the most
  is missed. The time that it waits counts against `consumer_heartbeat_timeout_ms`: librdkafka forgets a heartbeat that
  has no answer within the interval.
- If it had news, the next heartbeat goes on in the epoch that the member missed: to the coordinator it is a member
  that has heard the news and not yet acted upon them. It is told the news when the coordinator has answered. If that
  answer has news again, they are told with the heartbeat after it: a member that is told two changes as one might see
  none, and would never say that it gave up what it never knew it had. Only a member that says what it owns is told
  the latest at once, since the coordinator has decided by what it owns.
- If it did not come, or found no room, or the gateway has begun anew, or the member comes by another connection and
  another gateway may have answered it meanwhile, nobody knows what the member has missed. Its next heartbeat is
  answered COORDINATOR_NOT_AVAILABLE, if it does not say everything. Upon that, clients do, and Kafka's rule for a lost
  answer holds (the epoch before, with nothing owned that is not assigned).
- News are told only in the epoch in which they were missed: who speaks of another has heard later ones elsewhere.
- Nobody is fenced or refused here for any other reason. One case is left: a gateway that goes, or that a member leaves
  for another one, while it knows of news that the member has missed, and the group has changed once more. The member is
  fenced, and joins anew.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from group_coordinator.gateway.digests import digest
from group_coordinator.gateway.published_groups import PublishedGroup
from group_coordinator.gateway.refusals import refusal
from schemas.consumer_group_messages import (
    JOIN_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from schemas.error_codes import ErrorCode
from schemas.messages import Response

_MEMBERS_MAX = 100_000
"""Some 250 bytes each, besides the answers that they have missed."""
_NEWS_BYTES_MAX = 64 * 2**20
_ANSWER_BYTES = 500
_TOPIC_BYTES = 300
_PARTITION_BYTES = 40
"""What an answer, and each topic and partition in it, takes in memory at the most."""
_STABLE = "Stable"
_NO_TIMEOUT = -1
_IN_DOUBT = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)
_REFUSES_REQUEST = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        ErrorCode.UNSUPPORTED_ASSIGNOR,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
        ErrorCode.MESSAGE_TOO_LARGE,
    }
)
"""The member stays what it was."""
OnAnswer = Callable[[Response], None]
Send = Callable[[ConsumerGroupHeartbeatRequest, OnAnswer], None]


class _Member(Struct):
    """What one member has been told."""

    key: bytes
    """Its digest."""
    connection: int
    """By which it came the last time."""
    epoch: int = 0
    interval_ms: int = 0
    is_settled: bool = False
    """The coordinator's last answer was: as before."""
    news: ConsumerGroupHeartbeatResponse | None = None
    """An answer of the coordinator that the member has missed."""
    is_in_doubt: bool = False
    """It may have missed an answer that is not known here."""
    is_awaited: bool = False
    """A heartbeat that was answered here has no answer of the coordinator yet."""
    waiting: list[Callable[[], None]] = []
    """Its later heartbeats."""


class ConsumerHeartbeatCache:
    """The cache is pure: it keeps what members were told, and knows no time."""

    def __init__(
        self, published: Callable[[str], PublishedGroup | None], news_bytes_max: int = _NEWS_BYTES_MAX
    ) -> None:
        """`published` returns a group as last published. `news_bytes_max` is for answers that members have missed."""
        self._published = published
        self._news_bytes_max = news_bytes_max
        self._news_bytes = 0
        self._members: dict[bytes, _Member] = {}
        """By digest of group and member."""

    def __len__(self) -> int:
        return len(self._members)

    @property
    def news_bytes(self) -> int:
        """The memory that the answers take which members have missed, at the most."""
        return self._news_bytes

    def ask(
        self, request: ConsumerGroupHeartbeatRequest, send: Send, on_answer: OnAnswer, connection: int = 0
    ) -> None:
        """Answer a heartbeat, now or when the coordinator has answered; `send` asks the coordinator."""
        key = digest(request.group_id, request.member_id)
        if request.member_epoch < JOIN_EPOCH or not request.member_id:
            self._forget(key)
            send(request, on_answer)
            return
        member = self._members.get(key)
        if member is None or request.member_epoch == JOIN_EPOCH:
            member = self._begin(_Member(key, connection, is_in_doubt=request.member_epoch != JOIN_EPOCH))
        elif member.connection != connection:
            member.connection, member.is_in_doubt = connection, True
        if member.is_awaited:
            member.waiting.append(lambda: self._go_on(member, request, send, on_answer))
        else:
            self._go_on(member, request, send, on_answer)

    def _begin(self, member: _Member) -> _Member:
        self._forget(member.key)
        self._members[member.key] = member
        if len(self._members) > _MEMBERS_MAX:
            self._forget(next(iter(self._members)))
        return member

    def _forget(self, key: bytes) -> None:
        member = self._members.pop(key, None)
        if member is not None:
            self._news_bytes -= _bytes_of(member.news)

    def _keep_news(self, member: _Member, news: ConsumerGroupHeartbeatResponse | None) -> None:
        """Keep an answer that a member has missed; None: it has missed none."""
        is_there = self._members.get(member.key) is member
        if is_there:
            self._news_bytes -= _bytes_of(member.news)
        size = _bytes_of(news)
        if news is not None and not (is_there and self._news_bytes + size <= self._news_bytes_max):
            member.is_in_doubt, news, size = True, None, 0
        member.news = news
        self._news_bytes += size

    def _go_on(
        self, member: _Member, request: ConsumerGroupHeartbeatRequest, send: Send, on_answer: OnAnswer
    ) -> None:
        if member.is_in_doubt:
            member.is_in_doubt = False  # who does not say everything when it is asked to goes to the coordinator
            if not _says_everything(request):
                on_answer(refusal(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
                return
        if self._knows_answer(member, request):
            member.is_awaited = True
            as_before = ConsumerGroupHeartbeatResponse(
                member_id=request.member_id, member_epoch=member.epoch, heartbeat_interval_ms=member.interval_ms
            )
            on_answer(as_before)
            send(request, lambda answer: self._hear_late(member, request, answer))
            return
        if member.news is not None:
            if request.member_epoch == member.epoch:
                request = replace(request, member_epoch=member.news.member_epoch)
            else:
                self._keep_news(member, None)
        says_what_it_owns = request.topic_partitions is not None
        send(request, lambda answer: self._hear(member, says_what_it_owns, answer, on_answer))

    def _knows_answer(self, member: _Member, request: ConsumerGroupHeartbeatRequest) -> bool:
        if not member.is_settled or request.member_epoch != member.epoch or not _says_nothing(request):
            return False
        group = self._published(request.group_id)
        return (
            group is not None
            and group.is_consumer_group
            and group.state == _STABLE
            and group.generation_id == member.epoch
            and any(
                each.member_id == request.member_id
                and (request.instance_id is None or request.instance_id == each.group_instance_id)
                for each in group.members
            )
        )

    def _hear(self, member: _Member, says_what_it_owns: bool, answer: Response, on_answer: OnAnswer) -> None:
        """Take the coordinator's answer to a heartbeat that waits for it."""
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        if answer.error_code is ErrorCode.NONE:
            if member.news is not None:
                answer, news = _in_turn(member.news, answer, says_what_it_owns)
                self._keep_news(member, news)
            member.is_settled = answer.assignment is None and answer.member_epoch == member.epoch
            member.epoch, member.interval_ms = answer.member_epoch, answer.heartbeat_interval_ms
        else:
            member.is_settled = False
            if answer.error_code not in _IN_DOUBT | _REFUSES_REQUEST:
                self._keep_news(member, None)
        on_answer(answer)

    def _hear_late(self, member: _Member, request: ConsumerGroupHeartbeatRequest, answer: Response) -> None:
        """Take the coordinator's answer to a heartbeat that was answered here."""
        assert isinstance(answer, ConsumerGroupHeartbeatResponse)
        member.is_awaited = False
        if answer.error_code in _IN_DOUBT:
            member.is_settled, member.is_in_doubt = False, True
        elif answer.error_code is not ErrorCode.NONE:
            member.is_settled = False  # the coordinator will say so again
        elif answer.assignment is not None or answer.member_epoch != request.member_epoch:
            member.is_settled = False
            self._keep_news(member, answer)
        else:
            member.interval_ms = answer.heartbeat_interval_ms  # the group's settings may have changed
        waiting, member.waiting = member.waiting, []
        while waiting and not member.is_awaited:
            waiting.pop(0)()
        member.waiting = waiting + member.waiting


def _in_turn(
    news: ConsumerGroupHeartbeatResponse, answer: ConsumerGroupHeartbeatResponse, says_what_it_owns: bool
) -> tuple[ConsumerGroupHeartbeatResponse, ConsumerGroupHeartbeatResponse | None]:
    """Return what a member is told that has missed the news, and what it is told the next time."""
    if answer.assignment is None and answer.member_epoch == news.member_epoch:
        return replace(answer, assignment=news.assignment), None
    if says_what_it_owns:
        return (replace(answer, assignment=news.assignment) if answer.assignment is None else answer), None
    return news, answer


def _bytes_of(answer: ConsumerGroupHeartbeatResponse | None) -> int:
    """Return what an answer takes in memory, at the most."""
    if answer is None:
        return 0
    topics = () if answer.assignment is None else answer.assignment.topic_partitions
    names = 4 * len(answer.member_id or "")
    return _ANSWER_BYTES + names + sum(_TOPIC_BYTES + _PARTITION_BYTES * len(topic.partitions) for topic in topics)


def _says_nothing(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat says nothing but that its member is there."""
    return (
        request.topic_partitions is None
        and request.subscribed_topic_names is None
        and request.subscribed_topic_regex is None
        and request.server_assignor is None
        and request.rack_id is None
        and request.rebalance_timeout_ms == _NO_TIMEOUT
    )


def _says_everything(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether the coordinator tells the member all that it is to have: Kafka's full request."""
    return (
        request.topic_partitions is not None
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and request.rebalance_timeout_ms != _NO_TIMEOUT
    )
