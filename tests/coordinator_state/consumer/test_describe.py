"""What ConsumerGroupDescribe says of a group that it cannot describe, as Kafka's tools print it."""

from __future__ import annotations

from schemas.consumer_group_messages import ConsumerGroupDescribeRequest
from schemas.error_codes import ErrorCode
from tests.coordinator_state.consumer.harness import ConsumerHarness


def refused(group: ConsumerHarness) -> tuple[ErrorCode, str | None]:
    request = ConsumerGroupDescribeRequest(group_ids=("g",))
    (described,) = group.answer(group.send("ConsumerGroupDescribe", request, 1)).groups
    return described.error_code, described.error_message


def test_a_group_that_does_not_exist() -> None:
    assert refused(ConsumerHarness()) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")


def test_a_group_of_another_kind() -> None:
    group = ConsumerHarness()
    group.stable("m")
    assert refused(group) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g is not a consumer group.")
