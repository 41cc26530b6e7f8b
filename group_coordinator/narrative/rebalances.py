"""Rebalances put together from history records: what caused each, its steps, who owned what before and after.

Pure. Records of a group are fed in the order of the history topic; what an at-least-once sink wrote twice is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, tzinfo

from msgspec import Struct, field

from group_coordinator.narrative import words
from schemas.history import (
    AssignedTopic,
    AssignmentReceived,
    GroupDead,
    GroupEmpty,
    History,
    JoinPhaseCompleted,
    MemberDropped,
    MemberExpired,
    MemberJoined,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    PendingMemberRemoved,
    RebalanceCompleted,
    RebalanceStarted,
    RecordingGap,
)

Ownership = dict[str, tuple[AssignedTopic, ...] | None]
"""Member id -> what it owns, in the order of the leader's assignment; None: not an assignment of the consumer protocol."""

Gone = MemberLeft | MemberExpired | MemberDropped
_OFFSETS = OffsetsCommitted | OffsetsExpired | OffsetsDeleted
_MAY_CAUSE = MemberJoined | MemberRejoined | MemberLeft | MemberExpired | MemberDropped | MemberReplaced | PendingMemberRemoved


class Rebalance(Struct, kw_only=True):
    """One rebalance. Without `completed` it is still going on, or the group died in it, or a recording does not tell its end."""

    started: RebalanceStarted
    causes: tuple[History, ...]
    """The records that led to it, the first cause first."""
    owned_before: Ownership
    steps: list[History] = field(default_factory=list)
    """All that happened from its start to its end, offsets apart."""
    join_phase: JoinPhaseCompleted | None = None
    completed: RebalanceCompleted | None = None
    owned_after: Ownership | None = None
    """None: no assignment was made."""
    gap: RecordingGap | None = None
    """Why a recording does not tell its end."""

    @property
    def generation_id(self) -> int:
        """The generation that it leads to, or would have led to."""
        return self.join_phase.generation_id if self.join_phase is not None else self.started.generation_id + 1

    @property
    def duration_ms(self) -> int | None:
        return None if self.completed is None else self.completed.duration_ms


class GroupStory:
    """One group's rebalances, followed record by record."""

    def __init__(self) -> None:
        self.current: Rebalance | None = None
        """The rebalance that is going on."""
        self.owners: Ownership = {}
        """The last assignment."""
        self._last = (-1, -1)
        self._recent: dict[int, History] = {}

    def add(self, record: History) -> bool:
        """Take the next record; False when it was there before."""
        if (record.epoch, record.seq) <= self._last:
            return False
        if record.epoch != self._last[0]:
            self.current, self.owners = None, {}
            self._recent.clear()
        self._last = (record.epoch, record.seq)
        if self.current is not None and (self.current.completed is not None or self.current.gap is not None):
            self.current = None
        if isinstance(record, _MAY_CAUSE):
            self._recent[record.seq] = record
        self._follow(record)
        return True

    def _follow(self, record: History) -> None:
        match record:
            case RebalanceStarted():
                self.current = Rebalance(started=record, causes=self._causes(record), owned_before=self.owners)
                self._recent.clear()
            case JoinPhaseCompleted() if self.current is not None:
                self.current.join_phase = record
            case AssignmentReceived():
                self.owners = {each.member_id: each.topics for each in record.assignments}
                if self.current is not None:
                    self.current.owned_after = self.owners
            case RebalanceCompleted() if self.current is not None:
                self.current.completed = record
            case GroupEmpty() | GroupDead():
                self.owners = {}
                if self.current is not None:
                    self.current.owned_after = self.owners
            case RecordingGap():
                self.owners = {}
                if self.current is not None:
                    self.current.gap = record
            case MemberReplaced() if record.old_member_id in self.owners:
                old, new = record.old_member_id, record.member.member_id
                self.owners = {new if each == old else each: topics for each, topics in self.owners.items()}
        if self.current is not None and not isinstance(record, _OFFSETS):
            self.current.steps.append(record)

    def _causes(self, started: RebalanceStarted) -> tuple[History, ...]:
        """Back from record to record. A chain ends where a rebalance before this one begins to be told."""
        chain: list[History] = []
        seq = started.caused_by
        while seq is not None and seq in self._recent:
            chain.insert(0, self._recent[seq])
            seq = self._recent[seq].caused_by
        return tuple(chain)


class Stories:
    """Many groups' rebalances."""

    def __init__(self) -> None:
        self.groups: dict[str, GroupStory] = {}

    def add(self, record: History) -> GroupStory | None:
        """Take the next record of its group and return the group's story; None when the record was there before."""
        story = self.groups.setdefault(record.group_id, GroupStory())
        return story if story.add(record) else None


def rebalances(records: Iterable[History]) -> Iterator[Rebalance]:
    """The rebalances of one group, in order; the last one may be unfinished."""
    story = GroupStory()
    before: Rebalance | None = None
    for record in records:
        story.add(record)
        if before is not None and story.current is not before:
            yield before
        before = story.current
    if before is not None:
        yield before


def _held_up_by(rebalance: Rebalance) -> Gone | None:
    """The record of a member that was waited for to the last, and went instead of coming."""
    if rebalance.join_phase is None:
        return None
    awaited = {each.member_id for each in rebalance.join_phase.waited_for if each.joined_ms is None}
    gone = [each for each in rebalance.steps if isinstance(each, Gone) and each.member.member_id in awaited]
    ended_ms = rebalance.join_phase.timestamp_ms
    return gone[-1] if gone and gone[-1].timestamp_ms == ended_ms else None


def headline(rebalance: Rebalance, zone: tzinfo = UTC) -> str:
    """A rebalance in one line: `02:14:07 payments: generation 7 because b expired (last heard 10.2 s ago); ...`."""
    started, completed = rebalance.started, rebalance.completed
    text = f"{words.clock(started.timestamp_ms, zone)} {started.group_id}: generation {rebalance.generation_id} because "
    text += words.because(started)
    if rebalance.gap is not None:
        return text + "; how it ended is not recorded"
    if completed is None:
        return text + "; not over" + (f", waiting for {words.names(started.waiting_for)}" if started.waiting_for else "")
    text += words.waited(completed, _held_up_by(rebalance))
    ends = {"stable": "done after", "empty": "the group is empty after", "interrupted": "interrupted after"}
    return f"{text}; {ends[completed.outcome]} {words.duration(completed.duration_ms)}"
