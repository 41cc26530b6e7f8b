"""What the model knows of a group: plain data, and what can be found by looking at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from coordinator_state import RequestEvent
from schemas.error_codes import ErrorCode
from schemas.messages import Response
from schemas.records import OffsetCommitValue

State = Literal["Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]
AlarmKind = Literal["session", "join", "sync"]


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


Said = Answered | Logged


def time_of(event: RequestEvent) -> int:
    """When a request to a group that does not exist happens: by the last tick; without one, when the broker took it."""
    return event.clock_ms or event.timestamp_ms


class No(Exception):
    """A request is refused."""

    def __init__(self, code: ErrorCode, *, echo: bool = True) -> None:
        super().__init__(code.name)
        self.code = code
        self.echo = echo


@dataclass
class Person:
    """A member."""

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
class Alarm:
    """A timer that will ring."""

    kind: AlarmKind
    who: str
    deadline_ms: int
    armed_ms: int


@dataclass
class Stored:
    """A committed offset, and the group's time of the commit."""

    value: OffsetCommitValue
    committed_ms: int
    expires_ms: int | None


@dataclass
class Life:
    """A group, from its first event to its last."""

    now_ms: int
    since_ms: int
    checked_ms: int
    """The retention checks up to here are over."""
    state: State = "Empty"
    came_from: State | None = None
    protocol_type: str | None = None
    protocol: str | None = None
    generation: int = 0
    leader: str | None = None
    people: list[Person] = field(default_factory=list)
    handed_out: list[str] = field(default_factory=list)
    must_sync: list[str] = field(default_factory=list)
    topics: tuple[str, ...] | None = None
    extend: bool = False
    initial: tuple[int, int] | None = None
    alarms: list[Alarm] = field(default_factory=list)
    """In the order of arming."""
    in_log: bool = False
    offsets: dict[tuple[str, int], Stored] = field(default_factory=dict)

    @classmethod
    def begin(cls, event: RequestEvent) -> Life:
        now_ms = time_of(event)
        return cls(now_ms=now_ms, since_ms=now_ms, checked_ms=now_ms)

    def leave_out(self, skipped_ms: int) -> None:
        """So much time never was: all that was before lies so much later, and no check ran in it."""
        self.now_ms += skipped_ms
        self.since_ms += skipped_ms
        self.checked_ms = self.now_ms
        for alarm in self.alarms:
            alarm.deadline_ms += skipped_ms
            alarm.armed_ms += skipped_ms
        for stored in self.offsets.values():
            stored.committed_ms += skipped_ms
            if stored.expires_ms is not None:
                stored.expires_ms += skipped_ms

    def person(self, member_id: str) -> Person | None:
        return next((each for each in self.people if each.member_id == member_id), None)

    def holder(self, instance_id: str | None) -> Person | None:
        """The member with this instance id."""
        found = (each for each in self.people if instance_id is not None and each.instance_id == instance_id)
        return next(found, None)

    def everybody_joined(self) -> bool:
        return all(each.join is not None for each in self.people) and not self.handed_out

    def patience_ms(self) -> int:
        return max((each.rebalance_ms for each in self.people), default=0)

    def common(self, protocol: str) -> bool:
        return all(each.lists(protocol) for each in self.people)

    def subscribed_to(self, topic: str) -> bool:
        return self.protocol_type == "consumer" if self.topics is None else topic in self.topics
