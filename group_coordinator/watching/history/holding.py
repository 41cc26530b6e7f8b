"""Who holds up a group: members that still have partitions which the target gives to others. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import UNSET, Struct

from schemas.history import AssignedTopic, GroupSnapshot, SnapshotMember

Place = tuple[str, int]
"""Topic and partition."""


class Holder(Struct, frozen=True, kw_only=True):
    """A member that must give up partitions."""

    member_id: str
    topics: tuple[AssignedTopic, ...]
    """What it must give up."""
    told_ms: int | None
    """When it was told so; None: it has not heard of it."""
    waiting: tuple[str, ...]
    """The members that shall have any of them."""


def must_give_up(
    held: Iterable[AssignedTopic], pending: Iterable[AssignedTopic], target: Iterable[AssignedTopic] | None
) -> list[Place]:
    """Return what a member has and must give up. `held`: all that it has in hand. `target`: None: it is not known.

    `pending`: what it was told to give up. A newer target may give it back; it must be given up all the same.
    """
    must_go = places(pending)
    if target is not None:
        must_go |= places(held) - places(target)
    return sorted(must_go)


def holder(member_id: str, must_go: Iterable[Place], told_ms: int | None, owners: Mapping[Place, str]) -> Holder:
    """Return a member that must give up these partitions. `owners` are those of the target."""
    by_topic: dict[str, list[int]] = {}
    waiting: dict[str, None] = {}
    for topic, partition in must_go:
        by_topic.setdefault(topic, []).append(partition)
        owner = owners.get((topic, partition), member_id)
        if owner != member_id:
            waiting[owner] = None
    topics = tuple([AssignedTopic(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items()])
    return Holder(member_id=member_id, topics=topics, told_ms=told_ms, waiting=tuple(waiting))


def target_owners(targets: Iterable[tuple[str, Iterable[AssignedTopic]]]) -> dict[Place, str]:
    """Return who shall own each partition. `targets`: members with theirs."""
    return {place: member_id for member_id, topics in targets for place in places(topics)}


def longest_first(holders: Iterable[Holder]) -> list[Holder]:
    """Return the one that has known it longest first, those that do not know it last."""
    return sorted(holders, key=lambda each: (each.told_ms is None, each.told_ms or 0))


def holders_of(snapshot: GroupSnapshot) -> list[Holder]:
    """Return who holds up a group as it is published; of groups of another kind nobody."""
    members = [(member, member.consumer) for member in snapshot.members if member.consumer is not UNSET]
    owners = target_owners((member.member_id, target_of(member)) for member, _ in members)
    return longest_first(
        holder(member.member_id, must_go, way.revoking_since_ms, owners)
        for member, way in members
        if (must_go := must_give_up(member.partitions or (), way.pending_revocation, target_of(member)))
    )


def target_of(member: SnapshotMember) -> tuple[AssignedTopic, ...]:
    """Return what a published member shall own: where no target is said, what it owns."""
    target = None if member.consumer is UNSET else member.consumer.target
    return (member.partitions or ()) if target is None else target


def places(topics: Iterable[AssignedTopic]) -> set[Place]:
    """Return partitions one by one."""
    return {(topic.topic, partition) for topic in topics for partition in topic.partitions}
