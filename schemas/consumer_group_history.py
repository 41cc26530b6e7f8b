"""History of consumer groups (KIP-848), where `generation_id` is the group epoch."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from schemas.history_parts import AssignedTopic, HistoryRecord, MemberAssignment, MemberIdentity, RebalanceTrigger

EpochReason = Literal[
    "member_joined",
    "member_left",
    "member_expired",
    "member_dropped",
    "member_gone",
    "subscription_changed",
    "static_member_replaced",
    "topics_changed",
    "regexes_resolved",
    "converted",
    "not_known",
]

TRIGGERS: dict[EpochReason, RebalanceTrigger] = {
    "member_joined": "member_joined",
    "member_left": "member_left",
    "member_expired": "member_expired",
    "member_dropped": "member_dropped",
    "static_member_replaced": "static_member_replaced",
    "subscription_changed": "subscription_changed",
    "regexes_resolved": "regexes_resolved",
    "topics_changed": "topics_changed",
    "converted": "group_converted",
    "member_gone": "not_known",
    "not_known": "not_known",
}
"""Why an epoch rose -> what started the rebalance. Of several reasons the first in this order is named."""


GroupKind = Literal["consumer", "share", "streams"]
"""Of groups that count epochs."""


class GroupEpochBumped(HistoryRecord, frozen=True, kw_only=True, tag="group_epoch_bumped"):
    """Something changed that the assignment depends on: a new target assignment is due."""

    protocol: GroupKind = "consumer"
    reasons: tuple[EpochReason, ...]
    metadata_hash: int | None
    """Of the topics that the group subscribes to."""


class TargetAssignmentComputed(HistoryRecord, frozen=True, kw_only=True, tag="target_assignment_computed"):
    """What each member shall own in this assignment epoch. Members come to it one by one."""

    assignment_epoch: int
    assignor: str | None
    """None: the evidence does not name it."""
    assignments: tuple[MemberAssignment, ...]


class ConsumerMember(Struct, frozen=True, kw_only=True, gc=False):
    """A member of a consumer group, with what it asks for."""

    member: MemberIdentity
    rebalance_timeout_ms: int | None
    subscribed_topics: tuple[str, ...] | None
    subscribed_regex: str | None
    server_assignor: str | None
    rack_id: str | None
    uses_classic_protocol: bool
    """It speaks the classic protocol in a group of the new one (an online migration)."""
    session_timeout_ms: int | None = None
    protocols: tuple[str, ...] = ()


class ConsumerMemberJoined(HistoryRecord, frozen=True, kw_only=True, tag="consumer_member_joined"):
    """A member was added to a consumer group."""

    joined: ConsumerMember


SUBSCRIPTION = frozenset({"subscribed_topics", "subscribed_regex"})
"""The fields of a member that an assignment depends on."""


class ConsumerMemberUpdated(HistoryRecord, frozen=True, kw_only=True, tag="consumer_member_updated"):
    """A member of a consumer group asks for something else."""

    updated: ConsumerMember
    changed: tuple[str, ...]
    """The fields that differ."""


class ConsumerMemberAway(HistoryRecord, frozen=True, kw_only=True, tag="consumer_member_away"):
    """A static member left for a while: its partitions are kept for it until its session ends."""

    member: MemberIdentity


class MemberReconciled(HistoryRecord, frozen=True, kw_only=True, tag="member_reconciled"):
    """A member came a step nearer to its target assignment."""

    member: MemberIdentity
    state: Literal["stable", "unrevoked_partitions", "unreleased_partitions", "unknown"]
    """Stable; it must give up what is pending; or it waits for what others must give up."""
    member_epoch: int
    previous_epoch: int
    assigned: tuple[AssignedTopic, ...]
    pending_revocation: tuple[AssignedTopic, ...]


class MembersReconciled(HistoryRecord, frozen=True, kw_only=True, tag="members_reconciled"):
    """Every member owns what the target assignment gives it."""

    assignment_epoch: int


class GroupReconciling(HistoryRecord, frozen=True, kw_only=True, tag="group_reconciling"):
    """Not every member owns what the target assignment gives it any more, though the target is the same: a static
    member is away, or one must give up topics to which it does not subscribe any more."""


class RegexResolved(HistoryRecord, frozen=True, kw_only=True, tag="regex_resolved"):
    """The topics that match a pattern of the group's members; None: nobody has the pattern any more."""

    regex: str
    topics: tuple[str, ...] | None


class GroupConverted(HistoryRecord, frozen=True, kw_only=True, tag="group_converted"):
    """The group goes on under another protocol, with its members and offsets."""

    to_protocol: Literal["classic", "consumer", "share", "streams"]


ConsumerGroupHistory = (
    GroupEpochBumped
    | TargetAssignmentComputed
    | ConsumerMemberJoined
    | ConsumerMemberUpdated
    | ConsumerMemberAway
    | MemberReconciled
    | MembersReconciled
    | GroupReconciling
    | RegexResolved
    | GroupConverted
)
