"""The model's state of a group is plain data, and all else is computed from it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from coordinator_state import RequestEvent
from schemas.error_codes import ErrorCode
from schemas.messages import Response
from schemas.records import OffsetCommitValue
from simulation.model_topics import KnownTopics

State = Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]
TimerKind = Literal["session", "rebalance", "join", "sync"]


class Answered(NamedTuple):
    """A request is answered."""

    request_id: str
    time_ms: int
    response: Response


class Logged(NamedTuple):
    """A record goes to the offsets log."""

    time_ms: int
    key: bytes
    value: bytes | None


ModelOutput = Answered | Logged


def time_of(event: RequestEvent) -> int:
    """Return the time of a request to a group that does not exist: the last tick, or without one the broker's
    timestamp."""
    return event.clock_ms or event.timestamp_ms


class ModelError(Exception):
    """The model refuses a request."""

    def __init__(self, code: ErrorCode, *, echo: bool = True) -> None:
        super().__init__(code.name)
        self.code = code
        self.echo = echo


@dataclass
class ModelMember:
    """A member of the model's group."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: list[tuple[str, bytes]]
    assignment: bytes = b""
    join: str | None = None
    """Request id of the parked JoinGroup."""
    sync: str | None = None
    new: bool = True

    def metadata(self, protocol: str | None) -> bytes:
        return dict(self.protocols).get(protocol or "", b"")

    def lists(self, protocol: str) -> bool:
        return protocol in dict(self.protocols)


@dataclass
class ModelTimer:
    """A timer of the model."""

    kind: TimerKind
    who: str
    deadline_ms: int
    armed_ms: int
    epoch: int | None = None
    """Of a rebalance timer: it is for the epoch that its member had."""


@dataclass
class Stored:
    """A committed offset, and the group's time of the commit."""

    value: OffsetCommitValue
    committed_ms: int
    expires_ms: int | None


@dataclass(kw_only=True)
class ModelLife:
    """What groups of both kinds have, and keep when they become one of the other kind."""

    now_ms: int
    checked_ms: int
    """The retention checks up to here are over."""
    timers: list[ModelTimer] = field(default_factory=list)
    """In the order of arming."""
    in_log: bool = False
    offsets: dict[tuple[str, int], Stored] = field(default_factory=dict)
    known: KnownTopics = field(default_factory=KnownTopics)
    resolving_ms: int | None = None
    """Since when it is looked up what expressions match, for the group or for the one that it was."""

    def take_over(self, life: ModelLife, member_ids: Container[str]) -> None:
        """Go on with what a group keeps when it becomes one of the other kind. Of its timers it keeps those by which a
        classic member of a consumer group must join or sync: should it be one again, they count."""
        self.timers = [timer for timer in life.timers if timer.kind in ("join", "sync") and timer.who in member_ids]
        self.in_log, self.offsets, self.known = life.in_log, life.offsets, life.known
        self.resolving_ms = life.resolving_ms

    def leave_out(self, skipped_ms: int) -> None:
        """Leave out some time: all earlier moments move by it, and no retention check ran in it."""
        self.now_ms += skipped_ms
        self.checked_ms = self.now_ms
        for timer in self.timers:
            timer.deadline_ms += skipped_ms
            timer.armed_ms += skipped_ms
        if self.resolving_ms is not None:
            self.resolving_ms += skipped_ms
        for offset in self.offsets.values():
            offset.committed_ms += skipped_ms
            if offset.expires_ms is not None:
                offset.expires_ms += skipped_ms


@dataclass(kw_only=True)
class ModelGroup(ModelLife):
    """The model's state of a classic group, from its first event to its last."""

    since_ms: int
    state: State = "Empty"
    came_from: State | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    members: list[ModelMember] = field(default_factory=list)
    issued_ids: list[str] = field(default_factory=list)
    must_sync: list[str] = field(default_factory=list)
    topics: tuple[str, ...] | None = None
    extend: bool = False
    initial: tuple[int, int] | None = None

    @classmethod
    def begin(cls, event: RequestEvent, known: KnownTopics) -> ModelGroup:
        now_ms = time_of(event)
        return cls(now_ms=now_ms, since_ms=now_ms, checked_ms=now_ms, known=known)

    def leave_out(self, skipped_ms: int) -> None:
        super().leave_out(skipped_ms)
        self.since_ms += skipped_ms

    def member(self, member_id: str) -> ModelMember | None:
        return next((member for member in self.members if member.member_id == member_id), None)

    def holder(self, instance_id: str | None) -> ModelMember | None:
        """Return the member with this instance id."""
        holders = (member for member in self.members if instance_id is not None and member.instance_id == instance_id)
        return next(holders, None)

    def everybody_joined(self) -> bool:
        return all(member.join is not None for member in self.members) and not self.issued_ids

    def patience_ms(self) -> int:
        return max((member.rebalance_ms for member in self.members), default=0)

    def common(self, protocol: str) -> bool:
        return all(member.lists(protocol) for member in self.members)

    def subscribed_to(self, topic: str) -> bool:
        return self.protocol_type == "consumer" if self.topics is None else topic in self.topics
