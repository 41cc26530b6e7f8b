"""A view hears of a group's history in the same words for every kind of group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

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

Departure = Literal["left", "expired", "dropped", "unknown"]
"""How a member that was in the group went: by itself, unheard for its session timeout, put out by a rule, or untold."""


Removal = Literal["expired", "deleted", "unknown"]
"""How an offset went: by time, by a request or with its topic, or untold."""


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
        """Another life of the group begins with this record. The end of the one before may be missing from history."""

    def state_entered(self, record: HistoryRecord, state: str) -> None:
        """The group is in this state from now on. It comes after whatever else the record says."""

    def group_found(
        self, record: HistoryRecord, members: Iterable[JoinedMember], leader_id: str | None, protocol_name: str | None
    ) -> None:
        """History tells of the group from here on. What it was before is not known."""

    def track_lost(self, record: HistoryRecord, reason: str) -> None:
        """From here on history does not tell what became of the group, and why it does not."""

    def group_emptied(self, record: HistoryRecord) -> None:
        """The last member is gone."""

    def group_died(self, record: HistoryRecord) -> None:
        """The group is gone."""

    # -------------------------------------------------------------------------------------------------------- members

    def member_id_given(
        self, record: HistoryRecord, member: MemberIdentity, session_timeout_ms: int | None
    ) -> None:
        """A client was given a member id and has not joined yet."""

    def member_id_forgotten(self, record: HistoryRecord, member_id: str, reason: str) -> None:
        """A member id that was given out and never used is no longer valid."""

    def member_joined(self, record: HistoryRecord, joined: JoinedMember) -> None:
        """A member was added to the group."""

    def member_rejoined(
        self, record: HistoryRecord, member: MemberIdentity, subscribed_topics: tuple[str, ...] | None
    ) -> None:
        """A member of the group came into the rebalance that runs."""

    def member_changed(self, record: HistoryRecord, changed: JoinedMember) -> None:
        """A member asks for something else, and keeps what it owns."""

    def member_replaced(
        self, record: HistoryRecord, member: MemberIdentity, old_member_id: str, rebalanced: bool
    ) -> None:
        """A static member goes on under a new id. Without a rebalance it keeps its partitions."""

    def member_departed(
        self, record: History, member: MemberIdentity, how: Departure, reason: str | None
    ) -> None:
        """A member is no longer in the group."""

    def member_fenced(self, record: HistoryRecord) -> None:
        """A client that uses the static id of another member was refused."""

    # ----------------------------------------------------------------------------------------------------- rebalances

    def cause_given(self, record: History) -> None:
        """This record may be what leads to a rebalance. It comes before whatever else the record says."""

    def rebalance_started(self, record: RebalanceStarted) -> None:
        """Members must find together anew."""

    def rebalance_extended(self, record: HistoryRecord, deadline_ms: int) -> None:
        """The rebalance may take longer than was said at its start."""

    def members_settled(self, record: JoinPhaseCompleted) -> None:
        """Who is in the next epoch of the group is settled; who gets what is not."""

    def protocol_chosen(self, record: HistoryRecord, protocol_name: str) -> None:
        """How partitions are assigned is settled."""

    def leader_chosen(self, record: HistoryRecord, leader_id: str) -> None:
        """The member that computes assignments."""

    def partitions_assigned(
        self,
        record: HistoryRecord,
        assignments: Sequence[MemberAssignment],
        leader_id: str | None,
        rebalance: int | None,
    ) -> None:
        """Who owns what from now on: all that is owned.

        `leader_id`: the member that computed it; None: no member did.
        """

    def partitions_of_member(
        self, record: HistoryRecord, member: MemberIdentity, topics: tuple[AssignedTopic, ...]
    ) -> None:
        """What one member owns from now on: all of it. Others keep what they have."""

    def target_computed(self, record: HistoryRecord, assignments: Sequence[MemberAssignment]) -> None:
        """Who shall own what. Members come to it one by one."""

    def ownership_lost_from_view(self, record: HistoryRecord, member_ids: Sequence[str]) -> None:
        """What these members own is not known from now on, until partitions are assigned again."""

    def rebalance_ended(self, record: RebalanceCompleted) -> None:
        """The rebalance is over."""

    # ------------------------------------------------------------------------------------ offsets and refused requests

    def offsets_committed(self, record: OffsetsCommitted) -> None:
        """Offsets were stored."""

    def offsets_removed(
        self, record: OffsetsExpired | OffsetsDeleted | OffsetsRemoved, how: Removal
    ) -> None:
        """Offsets are no longer stored."""

    def request_refused(self, record: RequestRefused) -> None:
        """A request was answered with an error."""
