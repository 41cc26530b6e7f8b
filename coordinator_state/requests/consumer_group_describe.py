"""ConsumerGroupDescribe: API key 69, versions 0-1."""

from __future__ import annotations

from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest
from schemas.error_codes import ErrorCode


def consumer_group_describe(step: Step, request: ConsumerGroupDescribeRequest) -> None:
    """Refuse as Kafka does where `group.coordinator.rebalance.protocols` lacks `consumer`."""
    raise Refusal(
        ErrorCode.UNSUPPORTED_VERSION, "consumer_protocol_is_off", "the coordinator does not serve consumer groups"
    )
