"""What assignors of other packages answer is checked; Kafka's two keep the contract for any group."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator_state.consumer.assignors import (
    SERVER_ASSIGNORS,
    AssignorError,
    AssignorGroup,
    AssignorMember,
    AssignorTopic,
    GroupAssignment,
    SubscriptionType,
)
from coordinator_state.consumer.assignors.contract import CheckedAssignor, check_assignment

ORDERS = "00000000-0000-0001-0000-000000000001"
PAYMENTS = "00000000-0000-0002-0000-000000000002"
GROUP = AssignorGroup(
    (AssignorMember("a", (ORDERS, PAYMENTS)), AssignorMember("b", (ORDERS,))),
    {ORDERS: AssignorTopic(3), PAYMENTS: AssignorTopic(1)},
    SubscriptionType.HETEROGENEOUS,
)


class Fixed:
    """Answers what it is told."""

    name = "fixed"

    def __init__(self, assignment: GroupAssignment) -> None:
        self._assignment = assignment

    def assign(self, group: AssignorGroup) -> GroupAssignment:
        return self._assignment


class Failing:
    name = "failing"

    def assign(self, group: AssignorGroup) -> GroupAssignment:
        raise ZeroDivisionError("no members")


def test_an_assignment_within_the_contract_is_handed_on() -> None:
    assignment = {"a": ((ORDERS, (2, 0)), (PAYMENTS, (0,))), "b": ((ORDERS, (1,)),)}
    checked = CheckedAssignor(Fixed(assignment))
    assert checked.name == "fixed"
    assert checked.assign(GROUP) is assignment


def test_partitions_may_be_left_to_nobody() -> None:
    check_assignment(GROUP, {"a": ()})


@pytest.mark.parametrize(
    ("assignment", "reason"),
    [
        ({"c": ()}, "'c', which is no member"),
        ({"a": ((ORDERS, (0,)),), "b": ((ORDERS, (0,)),)}, "partition 0 of topic .* is given twice"),
        ({"a": ((ORDERS, (0, 0)),)}, "partition 0 of topic .* is given twice"),
        ({"a": ((ORDERS, (0,)), (ORDERS, (1,)))}, "'a' is given a topic twice"),
        ({"a": ((ORDERS, (3,)),)}, "has no partition 3"),
        ({"a": ((ORDERS, (-1,)),)}, "has no partition -1"),
        ({"a": ((ORDERS, ()),)}, "without partitions"),
        ({"b": ((PAYMENTS, (0,)),)}, "to which it does not subscribe"),
        ({"b": (("no such topic", (0,)),)}, "which does not exist"),
    ],
)
def test_an_assignment_that_breaks_the_contract_is_refused(assignment: GroupAssignment, reason: str) -> None:
    with pytest.raises(AssignorError, match=f"assignor 'fixed': AssignorError: .*{reason}"):
        CheckedAssignor(Fixed(assignment)).assign(GROUP)


def test_an_assignor_that_fails_is_named() -> None:
    with pytest.raises(AssignorError, match="assignor 'failing': ZeroDivisionError: no members"):
        CheckedAssignor(Failing()).assign(GROUP)


@st.composite
def groups(draw: st.DrawFn) -> AssignorGroup:
    topic_ids = [f"00000000-0000-0001-0000-{number:012x}" for number in range(draw(st.integers(1, 5)))]
    topics = {topic_id: AssignorTopic(draw(st.integers(1, 20))) for topic_id in topic_ids}
    kind = draw(st.sampled_from(SubscriptionType))
    some_topics = st.lists(st.sampled_from(topic_ids), unique=True).map(tuple)
    shared = draw(some_topics)
    members = [
        AssignorMember(f"m{number}", shared if kind is SubscriptionType.HOMOGENEOUS else draw(some_topics))
        for number in range(draw(st.integers(1, 8)))
    ]
    return AssignorGroup(tuple(members), topics, kind)


@given(groups(), groups(), st.sampled_from(["uniform", "range"]))
def test_kafkas_assignors_give_every_partition_to_one_subscriber(
    first: AssignorGroup, second: AssignorGroup, name: str
) -> None:
    """Also when members come with targets that were made for other topics and subscriptions."""
    before = SERVER_ASSIGNORS[name].assign(first)
    check_assignment(first, before)
    # A topic keeps its partitions as long as it has its id.
    topics = {topic_id: first.topics.get(topic_id, topic) for topic_id, topic in second.topics.items()}
    members = tuple(
        AssignorMember(member.member_id, member.subscribed_topic_ids, before.get(member.member_id, ()))
        for member in second.members
    )
    group = AssignorGroup(members, topics, second.subscription_type)
    after = SERVER_ASSIGNORS[name].assign(group)
    check_assignment(group, after)
    given_away = {(topic_id, partition) for target in after.values() for topic_id, ps in target for partition in ps}
    subscribed = {topic_id for member in members for topic_id in member.subscribed_topic_ids}
    assert given_away == {(topic_id, p) for topic_id in subscribed for p in range(topics[topic_id].partition_count)}
