"""ConsumerGroupHeartbeat. Kafka's own histories hold every rule (tests/verify_history/test_consumer_histories.py)."""

import pytest

from coordinator_state import LogRecord
from schemas.consumer_group_history import GroupEpochBumped, MemberReconciled, TargetAssignmentComputed
from schemas.consumer_group_messages import ConsumerGroupAssignment
from schemas.error_codes import ErrorCode
from schemas.kafka.records import Record, decode_record
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned
from tests.coordinator_state.harness import of_type, subscription


def test_two_members_share_a_topic_one_after_the_other() -> None:
    """The trace of Kafka's classes in which the second member joins within the assignment interval."""
    group = ConsumerHarness()
    first = group.joins("A", "foo")
    assert first.member_epoch == 2
    assert first.assignment == ConsumerGroupAssignment(topic_partitions=owned(FOO, 0, 1, 2, 3))
    group.sleep(100)
    assert group.joins("B", "foo").assignment == ConsumerGroupAssignment(topic_partitions=())
    assert group.body.state_name == "Assigning"
    group.sleep(400)
    assert group.told("A", 2).assignment is None
    group.sleep(500)
    assert group.told("A", 2).assignment == ConsumerGroupAssignment(topic_partitions=owned(FOO, 0, 1))
    group.sleep(1)
    assert group.told("B", 2).member_epoch == 3
    assert group.told("A", 2, topic_partitions=owned(FOO, 0, 1)).member_epoch == 3
    assert group.told("B", 3).assignment == ConsumerGroupAssignment(topic_partitions=owned(FOO, 2, 3))
    assert group.body.state_name == "Stable"
    assert group.told("A", 2, topic_partitions=owned(FOO, 0)).member_epoch == 3
    assert group.told("A", 2).error_code is ErrorCode.FENCED_MEMBER_EPOCH
    assert group.told("A", 9).error_code is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_records_of_a_first_member_are_in_kafkas_order() -> None:
    group = ConsumerHarness()
    outputs = group.beat(
        "A", 0, subscribed_topic_names=("foo",), rebalance_timeout_ms=60_000, topic_partitions=()
    )
    decoded = [decode_record(record.key, record.value) for record in of_type(outputs, LogRecord)]
    assert [record.name.removeprefix("ConsumerGroup") for record in decoded if isinstance(record, Record)] == [
        "MemberMetadata", "Metadata", "TargetAssignmentMember", "TargetAssignmentMetadata", "CurrentMemberAssignment",
    ]  # fmt: skip
    assert of_type(outputs, GroupEpochBumped)[0].reasons == ("member_joined",)
    assert of_type(outputs, TargetAssignmentComputed)[0].assignor == "uniform"
    assert of_type(outputs, MemberReconciled)[0].state == "stable"


def test_a_refused_heartbeat_makes_no_group() -> None:
    group = ConsumerHarness()
    answer = group.joins("A", subscribed_topic_regex="(")
    assert answer.error_code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert group.group is None


def test_who_is_silent_is_fenced() -> None:
    group = ConsumerHarness()
    group.joins("A", "foo")
    group.sleep(44_999)
    assert list(group.body.members) == ["A"]
    group.sleep(1)
    assert (group.body.state_name, group.body.group_epoch, group.body.metadata_hash) == ("Empty", 3, 0)


def test_who_does_not_give_up_partitions_is_fenced() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("A", "foo", rebalance_timeout_ms=7_000)
    group.joins("B", "foo")
    group.told("A", 2)
    group.sleep(6_999)
    assert set(group.body.members) == {"A", "B"}
    group.sleep(1)
    assert set(group.body.members) == {"B"}


@pytest.mark.parametrize("epoch", [-1, -2])
def test_a_static_member_leaves(epoch: int) -> None:
    group = ConsumerHarness()
    group.joins("A", "foo", instance_id="i")
    assert group.told("A", epoch, instance_id="i").member_epoch == epoch
    assert ("A" in group.body.members) == (epoch == -2)


def test_after_the_clock_stood_still_everybody_has_the_whole_session() -> None:
    group = ConsumerHarness()
    group.joins("A", "foo")
    group.sleep(40_000)
    group.renew_sessions()
    group.sleep(44_999)
    assert list(group.body.members) == ["A"]
    group.sleep(1)
    assert list(group.body.members) == []


def test_a_classic_member_joins_and_the_group_goes_back_when_the_native_one_leaves() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("A", "foo")
    group.join("x", protocols={"range": subscription("foo")})
    assert list(group.body.members) == ["A", "x"]
    group.told("A", -1)
    assert group.state == "PreparingRebalance"
    assert list(group.classic.members) == ["x"]


def test_a_classic_group_becomes_a_consumer_group() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    generation = group.stable("x", protocols={"range": subscription("foo")})
    assert group.joins("A", "foo").member_epoch == generation + 1
    assert list(group.body.members) == ["x", "A"]
