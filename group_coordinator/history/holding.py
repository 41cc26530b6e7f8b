"""Who holds up a consumer group: members that still have partitions which the target gives to others. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import UNSET, Struct

from schemas.history import AssignedTopic, GroupSnapshot, SnapshotMember


class Underway(Struct, frozen=True, kw_only=True):
    """A member on its way to its target."""

    member_id: str
    held: tuple[AssignedTopic, ...]
    """What it has in hand, also what it must give up."""
    target: tuple[AssignedTopic, ...]
    told_ms: int | None
    """When it was told what to give up; None: it need not give up anything, or has not heard of it."""


class Holder(Struct, frozen=True, kw_only=True):
    """A member that must give up partitions."""

    member_id: str
    topics: tuple[AssignedTopic, ...]
    """What it must give up."""
    told_ms: int | None
    """When it was told so; None: it has not heard of it."""
    waiting: tuple[str, ...]
    """The members that shall have any of them."""


def holders(members: Iterable[Underway]) -> list[Holder]:
    """Return who must give up partitions, the one that has known it longest first; those that do not know it last."""
    underway = list(members)
    owners = {place: member.member_id for member in underway for place in _places(member.target)}
    found = []
    for member in underway:
        too_many = sorted(_places(member.held) - _places(member.target))
        if too_many:
            waiting = dict.fromkeys(owners[place] for place in too_many if place in owners)
            found.append(
                Holder(
                    member_id=member.member_id,
                    topics=_topics(too_many),
                    told_ms=member.told_ms,
                    waiting=tuple(waiting),
                )
            )
    return sorted(found, key=lambda holder: (holder.told_ms is None, holder.told_ms or 0))


def holders_of(snapshot: GroupSnapshot) -> list[Holder]:
    """Return who holds up a group as it is published; of groups of another kind nobody."""
    return holders(
        Underway(
            member_id=member.member_id,
            held=member.partitions or (),
            target=target_of(member),
            told_ms=member.consumer.revoking_since_ms,
        )
        for member in snapshot.members
        if member.consumer is not UNSET
    )


def target_of(member: SnapshotMember) -> tuple[AssignedTopic, ...]:
    """Return what a published member shall own: where no target is said, what it owns."""
    target = None if member.consumer is UNSET else member.consumer.target
    return (member.partitions or ()) if target is None else target


def _places(topics: Iterable[AssignedTopic]) -> set[tuple[str, int]]:
    return {(topic.topic, partition) for topic in topics for partition in topic.partitions}


def _topics(places: Iterable[tuple[str, int]]) -> tuple[AssignedTopic, ...]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in places:
        by_topic.setdefault(topic, []).append(partition)
    return tuple([AssignedTopic(topic=topic, partitions=tuple(numbers)) for topic, numbers in by_topic.items()])
