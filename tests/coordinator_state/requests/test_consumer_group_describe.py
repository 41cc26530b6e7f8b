"""ConsumerGroupDescribe."""

from coordinator_state import Answer
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
from schemas.error_codes import ErrorCode
from tests.coordinator_state.harness import GroupHarness, of_type


def test_it_is_not_served() -> None:
    group = GroupHarness()
    request = ConsumerGroupDescribeRequest(group_ids=("g",))
    (answer,) = of_type(group.send("ConsumerGroupDescribe", request, 1), Answer)
    assert isinstance(answer.response, ConsumerGroupDescribeResponse)
    assert answer.response.groups[0].error_code is ErrorCode.UNSUPPORTED_VERSION
    assert group.group is None
