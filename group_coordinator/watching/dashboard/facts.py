"""The dashboard's facts about one group are small, and kept up to date record by record. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple

from msgspec import UNSET

from group_coordinator.ground.kafka_topics.bounds import Partition
from group_coordinator.watching.dashboard.committed import Committed, Growing, Jump, NearBegin, next_commit, next_jump
from group_coordinator.watching.dashboard.lag import EndOffsets, GroupLag, PartitionLag
from group_coordinator.watching.dashboard.returns import Coming, client_key
from group_coordinator.watching.history.current_group import CLASSIC, CONSUMER, SHARE
from group_coordinator.watching.history.reconciliation import rename
from group_coordinator.watching.history.states_over_time import StatesOverTime
from group_coordinator.watching.history.view import Departure, JoinedMember, Removal, RemovedOffsets
from group_coordinator.watching.narrative import holding, words
from schemas.consumer_group_history import MemberReconciled, TargetAssignmentComputed
from schemas.group_states import GroupState
from schemas.history import (
    AssignedTopic,
    GroupDead,
    GroupRecorded,
    History,
    HistoryRecord,
    JoinPhaseCompleted,
    MemberAssignment,
    MemberExpired,
    MemberIdentity,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceStarted,
    RecordingGap,
    RequestRefused,
)
from schemas.observed_history import GroupRestored

RECENT_MAX = 64
"""Rebalances and departures that are remembered one by one."""
READS_OUTSIDE = 3
"""Who commits so often while nobody is in the group does not set offsets, but reads."""
CONNECT_PROTOCOLS = ("sessioned", "compatible", "eager", "default")
"""Of Kafka Connect's workers: what they run are no partitions of topics."""


class Recent(NamedTuple):
    """A rebalance, as far as storms and flapping need it."""

    started_ms: int
    client: str
    """Whose doing it was (`client_key`); empty: nobody's in particular."""
    trigger: str
    stops_all: bool
    """Of a classic group."""


class GroupFacts(StatesOverTime):
    """One group as it is now, and what recently happened to it."""

    __slots__ = (
        "_stalled_seq", "_uncommitted", "assigned_ms", "comings", "completed", "deadline_ms",
        "group_id", "growing", "had_members", "idle", "jumps", "last_commit_ms", "near_begin",
        "not_begun", "offsets", "outside", "owned", "partitions", "rebalances", "recent", "refusals", "started",
        "topics", "waiting", "wants",
    )  # fmt: skip

    def __init__(self, group_id: str) -> None:
        super().__init__()
        self.group_id = group_id
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
        self.not_begun: tuple[Partition, ...] = ()
        """Of a share group, partitions of its topics that it has no offset of."""
        self.near_begin: dict[Partition, NearBegin] = {}
        self.jumps: dict[Partition, Jump] = {}
        self.outside: tuple[int, int, int] = (0, 0, 0)
        """Since when nobody is in the group, how many commits came since, and when the last did."""
        self.growing: dict[Partition | str, Growing] = {}
        """Where one partition or member has most of the lag."""
        self.wants: dict[str, tuple[str, ...] | None] = {}
        """The topics that each member of a classic group asks for; None: not known."""
        self.had_members = False
        self.started: RebalanceStarted | None = None
        """The last rebalance ..."""
        self.completed: RebalanceCompleted | None = None
        """... and its end."""
        self.deadline_ms: int | None = None
        self.waiting: dict[str, None] = {}
        """Members that the running rebalance still waits for."""
        self.recent: deque[Recent] = deque(maxlen=RECENT_MAX)
        self.comings: deque[Coming] = deque(maxlen=2 * RECENT_MAX)
        """And goings."""
        self._stalled_seq = -1
        """The last expiry that was its broker's doing."""
        self.last_commit_ms: int | None = None
        self.rebalances = 0
        self.refusals = 0

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
        if self.kind == SHARE:
            return self.not_begun
        if self._uncommitted is None:
            offsets = self.offsets
            is_connect = self.protocol_name in CONNECT_PROTOCOLS
            self._uncommitted = () if is_connect else tuple(place for place in self.owners() if place not in offsets)
        return self._uncommitted

    def lag(self, ends: EndOffsets, now_ms: int) -> GroupLag:
        """Return the lag of each partition with a committed offset."""
        owners, members = self.owners() if self.members else {}, self.members
        held = {one: [each for each in self.owned.get(one, ()) if each.partitions] for one in members}
        assigned: dict[str, tuple[int, int]] = {}
        for each in chain.from_iterable(held.values()):
            has, number = assigned.get(each.topic, (0, 0))
            assigned[each.topic] = has + 1, number + len(each.partitions)
        return GroupLag(
            assignor=self.protocol_name,
            members_with_partitions=sum(map(bool, held.values())),
            assigned=dict(sorted(assigned.items())),
            partitions=tuple(
                PartitionLag(
                    *place, each.offset, ends.bounds.get(place),
                    ends.lag_of(place, each, now_ms), members.get(owners.get(place, "")),
                )
                for place, each in sorted(self.offsets.items())
            ),
        )  # fmt: skip

    def _owns(self, record: HistoryRecord, owned: dict[str, tuple[AssignedTopic, ...]]) -> None:
        self.owned, self.assigned_ms, self._uncommitted = owned, record.timestamp_ms, None

    # ------------------------------------------------------------------------------------------------------ the group

    def life_began(self, record: HistoryRecord) -> None:
        super().life_began(record)
        self.topics, self.partitions, self.idle = (), 0, 0
        self._owns(record, {})
        self.had_members = False

    def group_found(self, record: GroupRecorded | GroupRestored) -> None:
        super().group_found(record)
        self.wants = {joined.member.member_id: joined.subscribed_topics for joined in record.members}
        self.had_members = True

    def track_lost(self, record: RecordingGap) -> None:
        self.topics, self.partitions, self.idle = (), 0, 0
        self._owns(record, {})

    def group_died(self, record: GroupDead) -> None:
        self.offsets, self.jumps = {}, {}
        self._owns(record, {})

    def forget_members(self) -> None:
        super().forget_members()
        self.waiting, self.wants = {}, {}

    # -------------------------------------------------------------------------------------------------------- members

    def member_joined(self, record: HistoryRecord, joined: JoinedMember) -> None:
        if not self.members:
            self._owns(record, {})
        super().member_joined(record, joined)
        self.wants[joined.member.member_id] = joined.subscribed_topics
        self.comings.append(Coming(record.timestamp_ms, joined.member.member_id, client_key(joined.member), None, True))
        self.had_members = True

    def member_rejoined(self, record: MemberRejoined) -> None:
        super().member_rejoined(record)
        self.wants[record.member.member_id] = record.subscribed_topics
        self.waiting.pop(record.member.member_id, None)

    def member_replaced(self, record: MemberReplaced) -> None:
        super().member_replaced(record)
        rename(self.owned, record.old_member_id, record.member.member_id)
        rename(self.wants, record.old_member_id, record.member.member_id)
        if record.old_member_id in self.waiting:
            del self.waiting[record.old_member_id]
            self.waiting[record.member.member_id] = None

    def member_departed(self, record: History, member: MemberIdentity, departure: Departure) -> None:
        super().member_departed(record, member, departure)
        if self.members and self.owned.pop(member.member_id, None) is not None:
            self._uncommitted = None
        self.waiting.pop(member.member_id, None)
        self.wants.pop(member.member_id, None)
        is_own_doing = not isinstance(record, MemberExpired) or record.stalled_broker_id is UNSET
        if not is_own_doing:
            self._stalled_seq = record.seq
        coming = Coming(record.timestamp_ms, member.member_id, client_key(member), departure, is_own_doing)
        self.comings.append(coming)

    # ----------------------------------------------------------------------------------------------------- rebalances

    def rebalance_started(self, record: RebalanceStarted) -> None:
        self.started, self.completed = record, None
        self.deadline_ms = None if record.deadline_ms is None else _real_ms(record, record.deadline_ms)
        # Of a group that counts epochs `way` says who has yet to give up partitions, from record to record.
        self.waiting = dict.fromkeys(record.waiting_for if self.kind == CLASSIC else ())
        self.rebalances += 1
        # That a group comes together in the beginning is nobody's fault.
        has_doer = not record.initial and record.caused_by != self._stalled_seq
        client = client_key(record.member) if record.member is not None and has_doer else ""
        self.recent.append(Recent(record.timestamp_ms, client, record.trigger, self.kind == CLASSIC))

    def rebalance_extended(self, record: RebalanceExtended) -> None:
        self.deadline_ms = _real_ms(record, record.deadline_ms)

    def members_settled(self, record: JoinPhaseCompleted) -> None:
        super().members_settled(record)
        self.waiting = {}

    def partitions_assigned(self, record: HistoryRecord, assignments: Sequence[MemberAssignment]) -> None:
        self._owns(record, {share.member_id: share.topics for share in assignments if share.topics})
        self._count(assignments)

    def _count(self, assignments: Sequence[MemberAssignment]) -> None:
        topics = [topic for share in assignments for topic in share.topics or ()]
        self.topics = tuple(sorted({topic.topic for topic in topics}))
        self.partitions = sum(len(topic.partitions) for topic in topics)
        self.idle = sum(share.topics == () for share in assignments)

    def target_computed(self, record: TargetAssignmentComputed) -> None:
        super().target_computed(record)
        self._count(record.assignments)

    def partitions_of_member(self, record: MemberReconciled, topics: tuple[AssignedTopic, ...]) -> None:
        super().partitions_of_member(record, topics)
        if self.kind in (CLASSIC, CONSUMER):
            self.owned[record.member.member_id] = topics
            self._owns(record, self.owned)

    def rebalance_ended(self, record: RebalanceCompleted) -> None:
        self.completed = record
        if record.outcome != "interrupted":
            self.waiting, self.deadline_ms = {}, None

    # ------------------------------------------------------------------------------------ offsets and refused requests

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        super().offsets_committed(record)
        at_ms, assigned_ms, offsets = record.timestamp_ms, self.assigned_ms, self.offsets
        if not self.members:
            self._committed_outside(record)
        for change in record.offsets:
            place = change.topic, change.partition
            before = offsets.get(place)
            if before is None or change.offset is None:
                self._uncommitted = None
            if change.offset is None:
                offsets.pop(place, None)
            else:
                least = before.offset - (before.step if self.members else 0) if before is not None else 0
                if before is not None and (change.offset < least or place in self.jumps):
                    self._jumped(record, place, before.offset, change.offset)
                offsets[place] = next_commit(before, change.offset, at_ms, change.metadata, assigned_ms)
        self.last_commit_ms = record.timestamp_ms
        if not self.partitions:
            self.topics = tuple(sorted({topic for topic, _ in self.offsets}))

    def _jumped(self, record: OffsetsCommitted, place: Partition, before: int, offset: int) -> None:
        jump = next_jump(self.jumps.get(place), before, offset, record.timestamp_ms, lambda: self._who(record, place))
        if jump is None:
            del self.jumps[place]
        else:
            self.jumps[place] = jump

    def _committed_outside(self, record: OffsetsCommitted) -> None:
        """Take a commit while nobody is in the group. One that goes on, and is not one of many, has passed over
        messages: whoever reads as well commits again and again."""
        since_ms, commits, last_ms = self.outside
        if since_ms != self.state_since_ms:
            since_ms, commits, last_ms = self.state_since_ms, 0, 0
        commits += last_ms != record.timestamp_ms
        self.outside = since_ms, commits, record.timestamp_ms
        if commits >= READS_OUTSIDE:
            self.jumps = {place: each for place, each in self.jumps.items() if each.offset < each.before}
        if commits >= READS_OUTSIDE or not self.is_left or record.cause.certainty == "inferred":
            return
        for change in record.offsets:
            place = change.topic, change.partition
            before = self.offsets.get(place)
            if before is not None and change.offset is not None and change.offset > before.offset:
                who = self._who(record, place)
                self.jumps.setdefault(place, Jump(record.timestamp_ms, before.offset, change.offset, who))

    def _who(self, record: OffsetsCommitted, place: Partition) -> str:
        """Return who committed. Brokers take commits only of members, or while there is none."""
        cause, owner = record.cause, self.owners().get(place)
        if record.member_id is not None:
            return holding.called(record.member_id, self.members)
        if cause.kind not in ("observed", "transaction_ended"):
            return f"{words.client(cause)}, which is no member,"
        if cause.certainty == "inferred" or cause.kind == "transaction_ended":
            return "somebody, not known who,"
        if self.members:
            return "a member" if owner is None else f"a member ({holding.called(owner, self.members)} has it)"
        return "an admin tool or another client that is no member" if self.is_left else "somebody, not known who,"

    @property
    def is_left(self) -> bool:
        """Whether nobody is in the group for sure: what is committed comes from elsewhere."""
        return self.had_members and self.state == GroupState.EMPTY

    def offsets_removed(self, record: RemovedOffsets, removal: Removal) -> None:
        super().offsets_removed(record, removal)
        for removed in record.offsets:
            self.offsets.pop((removed.topic, removed.partition), None)
        self._uncommitted = None

    def request_refused(self, record: RequestRefused) -> None:
        self.refusals += 1


def _real_ms(record: HistoryRecord, deadline_ms: int) -> int:
    """Return a deadline of the group's clock by the time that is shown everywhere else."""
    return record.timestamp_ms + deadline_ms - record.time_ms
