"""The engine of both sticky assignors (Kafka's `AbstractStickyAssignor`): balance first, then racks, then
stickiness."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from group_coordinator.coordinating.assignors.contract import MemberSubscription, Topics
from group_coordinator.coordinating.assignors.layout import GroupLayout
from group_coordinator.coordinating.assignors.racks import member_racks, partition_racks, racks_matter
from group_coordinator.coordinating.assignors.sticky_claims import Claim, ResolvedClaims, resolve_claims
from group_coordinator.coordinating.assignors.sticky_different_subscriptions import assign_different_subscriptions
from group_coordinator.coordinating.assignors.sticky_same_subscriptions import assign_same_subscriptions
from schemas.consumer_protocol import Subscription


class StickyResult(Struct, frozen=True, kw_only=True):
    """A new assignment by numbers, and what changes hands in it."""

    layout: GroupLayout
    assigned: list[list[int]]
    """Of each member its partitions, in Kafka's order."""
    in_transfer: set[int]
    """Partitions that go to a member while another one still holds them, or may hold them."""


def assign_sticky(
    topics: Topics, members: Sequence[MemberSubscription], claim_of: Callable[[Subscription], Claim]
) -> StickyResult:
    """Share the partitions of all subscribed topics among the members, each keeping as much of its claim as it can.

    Unlike Kafka's object, which remembers the highest generation that it met in earlier calls, this is a pure
    function; the two differ only where a group's generations start again from the beginning.
    """
    layout = GroupLayout(topics, members)
    claims = resolve_claims(layout, [claim_of(member.subscription) for member in layout.members])
    rack_of = member_racks(layout)
    racks_of = partition_racks(layout) if any(rack_of) else []
    rack_aware = racks_matter(rack_of, racks_of)
    if same_subscriptions(layout):
        assigned, in_transfer = assign_same_subscriptions(layout, claims, rack_of, racks_of, rack_aware=rack_aware)
    else:
        if not rack_aware:
            rack_of, racks_of = [None] * len(rack_of), []
        assigned = assign_different_subscriptions(layout, claims, rack_of, racks_of)
        in_transfer = _changes_hands(layout, claims, assigned)
    return StickyResult(layout=layout, assigned=assigned, in_transfer=in_transfer)


def same_subscriptions(layout: GroupLayout) -> bool:
    """Return whether all members list the same topics, unknown ones and empty lists included."""
    lists = [layout.members[member].subscription.topics for member in layout.map_order]
    if not lists:
        return True
    wanted = frozenset(lists[0])
    return all(topics == lists[0] or (len(topics) == len(wanted) and wanted.issuperset(topics)) for topics in lists[1:])


def _changes_hands(layout: GroupLayout, claims: ResolvedClaims, assigned: list[list[int]]) -> set[int]:
    owner = [-1] * layout.partition_total
    for member, partitions in enumerate(assigned):
        for partition in partitions:
            owner[partition] = member
    claimed = set().union(*claims.claimed)
    for member, partitions in enumerate(claims.claimed):
        claimed.difference_update(partition for partition in partitions if owner[partition] == member)
    return claimed
