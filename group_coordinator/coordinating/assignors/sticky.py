"""StickyAssignor: balance, and let everybody keep what it had; members give up everything before they rejoin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, repeat
from struct import error as StructError
from struct import pack, unpack_from

from msgspec import Struct

from group_coordinator.coordinating.assignors.contract import (
    GroupAssignment,
    MemberSubscription,
    RebalanceProtocol,
    Topics,
)
from group_coordinator.coordinating.assignors.java_hash_map import java_map_order_computed
from group_coordinator.coordinating.assignors.layout import GroupLayout
from group_coordinator.coordinating.assignors.racks import member_racks, partition_racks, racks_matter
from group_coordinator.coordinating.assignors.sticky_claims import NO_GENERATION, Claim, ResolvedClaims, resolve_claims
from group_coordinator.coordinating.assignors.sticky_different_subscriptions import assign_different_subscriptions
from group_coordinator.coordinating.assignors.sticky_same_subscriptions import assign_same_subscriptions
from schemas.consumer_protocol import Subscription, TopicPartition


def encode_sticky_user_data(owned_partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    """Encode what a member of a sticky group last got, and in which generation. Topics are in the order of the Java
    `HashMap` in which `CollectionUtils.groupPartitionsByTopic` collects them."""
    owned = list(owned_partitions)
    by_topic: dict[str, list[int]] = {}
    for topic, partition in owned:
        by_topic.setdefault(topic, []).append(partition)
    parts = [pack(">i", len(by_topic))]
    for topic in java_map_order_computed(owned_partition.topic for owned_partition in owned):
        name, partitions = topic.encode(), by_topic[topic]
        parts += (pack(">h", len(name)), name, pack(f">{len(partitions) + 1}i", len(partitions), *partitions))
    return b"".join((*parts, pack(">i", generation_id)))


def decode_sticky_user_data(user_data: bytes | None) -> Claim:
    """Return the claim in the user data; without a generation where they are empty or older than KIP-341.

    Bytes that nobody can read claim nothing, in generation -1. Bytes after the end are passed over, as in Kafka.
    """
    if not user_data:
        return Claim()
    try:
        topics, end = _decode_topics(user_data)
    except (StructError, ValueError):
        return Claim(generation_id=NO_GENERATION)
    partitions = chain.from_iterable(zip(repeat(topic), numbers) for topic, numbers in topics)
    return Claim(partitions=partitions, generation_id=_generation_at(user_data, end))


def encode_generation(generation_id: int) -> bytes:
    """Encode the user data of a cooperative sticky member."""
    return pack(">i", generation_id)


def decode_generation(user_data: bytes | None) -> int | None:
    """Return the generation in a cooperative sticky member's user data: None if there is none, -1 if they are too
    short."""
    if not user_data:
        return None
    generation_id = _generation_at(user_data, 0)
    return NO_GENERATION if generation_id is None else generation_id


def _generation_at(user_data: bytes, offset: int) -> int | None:
    return int(unpack_from(">i", user_data, offset)[0]) if len(user_data) >= offset + 4 else None


def _decode_topics(user_data: bytes) -> tuple[list[tuple[str, Sequence[int]]], int]:
    """The topics with their partitions, and where they end; struct.error or ValueError when that is beyond the end."""
    (count,) = unpack_from(">i", user_data)
    offset = 4
    topics: list[tuple[str, Sequence[int]]] = []
    for _ in range(_length(count, user_data)):
        (length,) = unpack_from(">h", user_data, offset)
        end_of_name = offset + 2 + _length(length, user_data)
        name = user_data[offset + 2 : end_of_name].decode(errors="replace")
        (count,) = unpack_from(">i", user_data, end_of_name)
        offset = end_of_name + 4 + 4 * _length(count, user_data)
        topics.append((name, unpack_from(f">{count}i", user_data, end_of_name + 4)))
    return topics, offset


def _length(length: int, user_data: bytes) -> int:
    if not 0 <= length <= len(user_data):
        raise ValueError("a length that cannot be")
    return length


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


class CooperativeStickyAssignor:
    """Kafka's `org.apache.kafka.clients.consumer.CooperativeStickyAssignor` (KIP-429).

    A partition that changes hands is given to nobody at first: its old owner gives it up and rejoins, and the
    rebalance after that gives it to the new one.
    """

    name = "cooperative-sticky"
    rebalance_protocol = RebalanceProtocol.COOPERATIVE

    def assign(self, topics: Topics, members: Sequence[MemberSubscription]) -> GroupAssignment:
        result = assign_sticky(topics, members, _claim)
        withheld = result.in_transfer
        assigned = result.assigned
        if withheld:
            assigned = [[partition for partition in own if partition not in withheld] for own in assigned]
        return result.layout.named(assigned)

    def subscription_user_data(
        self, owned_partitions: Sequence[TopicPartition] | None, generation_id: int
    ) -> bytes | None:
        return encode_generation(generation_id)


def _claim(subscription: Subscription) -> Claim:
    generation_id: int | None = subscription.generation_id
    if subscription.generation_id < 0:  # a subscription before version 2: the user data say it
        generation_id = decode_generation(subscription.user_data)
    return Claim(partitions=subscription.owned_partitions, generation_id=generation_id)


class StickyAssignor:
    """Kafka's `org.apache.kafka.clients.consumer.StickyAssignor` (KIP-54, KIP-341).

    A member claims in its user data what it was assigned last; its `owned_partitions` are not looked at.
    """

    name = "sticky"
    rebalance_protocol = RebalanceProtocol.EAGER

    def assign(self, topics: Topics, members: Sequence[MemberSubscription]) -> GroupAssignment:
        result = assign_sticky(topics, members, lambda member: decode_sticky_user_data(member.user_data))
        return result.layout.named(result.assigned)

    def subscription_user_data(
        self, owned_partitions: Sequence[TopicPartition] | None, generation_id: int
    ) -> bytes | None:
        return None if owned_partitions is None else encode_sticky_user_data(owned_partitions, generation_id)
