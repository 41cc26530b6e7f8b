"""Groups for property tests: topics, members with what they own, in one generation and without double claims."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from hypothesis import strategies as st
from msgspec.structs import replace

from group_coordinator.coordinating.assignors import Assignor, GroupAssignment, MemberSubscription, TopicMetadata
from schemas.consumer_protocol import Subscription, TopicPartition

Group = tuple[dict[str, TopicMetadata], list[MemberSubscription]]

GENERATION_ID = 7


@st.composite
def topics(draw: st.DrawFn) -> dict[str, TopicMetadata]:
    counts = draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    with_racks = draw(st.booleans())
    chance = Random(draw(st.integers(0, 999)))  # a draw for each partition would take long
    result = {}
    for number, count in enumerate(counts):
        replica_racks = tuple(tuple(chance.sample("abc", chance.randint(1, 2))) for _ in range(count))
        result[f"topic{number}"] = TopicMetadata(
            partition_count=count, replica_racks=replica_racks if with_racks else ()
        )
    return result


@st.composite
def groups(draw: st.DrawFn, *, racks: bool = True) -> Group:
    """A group whose members own nothing yet."""
    existing = draw(topics())
    names = [*existing, "missing"]
    same_topics = draw(st.booleans())
    subscription = st.lists(st.sampled_from(names), unique=True).map(tuple)
    shared = draw(subscription)
    members = []
    for number in draw(st.lists(st.integers(0, 99), min_size=1, max_size=7, unique=True)):
        members.append(
            MemberSubscription(
                member_id=f"consumer-{number}",
                group_instance_id=draw(st.sampled_from([None, None, f"instance-{99 - number}"])),
                subscription=Subscription(
                    topics=shared if same_topics else draw(subscription),
                    rack_id=draw(st.sampled_from([None, "", "a", "b", "c", "d"])) if racks else None,
                ),
            )
        )
    return existing, members


@st.composite
def changed_groups(draw: st.DrawFn, assignor: Assignor, *, racks: bool = False) -> Group:
    """A group after its first assignment: some members have left, some have come."""
    existing, members = draw(groups(racks=racks))
    settled = rejoined(assignor, members, assignor.assign(existing, members))
    keep = draw(st.lists(st.sampled_from([True, True, False]), min_size=len(members), max_size=len(members)))
    result = [member for member, stays in zip(settled, keep, strict=True) if stays]
    for number in draw(st.lists(st.integers(100, 199), max_size=4, unique=True)):
        topics = tuple(draw(st.lists(st.sampled_from(list(existing)), unique=True)))
        result.append(MemberSubscription(member_id=f"consumer-{number}", subscription=Subscription(topics=topics)))
    return existing, result


def rejoined(
    assignor: Assignor,
    members: Sequence[MemberSubscription],
    assignment: GroupAssignment,
    generation_id: int = GENERATION_ID,
) -> list[MemberSubscription]:
    """The members as they join again after they got this assignment."""
    return [
        replace(
            member,
            subscription=replace(
                member.subscription,
                user_data=assignor.subscription_user_data(assignment[member.member_id], generation_id),
                owned_partitions=tuple(sorted(assignment[member.member_id])),
                generation_id=generation_id,
            ),
        )
        for member in members
    ]


def owned(members: Sequence[MemberSubscription]) -> dict[TopicPartition, str]:
    """Who says that it owns each partition."""
    return {partition: member.member_id for member in members for partition in member.subscription.owned_partitions}
