"""What the dashboard knows of one group at any time: small, and kept up to date record by record. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from typing import NamedTuple

from schemas.history import (
    AssignmentReceived,
    GroupCreated,
    GroupDead,
    GroupEmpty,
    GroupRecorded,
    GroupStable,
    History,
    HistoryRecord,
    JoinPhaseCompleted,
    LeaderElected,
    MemberDropped,
    MemberExpired,
    MemberIdentity,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    ProtocolChosen,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceStarted,
    RecordingGap,
    RequestRefused,
)

STATES = ("none", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead", "unknown")
RECENT_MAX = 64
"""Rebalances and departures that are remembered one by one."""
TRANSITIONS_MAX = 1_024
_WIDTH = 4

_STATE_AFTER: dict[type[HistoryRecord], str] = {
    RebalanceStarted: "PreparingRebalance",
    JoinPhaseCompleted: "CompletingRebalance",
    GroupStable: "Stable",
    GroupEmpty: "Empty",
    GroupDead: "Dead",
    GroupRecorded: "CompletingRebalance",
    RecordingGap: "unknown",
}


class Recent(NamedTuple):
    """A rebalance, as far as storms and flapping need it."""

    started_ms: int
    client: str
    """Whose doing it was (`client_key`); empty: nobody's in particular."""
    trigger: str


class Committed(NamedTuple):
    """The offset of one partition."""

    offset: int
    committed_ms: int
    metadata: str


class Moment(NamedTuple):
    """The group as it was at some time."""

    since_ms: int
    state: str
    generation_id: int
    members: int


def client_key(member: MemberIdentity) -> str:
    """The same for all lives of one client: its static id, else client id and host."""
    return member.group_instance_id or f"{member.client_id}@{member.client_host.lstrip('/')}"


class GroupFacts:
    """One group as it is now, and what recently happened to it."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.version = 0
        """Grows with every record."""
        self.epoch = -1
        self.state = "none"
        self.state_since_ms = 0
        self.generation_id = 0
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, MemberIdentity] = {}
        self.topics: tuple[str, ...] = ()
        """Assigned ones; of a group that never had an assignment those that it committed for."""
        self.partitions = 0
        self.idle = 0
        """Members that the last assignment gave nothing."""
        self.offsets: dict[tuple[str, int], Committed] = {}
        self.had_members = False
        self.started: RebalanceStarted | None = None
        """The last rebalance ..."""
        self.completed: RebalanceCompleted | None = None
        """... and its end."""
        self.deadline_ms: int | None = None
        self.waiting: dict[str, None] = {}
        """Members that the running rebalance still waits for."""
        self.recent: deque[Recent] = deque(maxlen=RECENT_MAX)
        self.departures: deque[tuple[int, str, str]] = deque(maxlen=RECENT_MAX)
        """(when, which client, how)."""
        self.first_ms = 0
        self.last_ms = 0
        self.last_commit_ms: int | None = None
        self.rebalances = 0
        self.refusals = 0
        self._transitions = array("q")
        self._seen: dict[int, tuple[int, int]] = {}

    def add(self, record: History) -> bool:
        """Take the next record; False when it was there before."""
        place, partition = (record.epoch, record.seq), record.cause.partition
        if place <= self._seen.get(partition, (-1, -1)):
            return False
        self._seen[partition] = place
        self.version += 1
        self.first_ms = self.first_ms or record.timestamp_ms
        self.last_ms = max(self.last_ms, record.timestamp_ms)
        match record:
            case OffsetsCommitted() | OffsetsExpired() | OffsetsDeleted():
                self._offsets(record)
            case RequestRefused():
                self.refusals += 1
            case _:
                if record.epoch != self.epoch:
                    self._begin_life(record)
                self._member(record)
                self._rebalance(record)
        state = _STATE_AFTER.get(type(record))
        if state is not None:
            self._enter(state, record)
        return True

    def at(self, time_ms: int) -> Moment | None:
        """The group as it was; None: it was not there, or that is longer ago than is remembered."""
        starts = self._transitions[0::_WIDTH]
        number = bisect_right(starts, time_ms) - 1
        if number < 0:
            return None
        since_ms, state, generation_id, members = self._transitions[number * _WIDTH : (number + 1) * _WIDTH]
        return Moment(since_ms, STATES[state], generation_id, members)

    def moments(self) -> list[Moment]:
        """All that is remembered, the oldest first."""
        found = self._transitions
        return [
            Moment(found[i], STATES[found[i + 1]], found[i + 2], found[i + 3]) for i in range(0, len(found), _WIDTH)
        ]

    # ---------------------------------------------------------------------------------------------------------- inside

    def _begin_life(self, record: History) -> None:
        self.epoch = record.epoch
        self.members, self.waiting = {}, {}
        self.leader_id = self.protocol_name = None
        self.generation_id = 0
        self.topics, self.partitions, self.idle = (), 0, 0
        self.had_members = False
        if isinstance(record, GroupCreated) or self.state in ("none", "Dead"):
            self._enter("Empty", record)

    def _enter(self, state: str, record: History) -> None:
        self.state, self.state_since_ms = state, record.timestamp_ms
        self.generation_id = record.generation_id
        if state in ("Empty", "Dead", "unknown"):
            self.members, self.waiting = {}, {}
        if state == "Dead":
            self.offsets = {}
        # A moment is never before the one that came first, so that it can be found by bisection.
        last_ms = self._transitions[-_WIDTH] if self._transitions else record.timestamp_ms
        at_ms = max(last_ms, record.timestamp_ms)
        self._transitions.extend((at_ms, STATES.index(state), record.generation_id, len(self.members)))
        if len(self._transitions) > TRANSITIONS_MAX * _WIDTH:
            del self._transitions[: TRANSITIONS_MAX // 4 * _WIDTH]

    def _member(self, record: History) -> None:
        match record:
            case GroupRecorded():
                self.members = {each.member.member_id: each.member for each in record.members}
                self.had_members = True
            case MemberJoined():
                self.members[record.member.member_id] = record.member
                self.had_members = True
            case MemberRejoined():
                self.members[record.member.member_id] = record.member
                self.waiting.pop(record.member.member_id, None)
            case MemberReplaced():
                self.members.pop(record.old_member_id, None)
                self.members[record.member.member_id] = record.member
                if self.waiting.pop(record.old_member_id, record) is None:
                    self.waiting[record.member.member_id] = None
                if self.leader_id == record.old_member_id:
                    self.leader_id = record.member.member_id
            case MemberLeft() | MemberExpired() | MemberDropped():
                self.members.pop(record.member.member_id, None)
                self.waiting.pop(record.member.member_id, None)
                how = type(record).__name__.removeprefix("Member").lower()
                self.departures.append((record.timestamp_ms, client_key(record.member), how))

    def _rebalance(self, record: History) -> None:
        match record:
            case RebalanceStarted():
                self.started, self.completed = record, None
                self.deadline_ms = record.timestamp_ms + record.deadline_ms - record.time_ms
                self.waiting = dict.fromkeys(record.waiting_for)
                self.rebalances += 1
                # That a group comes together in the beginning is nobody's fault.
                client = client_key(record.member) if record.member is not None and not record.initial else ""
                self.recent.append(Recent(record.timestamp_ms, client, record.trigger))
            case RebalanceExtended():
                self.deadline_ms = record.timestamp_ms + record.deadline_ms - record.time_ms
            case JoinPhaseCompleted():
                self.waiting = {}
                known = self.members
                self.members = {each: known[each] for each in record.members if each in known}
            case RebalanceCompleted():
                self.completed = record
                if record.outcome != "interrupted":
                    self.waiting, self.deadline_ms = {}, None
            case ProtocolChosen():
                self.protocol_name = record.protocol_name
            case LeaderElected():
                self.leader_id = record.leader.member_id
            case GroupRecorded():
                self.leader_id, self.protocol_name = record.leader_id, record.protocol_name
            case GroupStable():
                self.leader_id = record.leader_id
            case RecordingGap():
                self.topics, self.partitions, self.idle = (), 0, 0
            case AssignmentReceived():
                topics = [each for share in record.assignments for each in share.topics or ()]
                self.topics = tuple(sorted({each.topic for each in topics}))
                self.partitions = sum(len(each.partitions) for each in topics)
                self.idle = sum(share.topics == () for share in record.assignments)

    def _offsets(self, record: OffsetsCommitted | OffsetsExpired | OffsetsDeleted) -> None:
        for each in record.offsets:
            place = each.topic, each.partition
            if each.offset is None or not isinstance(record, OffsetsCommitted):
                self.offsets.pop(place, None)
            else:
                self.offsets[place] = Committed(each.offset, record.timestamp_ms, each.metadata)
        if isinstance(record, OffsetsCommitted):
            self.last_commit_ms = record.timestamp_ms
            if not self.partitions:
                self.topics = tuple(sorted({topic for topic, _ in self.offsets}))
