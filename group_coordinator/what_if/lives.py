"""How the clients of a group lived, read from a log of events: when each came, what it wanted, when it was silent, how
it ended.

A life is that of a process with one member, over all member ids that it was given. The log has only what clients sent,
so it is handed to the coordinator once more: its answers say who was told what, and who is the same client under a new
id.
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
from schemas.recorded import RecordedLeader
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


class LifeError(ValueError):
    """The log does not say how these clients lived. The message is for people."""


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
        """The clock at an append time."""
        return _between(self._times, self._clocks, time_ms)

    def when(self, clock_ms: int) -> int:
        """The append time at which the clock has come so far."""
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
    """Take what is this group's, and its clock, out of records of an events topic. Raises LifeError when there is
    nothing.

    `ahead_max_ms`: see `schemas.ticks.read_tick`.
    """
    key = group_id.encode()
    ticks: dict[int, list[Span]] = {}
    found: list[Record] = []
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
            found.append(record)
    if not found:
        raise LifeError(f"This log has no request of group {group_id}.")
    partition = found[0].partition or 0
    clock = LogClock(ticks.get(partition, ()))
    events: list[GroupEvent] = []
    for record in sorted(found, key=lambda each: each.offset or 0):
        time_ms = record.timestamp_ms or 0
        try:
            event = decode_group_event(group_id, record.value)
        except EventError:
            continue
        events.append(group_event(event, record.offset or 0, clock.at(time_ms), time_ms))
    return GroupLog(group_id=group_id, partition=partition, events=tuple(events), clock=clock, ends_ms=ends[partition])


class Life(Struct, kw_only=True, eq=False):
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
    says_goodbye: bool = False
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
    told_ms: int | None = None
    waiting: int = 0
    heartbeats: list[int] = field(default_factory=list)
    reactions: list[int] = field(default_factory=list)
    pauses: list[Span] = field(default_factory=list)


class Lives(Struct, frozen=True, kw_only=True):
    """All that the clients of a group brought with them."""

    lives: tuple[Life, ...]
    commits: tuple[tuple[Life, RequestEvent], ...]
    """What members committed."""
    strangers: tuple[RequestEvent, ...]
    """Requests of those who are no members: tools, admin clients."""
    partition_counts: dict[str, int]
    """Of each topic that the leaders shared out."""


def read_lives(log: GroupLog, config: GroupConfig) -> Lives:
    """Raises LifeError when nobody joins, or when the members are no consumers."""
    return _Reader(log, config).read()


class _Reader:
    """Goes through the log once, with the coordinator beside it."""

    def __init__(self, log: GroupLog, config: GroupConfig) -> None:
        self._log = log
        self._coordinator = GroupCoordinator(log.group_id, config, partition=log.partition)
        self._lives: list[Life] = []
        self._by_member: dict[str, Life] = {}
        self._asked: dict[str, tuple[Life, object]] = {}
        self._commits: list[tuple[Life, RequestEvent]] = []
        self._strangers: list[RequestEvent] = []
        self._counts: dict[str, int] = {}

    def read(self) -> Lives:
        for event in self._log.events:
            self._coordinator.advance_to(event.clock_ms)
            self._answers()
            if isinstance(event, RequestEvent):
                self._request(event)
            elif isinstance(event, RecordedEvent) and not isinstance(event.said, RecordedLeader):
                raise LifeError(
                    "This recording does not tell all of the group's life, so nobody knows what would have been "
                    "otherwise."
                )
            self._coordinator.handle(event)
            self._answers(event.timestamp_ms)
        if not self._lives:
            raise LifeError("In this log nobody joins the group: there is nothing to play again.")
        for life in self._lives:
            self._conclude(life)
        return Lives(
            lives=tuple(self._lives),
            commits=tuple(self._commits),
            strangers=tuple(self._strangers),
            partition_counts=self._counts,
        )

    # ------------------------------------------------------------------------------------------------------- requests

    def _request(self, event: RequestEvent) -> None:
        request, time_ms = event.request, event.timestamp_ms
        life: Life | None = None
        match request:
            case JoinGroupRequest():
                life = self._join(event, request)
            case HeartbeatRequest() | SyncGroupRequest():
                life = self._by_member.get(request.member_id)
                if isinstance(request, SyncGroupRequest):
                    self._count(request)
                elif life is not None:
                    life.heartbeats.append(time_ms)
            case OffsetCommitRequest() if request.member_id in self._by_member:
                life = self._by_member[request.member_id]
                self._commits.append((life, event))
            case LeaveGroupRequest():
                for each in request.members:
                    self._leave(each, time_ms, event)
            case _:
                self._strangers.append(event)
        if life is not None:
            self._sign(life, time_ms)
            if isinstance(request, JoinGroupRequest | SyncGroupRequest):
                life.waiting += 1
            self._asked[event.envelope.request_id] = life, request

    def _join(self, event: RequestEvent, request: JoinGroupRequest) -> Life:
        if request.protocol_type != CONSUMER:
            raise LifeError(
                f"Only groups of consumers can be played again; this one is of type {request.protocol_type!r}."
            )
        time_ms = event.timestamp_ms
        topics, rack_id = _subscription(request)
        life = self._by_member.get(request.member_id) if request.member_id else self._returned(event, request)
        if life is None:
            envelope = event.envelope
            life = Life(
                client_id=envelope.client_id,
                client_host=envelope.client_host,
                instance_id=request.group_instance_id,
                topics=topics,
                assignors=tuple(each.name for each in request.protocols),
                rack_id=rack_id,
                session_timeout_ms=request.session_timeout_ms,
                rebalance_timeout_ms=request.rebalance_timeout_ms
                if request.rebalance_timeout_ms >= 0
                else request.session_timeout_ms,
                begins_ms=time_ms,
                last_sign_ms=time_ms,
            )
            self._lives.append(life)
            if request.member_id:
                self._by_member[request.member_id] = life
        seen = life.subscriptions[-1][1] if life.subscriptions else life.topics
        if topics != seen:
            life.subscriptions.append((time_ms, topics))
        if life.told_ms is not None:
            life.reactions.append(time_ms - life.told_ms)
            life.told_ms = None
        if life.stalled_since_ms is not None:
            life.stalls.append((life.stalled_since_ms, time_ms))
            life.last_sign_ms, life.stalled_since_ms = time_ms, None
        return life

    def _returned(self, event: RequestEvent, request: JoinGroupRequest) -> Life | None:
        """Who joins without an id: a client that has lost its own, or (None) a new one."""
        envelope, instance_id = event.envelope, request.group_instance_id
        for life in reversed(self._lives):
            same = (life.client_id, life.client_host, life.instance_id) == (
                envelope.client_id,
                envelope.client_host,
                instance_id,
            )
            if not same or life.ends_ms is not None:
                continue
            if life.is_lost or life.stalled_since_ms is not None:
                return life
            if instance_id is not None:
                life.ends_ms = life.last_sign_ms + 1  # another process has its static id now
        return None

    def _leave(self, each: LeaveGroupMember, time_ms: int, event: RequestEvent) -> None:
        life = self._by_member.get(each.member_id) or next(
            (
                life
                for life in reversed(self._lives)
                if each.group_instance_id and life.instance_id == each.group_instance_id
            ),
            None,
        )
        if life is None or life.ends_ms is not None:
            self._strangers.append(event)
            return
        if not each.member_id:  # somebody else removed it by its static id
            self._strangers.append(event)
            return
        self._sign(life, time_ms)
        if each.reason is not None and _POLL_TIMEOUT in each.reason:
            life.stalled_since_ms = max(time_ms - life.rebalance_timeout_ms, life.begins_ms)
        else:
            life.ends_ms, life.says_goodbye = time_ms, True

    def _sign(self, life: Life, time_ms: int) -> None:
        if not life.waiting and not life.is_lost and time_ms - life.last_sign_ms > _SHORT_MS:
            life.pauses.append((life.last_sign_ms + 1, time_ms))
        life.last_sign_ms = max(life.last_sign_ms, time_ms)

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
            found = self._asked.pop(output.request_id, None)
            if found is None:
                continue
            life, request = found
            time_ms = self._log.clock.when(output.time_ms) if now_ms is None else now_ms
            if isinstance(request, JoinGroupRequest | SyncGroupRequest):
                life.waiting = max(life.waiting - 1, 0)
                life.last_sign_ms = max(life.last_sign_ms, time_ms)
            error = getattr(output.response, "error_code", ErrorCode.NONE)
            if isinstance(request, JoinGroupRequest):
                member_id = getattr(output.response, "member_id", "")
                if error in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED) and member_id:
                    life.is_lost = False
                    self._by_member[member_id] = life
                    if member_id not in life.member_ids:
                        life.member_ids.append(member_id)
            if error is ErrorCode.REBALANCE_IN_PROGRESS and life.told_ms is None:
                life.told_ms = time_ms
            elif error in _LOST:
                life.is_lost = True

    # ------------------------------------------------------------------------------------------------------ the end

    def _conclude(self, life: Life) -> None:
        between = [later - earlier for earlier, later in zip(life.heartbeats, life.heartbeats[1:], strict=False)]
        usual_ms = median_low(between) if between else life.session_timeout_ms // 3
        life.heartbeat_interval_ms = max(min(usual_ms, life.session_timeout_ms // 2), 50)
        life.reaction_ms = median_low(life.reactions) if life.reactions else 100
        long_ms = max(2 * life.heartbeat_interval_ms + 500, _SHORT_MS)
        life.silences = [each for each in life.pauses if each[1] - each[0] > long_ms]
        if life.stalled_since_ms is not None:
            life.stalls.append((life.stalled_since_ms, self._log.ends_ms + 1))
        elif (
            life.ends_ms is None
            and not life.waiting
            and self._log.ends_ms - life.last_sign_ms > max(long_ms, life.session_timeout_ms // 2)
        ):
            life.ends_ms = life.last_sign_ms + 1


def _subscription(request: JoinGroupRequest) -> tuple[tuple[str, ...], str]:
    for protocol in request.protocols:
        try:
            found = decode_subscription(protocol.metadata)
        except DecodeError:
            continue
        return tuple(sorted(set(found.topics))), found.rack_id or ""
    return (), ""
