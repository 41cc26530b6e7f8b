"""A group belongs to the shard of its partition; every other shard sends its requests away."""

import pytest

from schemas.error_codes import ErrorCode
from tests.coordinator_state.harness import GroupHarness


@pytest.mark.parametrize(
    ("partition", "error"),
    [(0, ErrorCode.NOT_COORDINATOR), (1, ErrorCode.UNKNOWN_MEMBER_ID), (2, ErrorCode.NOT_COORDINATOR)],
)
def test_a_request_in_another_shards_partition_is_told_so(partition: int, error: ErrorCode) -> None:
    group = GroupHarness("g", partition=partition, shard_count=3)  # "g" belongs to partition 103 % 3 = 1
    assert group.answer(group.heartbeat("a", 1)).error_code is error
    assert group.state == "none"


def test_a_commit_in_another_shards_partition_makes_no_group() -> None:
    group = GroupHarness("g", partition=0, shard_count=3)
    group.commit()
    assert group.state == "none"


def test_where_the_coordinator_is_every_shard_can_say() -> None:
    for partition in range(3):
        group = GroupHarness("g", partition=partition, shard_count=3)
        (coordinator,) = group.answer(group.find_coordinator()).coordinators
        assert (coordinator.node_id, coordinator.error_code) == (1, ErrorCode.NONE)
