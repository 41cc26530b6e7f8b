"""ConsumerGroupDescribe."""

from coordinator_state import Answer
from schemas.consumer_group_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedAssignment,
    DescribedConsumerGroup,
    NamedTopicPartitions,
)
from schemas.error_codes import ErrorCode
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness
from tests.coordinator_state.harness import GroupHarness, of_type


def described(group: GroupHarness) -> DescribedConsumerGroup:
    request = ConsumerGroupDescribeRequest(group_ids=("g",))
    (answer,) = of_type(group.send("ConsumerGroupDescribe", request, 1), Answer)
    assert isinstance(answer.response, ConsumerGroupDescribeResponse)
    return answer.response.groups[0]


def test_a_group_is_described() -> None:
    group = ConsumerHarness()
    group.joins("A", "foo")
    answer = described(group)
    (member,) = answer.members
    assert (answer.group_state, answer.group_epoch, answer.assignment_epoch) == ("Stable", 2, 2)
    assert answer.assignor_name == "uniform"
    partitions = NamedTopicPartitions(topic_id=FOO, topic_name="foo", partitions=(0, 1, 2, 3))
    assert member.assignment == member.target_assignment == DescribedAssignment(topic_partitions=(partitions,))
    assert member.member_type == 1


def test_a_classic_group_is_none() -> None:
    group = GroupHarness()
    group.stable("a")
    assert described(group).error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert described(GroupHarness()).error_code is ErrorCode.GROUP_ID_NOT_FOUND
