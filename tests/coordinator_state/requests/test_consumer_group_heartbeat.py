"""ConsumerGroupHeartbeat."""

from coordinator_state import Answer
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
from schemas.error_codes import ErrorCode
from tests.coordinator_state.harness import GroupHarness, of_type


def test_it_is_not_served() -> None:
    group = GroupHarness()
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=0)
    (answer,) = of_type(group.send("ConsumerGroupHeartbeat", request, 1), Answer)
    assert isinstance(answer.response, ConsumerGroupHeartbeatResponse)
    assert answer.response.error_code is ErrorCode.UNSUPPORTED_VERSION
    assert group.group is None
