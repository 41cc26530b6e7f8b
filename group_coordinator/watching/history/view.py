"""A view hears of a group's history in the same words for every kind of group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

from schemas.consumer_group_history import (
    ConsumerMemberUpdated,
    GroupConverted,
    GroupEpochBumped,
    MemberReconciled,
    RegexResolved,
    TargetAssignmentComputed,
)
from schemas.history import (
    AssignedTopic,
    GroupDead,
    GroupRecorded,
    History,
    HistoryRecord,
    JoinPhaseCompleted,
    MemberAssignment,
    MemberFenced,
    MemberIdAssigned,
    MemberIdentity,
    MemberRejoined,
    MemberReplaced,
    OffsetsCommitted,
    OffsetsDeleted,
    OffsetsExpired,
    PendingMemberRemoved,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceStarted,
    RecordingGap,
    RequestRefused,
)
from schemas.observed_history import GroupRestored, OffsetsRemoved, OwnershipNotKnown
from schemas.transaction_history import NeverCounted, TransactionalOffsetsPending

Departure = Literal["left", "expired", "dropped", "unknown"]
"""How a member that was in the group went: by itself, unheard for its session timeout, put out by a rule, or untold."""


Removal = Literal["expired", "deleted", "unknown"]
"""How an offset went: by time, by a request or with its topic, or untold."""

RemovedOffsets = OffsetsExpired | OffsetsDeleted | OffsetsRemoved


class JoinedMember(Protocol):
    """The known facts about a member that is in the group."""

    @property
    def member(self) -> MemberIdentity: ...
    @property
    def session_timeout_ms(self) -> int | None: ...
    @property
    def rebalance_timeout_ms(self) -> int | None: ...
    @property
    def protocols(self) -> tuple[str, ...]: ...
    @property
    def subscribed_topics(self) -> tuple[str, ...] | None: ...


class HistoryView:
    """A view overrides what it shows. Every method gets the record that says so: its place, time, epoch and cause."""

    __slots__ = ()

    # ------------------------------------------------------------------------------------------------------ the group

    def life_began(self, record: HistoryRecord) -> None:
        """Called when another epoch of the group begins with this record. The end of the one before may be missing
        from history."""

    def state_entered(self, record: HistoryRecord, state: str) -> None:
        """Called when the group enters this state, after all other calls for the record."""

    def group_found(self, record: GroupRecorded | GroupRestored) -> None:
        """Called when history begins to tell of a group that was there before. What it was is not known."""

    def group_converted(self, record: GroupConverted) -> None:
        """Called when the group goes on under another protocol, with its members."""

    def track_lost(self, record: RecordingGap) -> None:
        """Called when history does not tell what became of the group from here on, with the reason."""

    def group_emptied(self, record: HistoryRecord) -> None:
        """Called when the last member is gone."""

    def group_died(self, record: GroupDead) -> None:
        """Called when the group is deleted."""

    # -------------------------------------------------------------------------------------------------------- members

    def member_id_given(self, record: MemberIdAssigned) -> None:
        """Called when a client was given a member id and has not joined yet."""

    def member_id_forgotten(self, record: PendingMemberRemoved) -> None:
        """Called when a member id that was given out and never used is no longer valid."""

    def member_joined(self, record: HistoryRecord, joined: JoinedMember) -> None:
        """Called when a member was added to the group."""

    def member_rejoined(self, record: MemberRejoined) -> None:
        """Called when a member joined the rebalance that runs."""

    def member_changed(self, record: ConsumerMemberUpdated) -> None:
        """Called when a member changes what it asks for. It keeps what it owns."""

    def member_replaced(self, record: MemberReplaced) -> None:
        """Called when a static member goes on under a new id. Without a rebalance it keeps its partitions."""

    def member_departed(self, record: History, member: MemberIdentity, departure: Departure) -> None:
        """Called when a member is no longer in the group."""

    def member_fenced(self, record: MemberFenced) -> None:
        """Called when a client was refused that uses the static id of another member."""

    # ----------------------------------------------------------------------------------------------------- rebalances

    def cause_given(self, record: History) -> None:
        """Called before all other calls for a record that may lead to a rebalance."""

    def rebalance_started(self, record: RebalanceStarted) -> None:
        """Called when a rebalance starts."""

    def rebalance_extended(self, record: RebalanceExtended) -> None:
        """Called when the rebalance may take longer than its first deadline."""

    def members_settled(self, record: JoinPhaseCompleted) -> None:
        """Called when the members of the group's next epoch are settled, and their assignment is not."""

    def protocol_chosen(self, record: HistoryRecord, protocol_name: str) -> None:
        """Called when the assignor is chosen."""

    def leader_chosen(self, record: HistoryRecord, leader_id: str) -> None:
        """Called with the member that computes assignments."""

    def partitions_assigned(self, record: HistoryRecord, assignments: Sequence[MemberAssignment]) -> None:
        """Called with all that is owned from now on, by member."""

    def partitions_of_member(self, record: MemberReconciled, topics: tuple[AssignedTopic, ...]) -> None:
        """Called with all that one member owns from now on. Others keep what they have."""

    def epoch_raised(self, record: GroupEpochBumped) -> None:
        """Called when a group that counts epochs goes to another one; its target is not computed yet."""

    def target_computed(self, record: TargetAssignmentComputed) -> None:
        """Called with the target assignment, to which members come one by one."""

    def regex_resolved(self, record: RegexResolved) -> None:
        """Called when it is known which topics match an expression, or nobody has the expression any more."""

    def ownership_lost_from_view(self, record: OwnershipNotKnown) -> None:
        """Called when it is no longer known what some members own, until partitions are assigned again."""

    def rebalance_ended(self, record: RebalanceCompleted) -> None:
        """Called when the rebalance is over."""

    # ------------------------------------------------------------------------------------ offsets and refused requests

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        """Called when offsets were stored."""

    def offsets_removed(self, record: RemovedOffsets, removal: Removal) -> None:
        """Called when offsets are no longer stored."""

    def offsets_pending(self, record: TransactionalOffsetsPending) -> None:
        """Called when offsets were written in a transaction."""

    def offsets_never_counted(self, record: NeverCounted) -> None:
        """Called when the transaction in which offsets were written was aborted, or later commits had replaced them."""

    def request_refused(self, record: RequestRefused) -> None:
        """Called when a request was answered with an error."""
