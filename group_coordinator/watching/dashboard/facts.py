"""The dashboard's facts about one group are small, and kept up to date record by record. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard.committed import Committed, NearBegin, next_commit
from group_coordinator.watching.history.fold import GroupFold
from group_coordinator.watching.history.holding import Holder
from group_coordinator.watching.history.reconciliation import Reconciliation, rename
from group_coordinator.watching.history.view import Departure, JoinedMember, Removal
from schemas.consumer_group_history import (
    ConsumerMember,
    GroupConverted,
    GroupEpochBumped,
    MemberReconciled,
    RegexResolved,
    TargetAssignmentComputed,
)
from schemas.group_states import ASSIGNING, NO_GROUP, RECONCILING, UNKNOWN, GroupState
from schemas.history import (
    AssignedTopic,
    History,
    HistoryRecord,
    JoinPhaseCompleted,
    MemberAssignment,
    MemberIdentity,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    RebalanceCompleted,
    RebalanceStarted,
    RequestRefused,
)
from schemas.observed_history import OffsetsRemoved

CLASSIC, CONSUMER = "classic", "consumer"
STATES: tuple[str, ...] = (NO_GROUP, *(state.value for state in GroupState), UNKNOWN, ASSIGNING, RECONCILING)
"""A state is kept as its number in this list."""
RECENT_MAX = 64
"""Rebalances and departures that are remembered one by one."""
TRANSITIONS_MAX = 1_024
_WIDTH = 4
CONNECT_PROTOCOLS = ("sessioned", "compatible", "eager", "default")
"""Of Kafka Connect's workers: what they run are no partitions of topics."""
WITHOUT_MEMBERS = (GroupState.EMPTY.value, GroupState.DEAD.value, UNKNOWN)


class Recent(NamedTuple):
    """A rebalance, as far as storms and flapping need it."""

    started_ms: int
    client: str
    """Whose doing it was (`client_key`); empty: nobody's in particular."""
    trigger: str


class Moment(NamedTuple):
    """The group as it was at some time."""

    since_ms: int
    state: str
    generation_id: int
    members: int


def client_key(member: MemberIdentity) -> str:
    """Return the same key for all members that one client has been: its static id, else client id and host."""
    return member.group_instance_id or f"{member.client_id}@{member.client_host.lstrip('/')}"


class GroupFacts(GroupFold):
    """One group as it is now, and what recently happened to it."""

    __slots__ = (
        "_resolved", "_transitions", "_uncommitted", "asks", "assigned_ms", "completed", "deadline_ms", "departures",
        "first_ms", "generation_id",
        "group_id", "had_members", "idle", "kind", "last_commit_ms", "last_ms", "leader_id", "members",
        "near_begin", "offsets", "owned", "partitions", "protocol_name",
        "rebalances", "recent", "refusals", "started", "state", "state_since_ms",
        "topics", "version", "waiting", "way",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self.group_id = group_id
        self.version = 0
        """Grows with every record."""
        self.state = NO_GROUP
        self.state_since_ms = 0
        self.generation_id = 0
        self.kind = CLASSIC
        """The kind of the group; groups that are not classic count epochs."""
        self.way = Reconciliation()
        """It has the target of a group that counts epochs, and how far members have come."""
        self.asks: dict[str, ConsumerMember] = {}
        """What its members ask for; without those that came with it when it was a classic one."""
        self._resolved: dict[str, tuple[str, ...]] = {}
        """Expression -> the topics that match it."""
        self.protocol_name: str | None = None
        self.leader_id: str | None = None
        self.members: dict[str, MemberIdentity] = {}
        self.topics: tuple[str, ...] = ()
        """Assigned ones; of a group that never had an assignment those that it committed for."""
        self.partitions = 0
        self.idle = 0
        """Members that the last assignment gave nothing."""
        self.owned: dict[str, tuple[AssignedTopic, ...]] = {}
        """What each member has. What the last ones had stays when nobody is left."""
        self.assigned_ms = 0
        """When any of it was last assigned."""
        self._uncommitted: tuple[Partition, ...] | None = None
        self.offsets: dict[Partition, Committed] = {}
        self.near_begin: dict[Partition, NearBegin] = {}
        self.had_members = False
        self.started: RebalanceStarted | None = None
        """The last rebalance ..."""
        self.completed: RebalanceCompleted | None = None
        """... and its end."""
        self.deadline_ms: int | None = None
        self.waiting: dict[str, None] = {}
        """Members that the running rebalance still waits for."""
        self.recent: deque[Recent] = deque(maxlen=RECENT_MAX)
        self.departures: deque[tuple[int, str, Departure]] = deque(maxlen=RECENT_MAX)
        """(when, which client, how)."""
        self.first_ms = 0
        self.last_ms = 0
        self.last_commit_ms: int | None = None
        self.rebalances = 0
        self.refusals = 0
        self._transitions = array("q")

    def at(self, time_ms: int) -> Moment | None:
        """Return the group as it was; None if it did not exist, or if that is longer ago than is remembered."""
        transitions = self._transitions[:]  # others may ask while records come
        begin = len(transitions) - _WIDTH  # mostly it is the last one
        if begin >= 0 and transitions[begin] > time_ms:
            starts = range(0, len(transitions), _WIDTH)
            begin = (bisect_right(starts, time_ms, key=transitions.__getitem__) - 1) * _WIDTH
        if begin < 0:
            return None
        since_ms, state, generation_id, members = transitions[begin : begin + _WIDTH]
        return Moment(since_ms, STATES[state], generation_id, members)

    def moments(self) -> list[Moment]:
        """Return all remembered moments, the oldest first."""
        transitions = self._transitions
        return [
            Moment(transitions[i], STATES[transitions[i + 1]], transitions[i + 2], transitions[i + 3])
            for i in range(0, len(transitions), _WIDTH)
        ]

    # ----------------------------------------------------------------------------------------- groups that count epochs

    @property
    def classic_members(self) -> list[str]:
        """Return the members of the classic protocol in a consumer group."""
        if self.kind != "consumer":
            return []
        asks = self.asks
        return [each for each in self.members if each not in asks or asks[each].uses_classic_protocol]

    @property
    def regexes(self) -> dict[str, tuple[str, ...] | None]:
        """Return the members' expressions, with the topics that match; None: these have not been looked for yet."""
        asked = {asks.subscribed_regex for asks in self.asks.values() if asks.subscribed_regex}
        return {regex: self._resolved.get(regex) for regex in sorted(asked)}

    def holders(self) -> tuple[Holder, ...]:
        """Return who must give up partitions, the one that has known it longest first; in a share group, where several
        members have the same partitions, nobody."""
        return () if self.kind == "share" else self.way.holders()

    def gives_up_by_ms(self, member_id: str) -> int | None:
        """Return when a member that does not give up what it was told to is dropped; None: not known."""
        record, asks = self.way.progress.get(member_id), self.asks.get(member_id)
        if record is None or asks is None or asks.uses_classic_protocol or asks.rebalance_timeout_ms is None:
            return None
        return record.timestamp_ms + asks.rebalance_timeout_ms if record.state == "unrevoked_partitions" else None

    # -------------------------------------------------------------------------------------------------------- offsets

    def owners(self) -> dict[Partition, str]:
        """Return the member that has each partition, or was the last to have it."""
        return {
            (topic.topic, number): member_id
            for member_id, topics in self.owned.items()
            for topic in topics
            for number in topic.partitions
        }

    @property
    def uncommitted(self) -> tuple[Partition, ...]:
        """Return the partitions that were assigned and have no committed offset."""
        if self._uncommitted is None:
            offsets = self.offsets
            is_connect = self.protocol_name in CONNECT_PROTOCOLS
            self._uncommitted = () if is_connect else tuple(place for place in self.owners() if place not in offsets)
        return self._uncommitted

    def _owns(self, record: HistoryRecord, owned: dict[str, tuple[AssignedTopic, ...]]) -> None:
        self.owned, self.assigned_ms, self._uncommitted = owned, record.timestamp_ms, None

    # ------------------------------------------------------------------------------------------------------ the group

    def follow(self, record: History) -> None:
        self.version += 1
        self.first_ms = self.first_ms or record.timestamp_ms
        self.last_ms = max(self.last_ms, record.timestamp_ms)
        if isinstance(record, GroupEpochBumped):
            self.kind = record.protocol
        elif isinstance(record, GroupConverted):
            self.kind = record.to_protocol
            self.way.clear()
            self.asks, self._resolved = {}, {}
        elif isinstance(record, RegexResolved):
            self._resolved.pop(record.regex, None)
            if record.topics is not None:
                self._resolved[record.regex] = record.topics
        super().follow(record)

    def life_began(self, record: HistoryRecord) -> None:
        self._forget_members()
        self.kind = CLASSIC
        self.leader_id = self.protocol_name = None
        self.generation_id = 0
        self.topics, self.partitions, self.idle = (), 0, 0
        self._owns(record, {})
        self.had_members = False
        if self.state in (NO_GROUP, GroupState.DEAD):  # and history does not go back to its creation
            self.state_entered(record, GroupState.EMPTY.value)

    def group_found(
        self, record: HistoryRecord, members: Iterable[JoinedMember], leader_id: str | None, protocol_name: str | None
    ) -> None:
        self.members = {joined.member.member_id: joined.member for joined in members}
        self.had_members = True
        self.leader_id, self.protocol_name = leader_id, protocol_name

    def track_lost(self, record: HistoryRecord, reason: str) -> None:
        self.topics, self.partitions, self.idle = (), 0, 0
        self._owns(record, {})

    def state_entered(self, record: HistoryRecord, state: str) -> None:
        entered = state, record.timestamp_ms, record.generation_id
        if entered == (self.state, self.state_since_ms, self.generation_id):
            return  # as when a life began
        self.state, self.state_since_ms, self.generation_id = entered
        if state in WITHOUT_MEMBERS and not isinstance(record, GroupConverted):  # members go over with their group
            self._forget_members()
        if state == GroupState.DEAD:
            self.offsets = {}
            self._owns(record, {})
        # A moment is never before the one that came first, so that it can be found by bisection.
        last_ms = self._transitions[-_WIDTH] if self._transitions else record.timestamp_ms
        at_ms = max(last_ms, record.timestamp_ms)
        self._transitions.extend((at_ms, STATES.index(state), record.generation_id, len(self.members)))
        if len(self._transitions) > TRANSITIONS_MAX * _WIDTH:
            del self._transitions[: TRANSITIONS_MAX // 4 * _WIDTH]

    # -------------------------------------------------------------------------------------------------------- members

    def member_joined(self, record: HistoryRecord, joined: JoinedMember) -> None:
        if not self.members:
            self._owns(record, {})
        self.members[joined.member.member_id] = joined.member
        self.had_members = True
        self.member_changed(record, joined)

    def member_changed(self, record: HistoryRecord, updated: JoinedMember) -> None:
        if isinstance(updated, ConsumerMember):
            self.asks[updated.member.member_id] = updated

    def member_rejoined(
        self, record: HistoryRecord, member: MemberIdentity, subscribed_topics: tuple[str, ...] | None
    ) -> None:
        self.members[member.member_id] = member
        self.waiting.pop(member.member_id, None)

    def member_replaced(
        self, record: HistoryRecord, member: MemberIdentity, old_member_id: str, rebalanced: bool
    ) -> None:
        self.way.replace(old_member_id, member.member_id)
        rename(self.asks, old_member_id, member.member_id)
        rename(self.owned, old_member_id, member.member_id)
        self.members.pop(old_member_id, None)
        self.members[member.member_id] = member
        if old_member_id in self.waiting:
            del self.waiting[old_member_id]
            self.waiting[member.member_id] = None
        if self.leader_id == old_member_id:
            self.leader_id = member.member_id

    def member_departed(
        self, record: History, member: MemberIdentity, departure: Departure, reason: str | None
    ) -> None:
        self._forget(member.member_id)
        self.waiting.pop(member.member_id, None)
        self.departures.append((record.timestamp_ms, client_key(member), departure))

    def _forget(self, member_id: str) -> None:
        self.members.pop(member_id, None)
        if self.members and self.owned.pop(member_id, None) is not None:
            self._uncommitted = None
        self.asks.pop(member_id, None)
        self.way.forget(member_id)

    def _forget_members(self) -> None:
        self.members, self.waiting, self.asks, self._resolved = {}, {}, {}, {}
        self.way.clear()

    # ----------------------------------------------------------------------------------------------------- rebalances

    def rebalance_started(self, record: RebalanceStarted) -> None:
        self.started, self.completed = record, None
        self.deadline_ms = None
        if record.deadline_ms is not None:
            self.rebalance_extended(record, record.deadline_ms)
        # Of a group that counts epochs `way` says who has yet to give up partitions, from record to record.
        self.waiting = dict.fromkeys(record.waiting_for if self.kind == CLASSIC else ())
        self.rebalances += 1
        # That a group comes together in the beginning is nobody's fault.
        client = client_key(record.member) if record.member is not None and not record.initial else ""
        self.recent.append(Recent(record.timestamp_ms, client, record.trigger))

    def rebalance_extended(self, record: HistoryRecord, deadline_ms: int) -> None:
        self.deadline_ms = record.timestamp_ms + deadline_ms - record.time_ms

    def members_settled(self, record: JoinPhaseCompleted) -> None:
        self.waiting = {}
        identities = self.members
        self.members = {member_id: identities[member_id] for member_id in record.members if member_id in identities}

    def protocol_chosen(self, record: HistoryRecord, protocol_name: str) -> None:
        self.protocol_name = protocol_name

    def leader_chosen(self, record: HistoryRecord, leader_id: str) -> None:
        self.leader_id = leader_id

    def partitions_assigned(
        self,
        record: HistoryRecord,
        assignments: Sequence[MemberAssignment],
        leader_id: str | None,
        rebalance: int | None,
    ) -> None:
        self._owns(record, {share.member_id: share.topics for share in assignments if share.topics})
        self._count(assignments)

    def _count(self, assignments: Sequence[MemberAssignment]) -> None:
        topics = [topic for share in assignments for topic in share.topics or ()]
        self.topics = tuple(sorted({topic.topic for topic in topics}))
        self.partitions = sum(len(topic.partitions) for topic in topics)
        self.idle = sum(share.topics == () for share in assignments)

    def target_computed(self, record: TargetAssignmentComputed, assignments: Sequence[MemberAssignment]) -> None:
        self._count(assignments)
        self.way.aim(record.assignment_epoch, assignments)

    def partitions_of_member(
        self, record: HistoryRecord, member: MemberIdentity, topics: tuple[AssignedTopic, ...]
    ) -> None:
        if isinstance(record, MemberReconciled):
            self.way.come(record)
        if self.kind in (CLASSIC, CONSUMER):
            self.owned[member.member_id] = topics
            self._owns(record, self.owned)

    def rebalance_ended(self, record: RebalanceCompleted) -> None:
        self.completed = record
        if record.outcome != "interrupted":
            self.waiting, self.deadline_ms = {}, None

    # ------------------------------------------------------------------------------------ offsets and refused requests

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        at_ms, assigned_ms, offsets = record.timestamp_ms, self.assigned_ms, self.offsets
        for change in record.offsets:
            place = change.topic, change.partition
            before = offsets.get(place)
            if before is None or change.offset is None:
                self._uncommitted = None
            if change.offset is None:
                offsets.pop(place, None)
            else:
                offsets[place] = next_commit(before, change.offset, at_ms, change.metadata, assigned_ms)
        self.last_commit_ms = record.timestamp_ms
        if not self.partitions:
            self.topics = tuple(sorted({topic for topic, _ in self.offsets}))

    def offsets_removed(self, record: OffsetsExpired | OffsetsDeleted | OffsetsRemoved, removal: Removal) -> None:
        for removed in record.offsets:
            self.offsets.pop((removed.topic, removed.partition), None)
        self._uncommitted = None

    def request_refused(self, record: RequestRefused) -> None:
        self.refusals += 1
