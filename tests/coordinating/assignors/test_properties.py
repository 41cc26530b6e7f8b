"""What holds for every group, whatever its members subscribe to and own.

Racks come before stickiness: where some members have a rack and others have none, a member can be given what it has to
give up at the next rebalance, as in Kafka. What is said here about staying in place is about groups without racks.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from group_coordinator.coordinating.assignors import (
    ASSIGNORS,
    Assignor,
    GroupAssignment,
    MemberSubscription,
    RebalanceProtocol,
    TopicMetadata,
)
from schemas.consumer_protocol import Subscription, TopicPartition
from schemas.java_hash import java_map_order
from tests.coordinating.assignors.groups import Group, changed_groups, groups, owned, rejoined

every_assignor = pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=list(ASSIGNORS))
sticky_assignors = pytest.mark.parametrize(
    "assignor", [ASSIGNORS["sticky"], ASSIGNORS["cooperative-sticky"]], ids=["sticky", "cooperative-sticky"]
)
GROUPS = settings(max_examples=40)


def subscribed_partitions(group: Group) -> set[TopicPartition]:
    topics, members = group
    names = {name for member in members for name in member.subscription.topics if name in topics}
    return {TopicPartition(name, number) for name in names for number in range(topics[name].partition_count)}


def settle(assignor: Assignor, group: Group) -> tuple[Group, GroupAssignment]:
    """Rebalance until nothing is withheld: for an eager assignor that is at once."""
    topics, members = group
    for generation_id in range(8, 14):
        assignment = assignor.assign(topics, members)
        if sum(map(len, assignment.values())) == len(subscribed_partitions(group)):
            return (topics, members), assignment
        assert assignor.rebalance_protocol is RebalanceProtocol.COOPERATIVE
        members = rejoined(assignor, members, assignment, generation_id)
    raise AssertionError("the group does not come to rest")


def assert_given_once_to_subscribers(group: Group, assignment: GroupAssignment) -> None:
    _, members = group
    assert assignment.keys() == {member.member_id for member in members}
    given_out = Counter(partition for member_partitions in assignment.values() for partition in member_partitions)
    assert set(given_out.values()) <= {1}
    assert set(given_out) == subscribed_partitions(group)
    for member in members:
        assert {partition.topic for partition in assignment[member.member_id]} <= set(member.subscription.topics)


def assert_balanced(group: Group, assignment: GroupAssignment) -> None:
    """No partition could move to a subscriber that holds at least two fewer."""
    _, members = group
    loads = {member: len(member_partitions) for member, member_partitions in assignment.items()}
    subscribers = {
        topic: [member.member_id for member in members if topic in member.subscription.topics]
        for member in members
        for topic in member.subscription.topics
    }
    for owner, member_partitions in assignment.items():
        for partition in member_partitions:
            assert loads[owner] <= min(loads[member] for member in subscribers[partition.topic]) + 1


@every_assignor
@GROUPS
@given(data=st.data())
def test_every_partition_once_and_only_to_subscribers(assignor: Assignor, data: st.DataObject) -> None:
    group = data.draw(groups())
    assert_given_once_to_subscribers(group, assignor.assign(*group))


@sticky_assignors
@GROUPS
@given(data=st.data())
def test_every_partition_once_after_a_change(assignor: Assignor, data: st.DataObject) -> None:
    assert_given_once_to_subscribers(*settle(assignor, data.draw(changed_groups(assignor))))


@sticky_assignors
@GROUPS
@given(data=st.data())
def test_first_assignment_is_balanced(assignor: Assignor, data: st.DataObject) -> None:
    group = data.draw(groups(racks=False))
    assert_balanced(group, assignor.assign(*group))


@sticky_assignors
@GROUPS
@given(data=st.data())
def test_balanced_after_a_change(assignor: Assignor, data: st.DataObject) -> None:
    assert_balanced(*settle(assignor, data.draw(changed_groups(assignor))))


@GROUPS
@given(group=groups())
def test_round_robin_with_equal_subscriptions_is_balanced(group: Group) -> None:
    topics, members = group
    assume(len({member.subscription.topics for member in members}) == 1)
    assert_balanced(group, ASSIGNORS["roundrobin"].assign(topics, members))


@GROUPS
@given(group=groups())
def test_range_balances_each_topic(group: Group) -> None:
    topics, members = group
    assignment = ASSIGNORS["range"].assign(topics, members)
    for topic in topics:
        shares = [
            sum(partition.topic == topic for partition in assignment[member.member_id])
            for member in members
            if topic in member.subscription.topics
        ]
        assert not shares or max(shares) - min(shares) <= 1


@sticky_assignors
@GROUPS
@given(data=st.data())
def test_nothing_moves_when_nothing_changed(assignor: Assignor, data: st.DataObject) -> None:
    topics, members = data.draw(groups(racks=False))
    before = assignor.assign(topics, members)
    after = assignor.assign(topics, rejoined(assignor, members, before))
    assert {member: set(member_partitions) for member, member_partitions in after.items()} == {
        member: set(member_partitions) for member, member_partitions in before.items()
    }


@sticky_assignors
@GROUPS
@given(data=st.data())
def test_who_stays_loses_nothing_when_another_leaves(assignor: Assignor, data: st.DataObject) -> None:
    topics, members = data.draw(groups(racks=False))
    assume(len(members) > 1)
    assume(len({member.subscription.topics for member in members}) == 1)
    before = assignor.assign(topics, members)
    after = assignor.assign(topics, rejoined(assignor, members[1:], before))
    for member, member_partitions in after.items():
        assert set(before[member]) <= set(member_partitions)


@GROUPS
@given(data=st.data())
def test_no_two_members_swap_partitions_of_a_topic(data: st.DataObject) -> None:
    """In one rebalance; a cooperative group that needs several may, about once in fifty thousand."""
    sticky = ASSIGNORS["sticky"]
    topics, members = data.draw(changed_groups(sticky))
    before = owned(members)
    assignment = sticky.assign(topics, members)
    moves = {
        (before[partition], member, partition.topic)
        for member, member_partitions in assignment.items()
        for partition in member_partitions
        if before.get(partition, member) != member
    }
    assert not {(taker, giver, topic) for giver, taker, topic in moves} & moves


@GROUPS
@given(data=st.data())
def test_cooperative_takes_before_it_gives(data: st.DataObject) -> None:
    assignor = ASSIGNORS["cooperative-sticky"]
    topics, members = group = data.draw(changed_groups(assignor, racks=True))
    before = owned(members)
    assignment = assignor.assign(topics, members)
    for member, member_partitions in assignment.items():
        assert all(before.get(partition, member) == member for partition in member_partitions)
    # What it withheld is what somebody has to give up; nothing else waits.
    given_out = {partition for member_partitions in assignment.values() for partition in member_partitions}
    assert subscribed_partitions(group) - given_out <= set(before)


@every_assignor
@GROUPS
@given(data=st.data())
def test_order_of_members_does_not_matter(assignor: Assignor, data: st.DataObject) -> None:
    """As long as Java's map does not show it: members in one bucket keep the order in which they came."""
    topics, members = data.draw(changed_groups(assignor, racks=True))
    shuffled = data.draw(st.permutations(members))
    assume(ids_in_map_order(members) == ids_in_map_order(shuffled))
    assert assignor.assign(topics, members) == assignor.assign(topics, shuffled)


def ids_in_map_order(members: list[MemberSubscription]) -> list[str]:
    return java_map_order(member.member_id for member in members)


@every_assignor
@GROUPS
@given(data=st.data())
def test_order_of_topics_does_not_matter(assignor: Assignor, data: st.DataObject) -> None:
    topics, members = data.draw(groups())
    shuffled: dict[str, Any] = dict(data.draw(st.permutations(list(topics.items()))))
    assert assignor.assign(topics, members) == assignor.assign(shuffled, members)


@every_assignor
def test_a_group_without_members(assignor: Assignor) -> None:
    assert assignor.assign({}, []) == {}


@every_assignor
def test_two_members_of_one_id_are_refused(assignor: Assignor) -> None:
    member = MemberSubscription(member_id="a", subscription=Subscription(topics=("t",)))
    with pytest.raises(ValueError, match="share a member id"):
        assignor.assign({"t": TopicMetadata(partition_count=1)}, [member, member])


@pytest.mark.parametrize(
    ("partition_count", "replica_racks"), [(-1, ()), (2, (("a",),)), (0, (("a",),))], ids=["negative", "few", "many"]
)
def test_impossible_topics_are_refused(partition_count: int, replica_racks: tuple[tuple[str, ...], ...]) -> None:
    with pytest.raises(ValueError, match="partitions"):
        TopicMetadata(partition_count=partition_count, replica_racks=replica_racks)
