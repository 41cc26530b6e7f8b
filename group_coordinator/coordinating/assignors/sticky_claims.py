"""Members of a sticky group claim their previous partitions, and one claim of each partition counts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from group_coordinator.coordinating.assignors.layout import GroupLayout

NO_GENERATION = -1


class Claim(Struct, frozen=True, kw_only=True):
    """The partitions that one member claims, and their generation."""

    partitions: Iterable[tuple[str, int]] = ()
    """Topic and partition, in the member's order; read once."""
    generation_id: int | None = None
    """The generation in which it owned them; None when the member does not say."""


class ResolvedClaims(Struct, kw_only=True):
    """The claims of all members, by number. Claims on partitions that do not exist are dropped."""

    claimed: list[list[int]]
    """Of each member what it claims."""
    kept: list[list[int]]
    """Of each member what nobody contests with success, in the order of its claim."""
    contested: set[int]
    """Partitions that two members claim in one generation: neither keeps them."""
    generation_ids: list[int]
    """Of each member the generation of its claim, -1 for none."""


def resolve_claims(layout: GroupLayout, claims: Sequence[Claim]) -> ResolvedClaims:
    """Decide between members that claim one partition: the higher generation keeps it, of equal ones nobody does.

    `claims` are by member number. Members are looked at in map order, and the earlier claimant of a pair counts with
    the generation field of its subscription, even where its claim has a generation of its own: Kafka compares so.
    """
    claimed: list[list[int]] = [[] for _ in claims]
    kept: list[list[int]] = [[] for _ in claims]
    generation_ids = [NO_GENERATION if claim.generation_id is None else claim.generation_id for claim in claims]
    claimant = [-1] * layout.partition_total
    contested: set[int] = set()
    keeper: dict[int, int] = {}
    """Of each partition claimed more than once the member that keeps it, or -1."""
    first_partition, number_of_topic, metadata = layout.first_partition, layout.number_of_topic, layout.metadata
    for member in layout.map_order:
        own, own_kept = claimed[member], kept[member]
        for topic_name, number in claims[member].partitions:
            topic = number_of_topic.get(topic_name)
            if topic is None or not 0 <= number < metadata[topic].partition_count:
                continue
            partition = first_partition[topic] + number
            own.append(partition)
            earlier = claimant[partition]
            if earlier < 0:
                claimant[partition] = member
                own_kept.append(partition)
                continue
            earlier_generation = max(layout.members[earlier].subscription.generation_id, NO_GENERATION)
            if generation_ids[member] == earlier_generation:
                contested.add(partition)
                keeper[partition] = -1
                claimant[partition] = member
            elif generation_ids[member] > earlier_generation:
                keeper[partition] = claimant[partition] = member
                own_kept.append(partition)
    if keeper:
        kept = [_still_kept(member, partitions, keeper) for member, partitions in enumerate(kept)]
    return ResolvedClaims(claimed=claimed, kept=kept, contested=contested, generation_ids=generation_ids)


def _still_kept(member: int, partitions: list[int], keeper: dict[int, int]) -> list[int]:
    last_first = (partition for partition in reversed(partitions) if keeper.get(partition, member) == member)
    once = list(dict.fromkeys(last_first))  # a member may name a partition twice; the last mention counts
    once.reverse()
    return once
