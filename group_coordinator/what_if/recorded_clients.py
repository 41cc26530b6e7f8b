"""A log of events shows how a group's clients behaved: when each came, subscribed, was silent and ended.

A recorded client is a process with one member, over all the member ids that it was given. The log has only what clients
sent, so the coordinator handles the log once more: its answers show which member each client is under a new id.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from statistics import median_low

from msgspec import Struct, field

from coordinator_state import (
    Answer,
    GroupConfig,
    GroupCoordinator,
    GroupEvent,
    RecordedEvent,
    RequestEvent,
    group_event,
)
from schemas.consumer_protocol import decode_assignment, decode_subscription
from schemas.error_codes import ErrorCode
from schemas.events import EventError, decode_group_event
from schemas.messages import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupMember,
    LeaveGroupRequest,
    OffsetCommitRequest,
    SyncGroupRequest,
)
from schemas.recorded import RecordedLeader, RecordedLoad
from schemas.records_file import Record
from schemas.ticks import read_tick
from schemas.wire import DecodeError

CONSUMER = "consumer"
_POLL_TIMEOUT = "poll timeout"
"""What Kafka's clients say when they leave because nobody polls them."""
_SHORT_MS = 3_000
"""A silence below this is none: no session is as short."""
_LOST = (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID)

Span = tuple[int, int]


class WhatIfError(ValueError):
    """The log does not show how these clients behaved. The message is for people."""


class LogClock:
    """The clock that the ticks of a log gave, at any moment of append time; between two ticks it goes evenly."""

    def __init__(self, ticks: Iterable[Span]) -> None:
        """`ticks`: (append time, clock), in the order of the log."""
        self._times: list[int] = []
        self._clocks: list[int] = []
        for time_ms, clock_ms in ticks:
            if not self._times or (time_ms > self._times[-1] and clock_ms >= self._clocks[-1]):
                self._times.append(time_ms)
                self._clocks.append(clock_ms)

    def at(self, time_ms: int) -> int:
        """Return the clock at an append time."""
        return _between(self._times, self._clocks, time_ms)

    def when(self, clock_ms: int) -> int:
        """Return the append time at which the clock has come so far."""
        return _between(self._clocks, self._times, clock_ms)


def _between(xs: list[int], ys: list[int], x: int) -> int:
    if not xs:
        return x
    after = bisect_right(xs, x)
    if after == 0:
        return ys[0] - (xs[0] - x)
    before_x, before_y = xs[after - 1], ys[after - 1]
    if after == len(xs) or xs[after] == before_x:
        return before_y + (x - before_x)
    return before_y + (ys[after] - before_y) * (x - before_x) // (xs[after] - before_x)


class GroupLog(Struct, frozen=True, kw_only=True):
    """The part of a log of events that is one group's."""

    group_id: str
    partition: int
    events: tuple[GroupEvent, ...]
    clock: LogClock
    ends_ms: int


def group_log(records: Iterable[Record], group_id: str, ahead_max_ms: int) -> GroupLog:
    """Take what is this group's, and its clock, out of records of an events topic. Raises WhatIfError when there is
    nothing.

    `ahead_max_ms`: see `schemas.ticks.read_tick`.
    """
    key = group_id.encode()
    ticks: dict[int, list[Span]] = {}
    requests: list[Record] = []
    ends: dict[int, int] = {}
    for record in records:
        partition, time_ms = record.partition or 0, record.timestamp_ms or 0
        ends[partition] = max(ends.get(partition, 0), time_ms)
        if record.key is None:
            try:
                ticks.setdefault(partition, []).append(
                    (time_ms, read_tick(record.value, record.timestamp_ms, ahead_max_ms))
                )
            except EventError:
                continue
        elif record.key == key:
            requests.append(record)
    if not requests:
        raise WhatIfError(f"This log has no request of group {group_id}.")
    partition = requests[0].partition or 0
    clock = LogClock(ticks.get(partition, ()))
    events: list[GroupEvent] = []
    for record in sorted(requests, key=lambda request: request.offset or 0):
        time_ms = record.timestamp_ms or 0
        try:
            event = decode_group_event(group_id, record.value)
        except EventError:
            continue
        events.append(group_event(event, record.offset or 0, clock.at(time_ms), time_ms))
    return GroupLog(group_id=group_id, partition=partition, events=tuple(events), clock=clock, ends_ms=ends[partition])


class RecordedClient(Struct, kw_only=True, eq=False):
    """One client process."""

    client_id: str
    client_host: str
    instance_id: str | None
    topics: tuple[str, ...]
    assignors: tuple[str, ...]
    rack_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    begins_ms: int
    last_sign_ms: int
    ends_ms: int | None = None
    """None: it lives on when the log ends."""
    leaves: bool = False
    """It ends by leaving the group; else by falling silent."""
    member_ids: list[str] = field(default_factory=list)
    subscriptions: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """When it subscribed to other topics."""
    silences: list[Span] = field(default_factory=list)
    """It sent nothing, though it should have, and came back."""
    stalls: list[Span] = field(default_factory=list)
    """Its application did not poll, and it left because of that."""
    heartbeat_interval_ms: int = 0
    reaction_ms: int = 0
    """From learning of a rebalance to rejoining, as a rule."""

    # While it is read:
    is_lost: bool = False
    stalled_since_ms: int | None = None
    notified_ms: int | None = None
    waiting: int = 0
    heartbeats: list[int] = field(default_factory=list)
    reactions: list[int] = field(default_factory=list)
    pauses: list[Span] = field(default_factory=list)


class RecordedClients(Struct, frozen=True, kw_only=True):
    """All clients of a group, and their requests."""

    clients: tuple[RecordedClient, ...]
    commits: tuple[tuple[RecordedClient, RequestEvent], ...]
    """What members committed."""
    other_requests: tuple[RequestEvent, ...]
    """Requests of those who are no members: tools, admin clients."""
    partition_counts: dict[str, int]
    """Of each topic that the leaders shared out."""


def read_clients(log: GroupLog, config: GroupConfig) -> RecordedClients:
    """Return the clients of a recorded log. Raises WhatIfError if no client joins, or if the members are no
    consumers."""
    return _Reader(log, config).read()


class _Reader:
    """The reader goes through the log once, with a coordinator of its own."""

    def __init__(self, log: GroupLog, config: GroupConfig) -> None:
        self._log = log
        self._coordinator = GroupCoordinator(log.group_id, config, partition=log.partition)
        self._clients: list[RecordedClient] = []
        self._by_member: dict[str, RecordedClient] = {}
        self._pending: dict[str, tuple[RecordedClient, object]] = {}
        self._commits: list[tuple[RecordedClient, RequestEvent]] = []
        self._other_requests: list[RequestEvent] = []
        self._counts: dict[str, int] = {}

    def read(self) -> RecordedClients:
        for event in self._log.events:
            self._coordinator.advance_to(event.clock_ms)
            self._answers()
            if isinstance(event, RequestEvent):
                self._request(event)
            elif isinstance(event, RecordedEvent) and not isinstance(event.fact, RecordedLeader | RecordedLoad):
                raise WhatIfError(
                    "This recording does not tell all of the group's life, so nobody knows what would have been "
                    "otherwise."
                )
            self._coordinator.handle(event)
            self._answers(event.timestamp_ms)
        if not self._clients:
            raise WhatIfError("In this log nobody joins the group: there is nothing to play again.")
        for client in self._clients:
            self._conclude(client)
        return RecordedClients(
            clients=tuple(self._clients),
            commits=tuple(self._commits),
            other_requests=tuple(self._other_requests),
            partition_counts=self._counts,
        )

    # ------------------------------------------------------------------------------------------------------- requests

    def _request(self, event: RequestEvent) -> None:
        request, time_ms = event.request, event.timestamp_ms
        client: RecordedClient | None = None
        match request:
            case JoinGroupRequest():
                client = self._join(event, request)
            case HeartbeatRequest() | SyncGroupRequest():
                client = self._by_member.get(request.member_id)
                if isinstance(request, SyncGroupRequest):
                    self._count(request)
                elif client is not None:
                    client.heartbeats.append(time_ms)
            case OffsetCommitRequest() if request.member_id in self._by_member:
                client = self._by_member[request.member_id]
                self._commits.append((client, event))
            case LeaveGroupRequest():
                for member in request.members:
                    self._leave(member, time_ms, event)
            case _:
                self._other_requests.append(event)
        if client is not None:
            self._sign(client, time_ms)
            if isinstance(request, JoinGroupRequest | SyncGroupRequest):
                client.waiting += 1
            self._pending[event.envelope.request_id] = client, request

    def _join(self, event: RequestEvent, request: JoinGroupRequest) -> RecordedClient:
        if request.protocol_type != CONSUMER:
            raise WhatIfError(
                f"Only groups of consumers can be played again; this one is of type {request.protocol_type!r}."
            )
        time_ms = event.timestamp_ms
        topics, rack_id = _subscription(request)
        client = self._by_member.get(request.member_id) if request.member_id else self._returned(event, request)
        if client is None:
            envelope = event.envelope
            client = RecordedClient(
                client_id=envelope.client_id,
                client_host=envelope.client_host,
                instance_id=request.group_instance_id,
                topics=topics,
                assignors=tuple(protocol.name for protocol in request.protocols),
                rack_id=rack_id,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms
                if request.rebalance_timeout_ms >= 0
                else request.session_timeout_ms,
                begins_ms=time_ms,
                last_sign_ms=time_ms,
            )
            self._clients.append(client)
            if request.member_id:
                self._by_member[request.member_id] = client
        latest_topics = client.subscriptions[-1][1] if client.subscriptions else client.topics
        if topics != latest_topics:
            client.subscriptions.append((time_ms, topics))
        if client.notified_ms is not None:
            client.reactions.append(time_ms - client.notified_ms)
            client.notified_ms = None
        if client.stalled_since_ms is not None:
            client.stalls.append((client.stalled_since_ms, time_ms))
            client.last_sign_ms, client.stalled_since_ms = time_ms, None
        return client

    def _returned(self, event: RequestEvent, request: JoinGroupRequest) -> RecordedClient | None:
        """Return the client that joins without an id after it lost its own; None for a new client."""
        envelope, instance_id = event.envelope, request.group_instance_id
        for client in reversed(self._clients):
            is_same_client = (client.client_id, client.client_host, client.instance_id) == (
                envelope.client_id,
                envelope.client_host,
                instance_id,
            )
            if not is_same_client or client.ends_ms is not None:
                continue
            if client.is_lost or client.stalled_since_ms is not None:
                return client
            if instance_id is not None:
                client.ends_ms = client.last_sign_ms + 1  # another process has its static id now
        return None

    def _leave(self, leaver: LeaveGroupMember, time_ms: int, event: RequestEvent) -> None:
        client = self._by_member.get(leaver.member_id) or next(
            (
                client
                for client in reversed(self._clients)
                if leaver.group_instance_id and client.instance_id == leaver.group_instance_id
            ),
            None,
        )
        if client is None or client.ends_ms is not None:
            self._other_requests.append(event)
            return
        if not leaver.member_id:  # somebody else removed it by its static id
            self._other_requests.append(event)
            return
        self._sign(client, time_ms)
        if leaver.reason is not None and _POLL_TIMEOUT in leaver.reason:
            client.stalled_since_ms = max(time_ms - client.rebalance_timeout_ms, client.begins_ms)
        else:
            client.ends_ms, client.leaves = time_ms, True

    def _sign(self, client: RecordedClient, time_ms: int) -> None:
        if not client.waiting and not client.is_lost and time_ms - client.last_sign_ms > _SHORT_MS:
            client.pauses.append((client.last_sign_ms + 1, time_ms))
        client.last_sign_ms = max(client.last_sign_ms, time_ms)

    def _count(self, request: SyncGroupRequest) -> None:
        for share in request.assignments:
            try:
                partitions = decode_assignment(share.assignment).partitions if share.assignment else ()
            except DecodeError:
                continue
            for topic, partition in partitions:
                self._counts[topic] = max(self._counts.get(topic, 0), partition + 1)

    # -------------------------------------------------------------------------------------------------------- answers

    def _answers(self, now_ms: int | None = None) -> None:
        for output in self._coordinator.take_outputs():
            if not isinstance(output, Answer):
                continue
            pending = self._pending.pop(output.request_id, None)
            if pending is None:
                continue
            client, request = pending
            time_ms = self._log.clock.when(output.time_ms) if now_ms is None else now_ms
            if isinstance(request, JoinGroupRequest | SyncGroupRequest):
                client.waiting = max(client.waiting - 1, 0)
                client.last_sign_ms = max(client.last_sign_ms, time_ms)
            error = getattr(output.response, "error_code", ErrorCode.NONE)
            if isinstance(request, JoinGroupRequest):
                member_id = getattr(output.response, "member_id", "")
                if error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED) and member_id:
                    client.is_lost = False
                    self._by_member[member_id] = client
                    if member_id not in client.member_ids:
                        client.member_ids.append(member_id)
            if error is ErrorCode.REBALANCE_IN_PROGRESS and client.notified_ms is None:
                client.notified_ms = time_ms
            elif error in _LOST:
                client.is_lost = True

    # ------------------------------------------------------------------------------------------------------ the end

    def _conclude(self, client: RecordedClient) -> None:
        between = [later - earlier for earlier, later in zip(client.heartbeats, client.heartbeats[1:], strict=False)]
        usual_ms = median_low(between) if between else client.session_timeout_ms // 3
        client.heartbeat_interval_ms = max(min(usual_ms, client.session_timeout_ms // 2), 50)
        client.reaction_ms = median_low(client.reactions) if client.reactions else 100
        long_ms = max(2 * client.heartbeat_interval_ms + 500, _SHORT_MS)
        client.silences = [pause for pause in client.pauses if pause[1] - pause[0] > long_ms]
        if client.stalled_since_ms is not None:
            client.stalls.append((client.stalled_since_ms, self._log.ends_ms + 1))
        elif (
            client.ends_ms is None
            and not client.waiting
            and self._log.ends_ms - client.last_sign_ms > max(long_ms, client.session_timeout_ms // 2)
        ):
            client.ends_ms = client.last_sign_ms + 1


def _subscription(request: JoinGroupRequest) -> tuple[tuple[str, ...], str]:
    for protocol in request.protocols:
        try:
            subscription = decode_subscription(protocol.metadata)
        except DecodeError:
            continue
        return tuple(sorted(set(subscription.topics))), subscription.rack_id or ""
    return (), ""
