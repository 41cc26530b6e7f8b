"""ConsumerGroupDescribe."""

from coordinator_state import Answer
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from schemas.error_codes import ErrorCode
from tests.coordinator_state.harness import GroupHarness, of_type


def test_there_is_no_consumer_group() -> None:
    group = GroupHarness()
    request = ConsumerGroupDescribeRequest(group_ids=("g",))
    (answer,) = of_type(group.send("ConsumerGroupDescribe", request, 1), Answer)
    assert isinstance(answer.response, ConsumerGroupDescribeResponse)
    assert answer.response.groups[0].error_code is ErrorCode.GROUP_ID_NOT_FOUND
    assert group.group is None
