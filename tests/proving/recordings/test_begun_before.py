"""Whether a group is older than its log, as its first joins show."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from group_coordinator.proving.recordings.begun_before import begun_before
from group_coordinator.proving.recordings.group_requests import GroupRequest
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from tests.proving.recordings.heartbeats import request


def joined(second: float, waits_s: float, member_id: str, epoch: int) -> GroupRequest:
    logged = request(second, api="ConsumerGroupHeartbeat", waits_s=waits_s)
    body = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=0)
    return replace(logged, request=body, response={"errorCode": 0, "memberId": member_id, "memberEpoch": epoch})


@pytest.mark.parametrize(("first_epoch", "is_older"), [(1, False), (2, True)])
def test_of_joins_that_wait_together_any_is_answered_first(first_epoch: int, is_older: bool) -> None:
    together = [joined(0.0, 1.02, "a", first_epoch), joined(0.02, 0.9, "b", first_epoch + 1)]
    assert begun_before(together, new_group_epoch=1) is is_older


def test_a_join_after_the_first_answer_shows_nothing_of_the_time_before() -> None:
    """The group was removed, and made again."""
    assert begun_before([joined(0.0, 0.1, "a", 5), joined(1.0, 0.1, "b", 1)], new_group_epoch=1)
