"""A member's way from what it has to its target assignment: what it is told next.

A member first gives up what it must, then takes its new epoch with what is free; for the rest it waits.

| state | when | action |
| --- | --- | --- |
| STABLE | it is at another epoch than the target | next |
| STABLE | its subscription has changed | shrink |
| UNREVOKED_PARTITIONS | it says that it has given up all of it | next |
| UNREVOKED_PARTITIONS | it has not, or does not say, and its subscription has changed | shrink |
| UNRELEASED_PARTITIONS | always | next |
| UNKNOWN | it says that it owns nothing | next |
| UNKNOWN | it owns something, or does not say | fence |
| | else | nothing |

Source: `CurrentAssignmentBuilder` (Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import NamedTuple

from msgspec.structs import replace

from coordinator_state.consumer.member import ConsumerMember, MemberState, PartitionsWithEpochs, TargetAssignment
from coordinator_state.errors import Refusal
from schemas.error_codes import ErrorCode

OwnedPartitions = Mapping[str, Collection[int]]
"""Topic id -> partitions, as a member says it."""

IsFree = Callable[[str, int], bool]
"""Says of a topic id and a partition that no member has it, nor is still to give it up."""


class Subscription(NamedTuple):
    """What a member subscribes to, by name or by a regular expression that is resolved."""

    has_topics: bool
    """It subscribes to some topic, which need not exist."""
    topic_ids: frozenset[str]
    """Of the topics that exist: at least of those that it has or is to have."""


class Action(Enum):
    """What is done with a member."""

    NOTHING = "nothing"
    NEXT = "next"
    """Give up what is not in the target; if nothing is to be given up, take the epoch and what is free."""
    SHRINK = "shrink"
    """Give up the topics that it does not subscribe to any more, before there is a new target."""
    FENCE = "fence"
    """It must join again."""


def reconcile(
    member: ConsumerMember,
    target_epoch: int,
    target: TargetAssignment,
    subscription: Subscription,
    subscription_changed: bool,
    owned: OwnedPartitions | None,
    is_free: IsFree,
    *,
    before_4_2: bool = False,
) -> ConsumerMember:
    """Return the member with its next assignment; the same object if nothing has changed.

    `before_4_2`: as Kafka 4.0 and 4.1, where a member that has given up what it must goes to the epoch after its own,
    and partitions that it is to give up itself are not free. `owned` is what the member says that it owns; None: it
    does not say. Whatever changes sets the previous epoch to the
    present one, even where that stays. Raises `Refusal` with FENCED_MEMBER_EPOCH.
    """
    match action_for(member, target_epoch, subscription_changed, owned):
        case Action.NOTHING:
            return member
        case Action.NEXT:
            reconciled = _next(member, target_epoch, target, subscription.topic_ids, owned, is_free, before_4_2)
        case Action.SHRINK:
            reconciled = _shrink(member, subscription, owned)
        case Action.FENCE:
            raise Refusal(
                ErrorCode.FENCED_MEMBER_EPOCH, "unknown_member_state",
                "the member is in a state of a later version and owns partitions",
            )  # fmt: skip
    return member if reconciled == member else reconciled


def action_for(
    member: ConsumerMember, target_epoch: int, subscription_changed: bool, owned: OwnedPartitions | None
) -> Action:
    """Return the action of the table."""
    otherwise = Action.SHRINK if subscription_changed else Action.NOTHING
    match member.state:
        case MemberState.STABLE:
            return otherwise if member.member_epoch == target_epoch else Action.NEXT
        case MemberState.UNREVOKED_PARTITIONS:
            return otherwise if _may_own(owned, member.pending_revocation) else Action.NEXT
        case MemberState.UNRELEASED_PARTITIONS:
            return Action.NEXT
        case MemberState.UNKNOWN:
            return Action.FENCE if owned is None or owned else Action.NEXT


def _next(
    member: ConsumerMember,
    target_epoch: int,
    target: TargetAssignment,
    subscribed: frozenset[str],
    owned: OwnedPartitions | None,
    is_free: IsFree,
    before_4_2: bool,
) -> ConsumerMember:
    wanted = {topic_id: partitions for topic_id, partitions in target if topic_id in subscribed}
    keep: PartitionsWithEpochs = {}
    revoke: PartitionsWithEpochs = {}
    add: PartitionsWithEpochs = {}
    is_unreleased = False
    for topic_id in sorted({*wanted, *member.assigned}):
        has = member.assigned.get(topic_id, {})
        wants = frozenset(wanted.get(topic_id, ()))
        _put(keep, topic_id, {partition: epoch for partition, epoch in has.items() if partition in wants})
        _put(revoke, topic_id, {partition: epoch for partition, epoch in has.items() if partition not in wants})
        lacks = [partition for partition in wants if partition not in has]
        own_pending = {} if before_4_2 else member.pending_revocation.get(topic_id, {})
        free = [partition for partition in lacks if partition in own_pending or is_free(topic_id, partition)]
        _put(add, topic_id, dict.fromkeys(free, target_epoch))
        is_unreleased = is_unreleased or len(free) < len(lacks)
    if revoke and _may_own(owned, revoke):
        has_revoked = before_4_2 and member.state is MemberState.UNREVOKED_PARTITIONS
        return _changed(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch + has_revoked, keep, revoke)
    state = MemberState.UNRELEASED_PARTITIONS if is_unreleased else MemberState.STABLE
    return _changed(member, state, target_epoch, _merged(keep, add), {})


def _shrink(member: ConsumerMember, subscription: Subscription, owned: OwnedPartitions | None) -> ConsumerMember:
    assigned, topic_ids = member.assigned, subscription.topic_ids
    keep = {topic_id: partitions for topic_id, partitions in assigned.items() if topic_id in topic_ids}
    # Kafka makes a new member where nothing is subscribed to and nothing is to be given up, even of one without
    # partitions.
    if len(keep) == len(assigned) and (subscription.has_topics or member.pending_revocation):
        return member
    lost = {topic_id: partitions for topic_id, partitions in assigned.items() if topic_id not in keep}
    revoke = _merged(member.pending_revocation, lost)
    if revoke and _may_own(owned, revoke):
        return _changed(member, MemberState.UNREVOKED_PARTITIONS, member.member_epoch, keep, revoke)
    return _changed(member, member.state, member.member_epoch, keep, member.pending_revocation)


def _may_own(owned: OwnedPartitions | None, partitions: PartitionsWithEpochs) -> bool:
    """Return whether a member owns any of these partitions, or does not say."""
    if owned is None:
        return True
    present = [(partitions[topic_id], owned[topic_id]) for topic_id in owned if topic_id in partitions]
    return any(partition in epochs for epochs, said in present for partition in said)


def _changed(
    member: ConsumerMember,
    state: MemberState,
    member_epoch: int,
    assigned: PartitionsWithEpochs,
    pending_revocation: PartitionsWithEpochs,
) -> ConsumerMember:
    return replace(
        member,
        state=state,
        member_epoch=member_epoch,
        previous_member_epoch=member.member_epoch,
        assigned=assigned,
        pending_revocation=pending_revocation,
    )


def _put(partitions_by_topic: PartitionsWithEpochs, topic_id: str, partitions: dict[int, int]) -> None:
    if partitions:
        partitions_by_topic[topic_id] = partitions


def _merged(one: PartitionsWithEpochs, other: PartitionsWithEpochs) -> PartitionsWithEpochs:
    """Return the partitions of both, topics and partitions ascending."""
    merged = {}
    for topic_id in sorted({*one, *other}):
        partitions = one.get(topic_id, {}) | other.get(topic_id, {})
        merged[topic_id] = {partition: partitions[partition] for partition in sorted(partitions)}
    return merged
