"""ConsumerGroupDescribe: API key 69, versions 0-1."""

from __future__ import annotations

from coordinator_state.errors import Refusal
from coordinator_state.step import Step
from schemas.consumer_group_messages import ConsumerGroupDescribeRequest
from schemas.error_codes import ErrorCode


def consumer_group_describe(step: Step, request: ConsumerGroupDescribeRequest) -> None:
    """Refuse as Kafka does where the group is none of this protocol."""
    raise Refusal(ErrorCode.GROUP_ID_NOT_FOUND, "not_a_consumer_group", "there is no consumer group of this id")
