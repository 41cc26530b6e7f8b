"""History that only watched groups have: what evidence does not say, and what happens to coordinators."""

from __future__ import annotations

from typing import Literal

from schemas.history_parts import HistoryRecord, MemberAssignment, MemberIdentity, MemberRecorded, OffsetChange


class MemberGone(HistoryRecord, frozen=True, kw_only=True, tag="member_gone"):
    """A member that was in the group is not in it any more: it left or expired, not known which."""

    member: MemberIdentity


class OwnershipNotKnown(HistoryRecord, frozen=True, kw_only=True, tag="ownership_not_known"):
    """From here on it is not known what these members own, until partitions are assigned again."""

    member_ids: tuple[str, ...]
    reason: Literal["rejoining", "eager_member", "not_recorded"] = "rejoining"
    """A rebalance runs in which each gives up its partitions when it rejoins, and when each does is not told; the same,
    although the assignor is a cooperative one; or no record has the assignment that is in force."""


class GenerationsNotRecorded(HistoryRecord, frozen=True, kw_only=True, tag="generations_not_recorded"):
    """These generations left no record: their leaders sent no assignment, or the records are compacted or lost."""

    first_generation_id: int
    last_generation_id: int


class CoordinatorChanged(HistoryRecord, frozen=True, kw_only=True, tag="coordinator_changed"):
    """Another broker coordinates the group, or the same one anew; members' sessions begin again when it has loaded."""

    broker_id: int | None
    leader_epoch: int | None
    """Of the partition of the offsets topic."""


class CoordinatorStalled(HistoryRecord, frozen=True, kw_only=True, tag="coordinator_stalled"):
    """The group's coordinator seems to have stood still, and members expired because it heard nobody."""

    broker_id: int
    since_ms: int
    until_ms: int
    members: int
    """So many members expired by it ..."""
    groups: int
    """... of so many groups."""


class MemberRestored(HistoryRecord, frozen=True, kw_only=True, tag="member_restored"):
    """A member that had gone is in the group again: its going was never stored, so the new coordinator has it still."""

    member: MemberIdentity
    departure: Literal["left", "expired", "dropped", "replaced", "unknown"]
    """How it had gone."""


class GroupRestored(HistoryRecord, frozen=True, kw_only=True, tag="group_restored"):
    """The new coordinator has the group as it was stored last, and nothing of what came after that."""

    leader_id: str
    protocol_name: str | None
    members: tuple[MemberRecorded, ...]
    assignments: tuple[MemberAssignment, ...]
    """What each member owns once more."""


class OffsetsRemoved(HistoryRecord, frozen=True, kw_only=True, tag="offsets_removed"):
    """Committed offsets are no longer stored: expired, or deleted by a request or with their topic, not known which."""

    offsets: tuple[OffsetChange, ...]


ObservedHistory = (
    MemberGone
    | OwnershipNotKnown
    | GenerationsNotRecorded
    | CoordinatorChanged
    | CoordinatorStalled
    | MemberRestored
    | GroupRestored
    | OffsetsRemoved
)
