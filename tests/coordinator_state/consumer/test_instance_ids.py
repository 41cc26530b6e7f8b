"""A member that takes another instance id, as no client of Kafka's does: the former id stays its own, also when it is
gone. Source: `ConsumerGroup.staticMember`, which raises then (Kafka 4.3)."""

from __future__ import annotations

import pytest

from coordinator_state.consumer.group import EXPIRED_DEADLINE
from schemas.consumer_group_messages import JOIN_EPOCH, LEAVE_EPOCH, ConsumerGroupAssignment
from schemas.error_codes import ErrorCode
from schemas.messages import LeaveGroupMember
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness
from tests.coordinator_state.harness import subscription

PROTOCOLS = {"range": subscription("foo")}


@pytest.fixture
def group() -> ConsumerHarness:
    """`m` had the instance id `i`, then `j`, and is gone; `stays` is there."""
    group = ConsumerHarness()
    group.joins("stays", "foo")
    assert group.joins("m", "foo", instance_id="i").error_code is ErrorCode.NONE
    assert group.joins("m", "foo", instance_id="j").error_code is ErrorCode.NONE
    assert group.told("m", LEAVE_EPOCH, instance_id="j").error_code is ErrorCode.NONE
    return group


def test_while_the_member_is_there_it_has_both(group: ConsumerHarness) -> None:
    group.joins("n", "foo", instance_id="k")
    group.joins("n", "foo", instance_id="l")
    assert group.joins("other", "foo", instance_id="k").error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert group.joins("other", "foo", instance_id="l").error_code is ErrorCode.UNRELEASED_INSTANCE_ID


@pytest.mark.parametrize("epoch", [JOIN_EPOCH, 2, LEAVE_EPOCH])
@pytest.mark.parametrize("member_id", ["m", "other"])
def test_nobody_gets_the_former_id(group: ConsumerHarness, epoch: int, member_id: str) -> None:
    joins_with = {"subscribed_topic_names": ("foo",), "rebalance_timeout_ms": 60_000, "topic_partitions": ()}
    fields = joins_with if epoch == JOIN_EPOCH else {}
    assert group.told(member_id, epoch, instance_id="i", **fields).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.joins("other", "foo", instance_id="j").error_code is ErrorCode.NONE


@pytest.mark.parametrize("member_id", ["", "m"])
def test_nobody_of_the_classic_protocol_gets_it(group: ConsumerHarness, member_id: str) -> None:
    join = group.join(member_id, protocols=PROTOCOLS, group_instance_id="i")
    assert group.answer(join).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.answer(group.sync("m", 2, group_instance_id="i")).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.answer(group.heartbeat("m", 2, group_instance_id="i")).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    leave = group.leave(LeaveGroupMember(member_id=member_id, group_instance_id="i"))
    assert [entry.error_code for entry in group.answer(leave).members] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_that_has_just_got_an_instance_id_has_no_target_before_the_next_one() -> None:
    """As in Kafka: the target of a static member is that of its instance, and this one is new
    (`ModernGroup.targetAssignment`)."""
    group = ConsumerHarness()
    group.joins("a", "foo")
    group.sleep(1_000)
    group.joins("b", "foo")
    assert group.body.targets["a"] == ((FOO, (0, 1)),)
    told = group.joins("a", "foo", instance_id="i")
    assert (told.member_epoch, told.assignment) == (3, ConsumerGroupAssignment(topic_partitions=()))
    group.sleep(1_000)
    group.joins("c", "foo")
    assert group.told("a", 3).assignment is not None


def test_a_join_that_is_refused_has_looked_at_the_topics() -> None:
    """As in Kafka, which takes back the records of a refused request, and not when it looks at the topics next."""
    group = ConsumerHarness()
    member_id = group.answer(group.join("", protocols=PROTOCOLS, group_instance_id="i")).member_id
    group.joins(member_id, "foo", instance_id="j")
    assert group.body.metadata_deadline == EXPIRED_DEADLINE
    join = group.join("", protocols=PROTOCOLS, group_instance_id="i")
    assert group.answer(join).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert group.body.metadata_deadline != EXPIRED_DEADLINE
