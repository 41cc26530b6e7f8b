"""FindCoordinator: the shard of a group, by Kafka's hash of its id."""

import pytest

from schemas.error_codes import ErrorCode
from schemas.java_hash import group_partition
from tests.coordinator_state.harness import GroupHarness


@pytest.mark.parametrize("group_id", ["g", "orders", "billing"])
@pytest.mark.parametrize("shard_count", [1, 3])
def test_the_shard_of_the_group(group_id: str, shard_count: int) -> None:
    group = GroupHarness(group_id, shard_count=shard_count)
    (coordinator,) = group.answer(group.find_coordinator()).coordinators
    assert (coordinator.key, coordinator.error_code) == (group_id, ErrorCode.NONE)
    assert coordinator.node_id == group_partition(group_id, shard_count)
    assert group.state == "none"


@pytest.mark.parametrize("key_type", [1, 2])
def test_transactions_and_share_groups_are_not_coordinated(key_type: int) -> None:
    group = GroupHarness()
    (coordinator,) = group.answer(group.find_coordinator(key_type=key_type)).coordinators
    assert coordinator.error_code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("version", [0, 3, 4, 6])
def test_every_version(version: int) -> None:
    group = GroupHarness()
    (coordinator,) = group.answer(group.find_coordinator(version)).coordinators
    assert coordinator.error_code is ErrorCode.NONE
