"""Rebalances put together from history records: what caused each, its steps, who owned what before and after.

Pure: a view of the fold, which is fed with the records of a group in the order of the history topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, tzinfo
from typing import Literal

from msgspec import Struct, field

from group_coordinator.watching.history.causes import Chain, chain_before, extend_chain, pass_on
from group_coordinator.watching.history.current_group import CurrentGroup
from group_coordinator.watching.history.holding import Holder
from group_coordinator.watching.history.view import Departure
from group_coordinator.watching.narrative import sentences, words
from schemas.consumer_group_history import (
    ConsumerMemberUpdated,
    GroupConverted,
    GroupEpochBumped,
    MemberReconciled,
    TargetAssignmentComputed,
)
from schemas.history import (
    AssignedTopic,
    GroupCreated,
    GroupDead,
    History,
    HistoryRecord,
    JoinPhaseCompleted,
    MemberAssignment,
    MemberDropped,
    MemberExpired,
    MemberIdentity,
    MemberLeft,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    RebalanceCompleted,
    RebalanceStarted,
    RecordingGap,
)
from schemas.observed_history import MemberGone

Ownership = dict[str, tuple[AssignedTopic, ...] | None]
"""Member id -> what it owns, in the order of the leader's assignment; None: not an assignment of the consumer
protocol."""

Gone = MemberLeft | MemberExpired | MemberDropped
_ENDS: dict[type[History], str] = {
    MemberLeft: "left", MemberExpired: "expired", MemberDropped: "was dropped", MemberGone: "is gone",
}  # fmt: skip
_OFFSETS = OffsetsCommitted | OffsetsExpired | OffsetsDeleted


class Rebalance(Struct, kw_only=True):
    """One rebalance.

    Without `completed` it is still going on, or the group died in it, or a recording does not tell its end.
    """

    started: RebalanceStarted
    causes: tuple[History, ...]
    """The records that led to it, the first cause first."""
    owned_before: Ownership
    members: dict[str, MemberIdentity]
    """Those that are in the group when it starts."""
    steps: list[History] = field(default_factory=list)
    """All that happened from its start to its end, offsets apart."""
    join_phase: JoinPhaseCompleted | None = None
    completed: RebalanceCompleted | None = None
    owned_after: Ownership | None = None
    """None: no assignment was made."""
    target: Ownership | None = None
    """Of a consumer group: who shall own what. None: it was not computed."""
    holders: tuple[Holder, ...] = ()
    """Who still had to give up partitions when it ended, or has to now."""
    interrupted: Literal["generation", "epoch"] | None = None
    """What the one before counted, which this one interrupts: it may have been of a classic group. None: not known."""
    unresolved: dict[str, str] = field(default_factory=dict)
    """The members whose pattern had not been resolved when it ended, or is not now -> the pattern."""
    gap: str | None = None
    """Why a recording does not tell its end."""

    @property
    def generation_id(self) -> int:
        """The generation that it leads to, or would have led to."""
        if self.join_phase is not None:
            return self.join_phase.generation_id
        # A group of the consumer protocol has no join phase, and its epoch may go up by more than one.
        last_generation_id = self.completed.generation_id if self.completed is not None else 0
        return max(last_generation_id, self.started.generation_id + 1)

    @property
    def counts(self) -> Literal["generation", "epoch"]:
        """What `generation_id` is: consumer, share and streams groups count epochs."""
        return "epoch" if any(isinstance(step, GroupEpochBumped) for step in self.steps) else "generation"

    @property
    def duration_ms(self) -> int | None:
        return None if self.completed is None else self.completed.duration_ms


class GroupStory(CurrentGroup):
    """One group's rebalances, followed record by record."""

    __slots__ = ("_by_member", "_chain", "_counted", "_departed", "_gone", "current", "owners")

    def __init__(self) -> None:
        super().__init__()
        self.current: Rebalance | None = None
        """The rebalance that is going on, or has just ended."""
        self.owners: Ownership = {}
        """The last assignment."""
        self._chain: Chain[History] = []
        self._by_member = False
        """Members come to their partitions one by one, and nobody tells of all at once."""
        self._departed: Ownership = {}
        """What members had that are gone, until the rebalance starts that follows."""
        self._gone: set[str] = set()
        """The members that are gone since the last assignment that told all at once."""
        self._counted: Literal["generation", "epoch"] | None = None
        """What the last rebalance counted."""

    def follow(self, record: History) -> None:
        if self.current is not None and (self.current.completed is not None or self.current.gap is not None):
            self.current = None
        super().follow(record)
        if self.current is not None and not isinstance(record, _OFFSETS):
            self.current.steps.append(record)
            if self.way.held_up or self.current.holders:
                self.current.holders = self.way.holders()

    def life_began(self, record: HistoryRecord) -> None:
        super().life_began(record)
        self.current, self.owners, self._chain, self._departed = None, {}, [], {}
        self._counted = None
        self._gone = set()

    def group_converted(self, record: GroupConverted) -> None:
        # Nobody will tell all at once any more, and so take what they had from those that are gone.
        for member_id in self._gone & self.owners.keys():
            self._depart(member_id)
        self._gone = set()
        super().group_converted(record)

    def cause_given(self, record: History) -> None:
        self._chain = extend_chain(self._chain, record, record)

    def member_changed(self, record: ConsumerMemberUpdated) -> None:
        pass_on(self._chain, record)
        super().member_changed(record)

    def epoch_raised(self, record: GroupEpochBumped) -> None:
        super().epoch_raised(record)
        self._chain = []

    def rebalance_started(self, record: RebalanceStarted) -> None:
        chain: list[tuple[int, History]] = chain_before(self._chain, record.caused_by)
        # That the group was created says nothing that the first member's joining does not say.
        causes = tuple(cause for _, cause in chain if not isinstance(cause, GroupCreated))
        self.current = Rebalance(
            started=record,
            causes=causes,
            owned_before=self._departed | self.owners,
            members=dict(self.members),
            interrupted=self._counted,
            unresolved=self.unresolved,
        )
        if self._departed:
            self.current.owned_after = self.owners
        self._chain, self._departed = [], {}

    def members_settled(self, record: JoinPhaseCompleted) -> None:
        super().members_settled(record)
        if self.current is not None:
            self.current.join_phase = record

    def partitions_assigned(self, record: HistoryRecord, assignments: Sequence[MemberAssignment]) -> None:
        self._by_member = False
        self._gone = set()
        self._own({assignment.member_id: assignment.topics for assignment in assignments})

    def partitions_of_member(self, record: MemberReconciled, topics: tuple[AssignedTopic, ...]) -> None:
        super().partitions_of_member(record, topics)
        pass_on(self._chain, record)
        self._by_member = True
        self._own({**self.owners, record.member.member_id: topics})

    def _own(self, owners: Ownership) -> None:
        self.owners = owners
        if self.current is not None:
            self.current.owned_after = owners

    def target_computed(self, record: TargetAssignmentComputed) -> None:
        super().target_computed(record)
        if self.current is not None:
            self.current.target = dict(self.way.targets)

    def rebalance_ended(self, record: RebalanceCompleted) -> None:
        if self.current is not None:
            self.current.completed = record
            self.current.unresolved = dict(self.unresolved)
            self._counted = self.current.counts

    def group_emptied(self, record: HistoryRecord) -> None:
        self._own({})
        self.way.clear()

    def group_died(self, record: GroupDead) -> None:
        self.group_emptied(record)

    def track_lost(self, record: RecordingGap) -> None:
        self.owners, self._departed = {}, {}
        if self.current is not None:
            self.current.gap = record.reason

    def member_departed(self, record: History, member: MemberIdentity, departure: Departure) -> None:
        super().member_departed(record, member, departure)
        # Where all are told at once, the next assignment says what became of its partitions.
        if not self._by_member:
            self._gone.add(member.member_id)
        elif member.member_id in self.owners:
            self._depart(member.member_id)

    def _depart(self, member_id: str) -> None:
        self._departed[member_id] = self.owners[member_id]
        self.owners = {owner: topics for owner, topics in self.owners.items() if owner != member_id}

    def member_replaced(self, record: MemberReplaced) -> None:
        super().member_replaced(record)
        if record.old_member_id in self.owners:
            names = {record.old_member_id: record.member.member_id}
            self.owners = {names.get(owner, owner): topics for owner, topics in self.owners.items()}


def rebalances(records: Iterable[History], story: GroupStory | None = None) -> Iterator[Rebalance]:
    """Yield the rebalances of one group, in order; the last one may be unfinished. `story`: follows the group."""
    story = story or GroupStory()
    before: Rebalance | None = None
    for record in records:
        story.add(record)
        if before is not None and story.current is not before:
            yield before
        before = story.current
    if before is not None:
        yield before


def because(rebalance: Rebalance) -> str:
    """Return why a rebalance started, also where its group went over to another protocol with it: by whom that was."""
    text = sentences.because(rebalance.started)
    conversion = next((cause for cause in rebalance.causes if isinstance(cause, GroupConverted)), None)
    if conversion is None:
        return text
    if rebalance.started.trigger == "group_converted":
        gone = [cause for cause in rebalance.causes if isinstance(cause, Gone | MemberGone)]
        ends = [f"; {words.member(cause.member)} {_ENDS[type(cause)]}" for cause in gone[-1:]]
        return "".join([text.removesuffix("."), *ends])
    return f"{text}, with which the group went over to the {conversion.to_protocol} protocol"


def _held_up_by(rebalance: Rebalance) -> Gone | None:
    """The record of a member that was waited for to the last, and went instead of coming."""
    if rebalance.join_phase is None:
        return None
    awaited = {member.member_id for member in rebalance.join_phase.waited_for if member.joined_ms is None}
    ends = [step for step in rebalance.steps if isinstance(step, Gone) and step.member.member_id in awaited]
    ended_ms = rebalance.join_phase.timestamp_ms
    return ends[-1] if ends and ends[-1].timestamp_ms == ended_ms else None


def _still_awaited(rebalance: Rebalance) -> list[str]:
    """Return whom a rebalance waits for that is not over: not who has come, gone, or given up its partitions since."""
    if rebalance.counts == "epoch":
        return [holder.member_id for holder in rebalance.holders]
    if rebalance.join_phase is not None:
        return []
    done = {step.member.member_id for step in rebalance.steps if isinstance(step, MemberRejoined | Gone)}
    return [member_id for member_id in rebalance.started.waiting_for if member_id not in done]


def headline(rebalance: Rebalance, zone: tzinfo = UTC) -> str:
    """Return a rebalance in one line: `02:14:07 payments: generation 7 because b expired (last heard 10.2 s ago);
    ...`."""
    started, completed = rebalance.started, rebalance.completed
    leads_to = f"{rebalance.counts} {rebalance.generation_id}"
    text = f"{words.clock(started.timestamp_ms, zone)} {started.group_id}: {leads_to} because "
    text += because(rebalance)
    if rebalance.gap is not None:
        return text + "; how it ended is not recorded"
    if completed is None:
        waiting = _still_awaited(rebalance)
        return text + "; not over" + (f", waiting for {words.names(waiting)}" if waiting else "")
    text += sentences.waited(completed, _held_up_by(rebalance))
    ends = {
        "stable": "done",
        "empty": "the group is empty",
        "interrupted": "interrupted",
        "coordinator_changed": "ended with its coordinator",
    }
    return f"{text}; {ends[completed.outcome]}{sentences.after(completed)}"
