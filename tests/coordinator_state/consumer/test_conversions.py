"""Conversions that no recorded history has. Source: Kafka 4.3.1's classes, as named below."""

from __future__ import annotations

import pytest

from schemas.error_codes import ErrorCode
from schemas.messages import LeaveGroupMember
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import subscription

PROTOCOLS = {"range": subscription("foo")}


def test_a_group_is_empty_only_in_the_state_empty() -> None:
    """All have left while it prepared a rebalance: for Kafka it has members as long as its join phase goes on
    (`ClassicGroup.isEmpty`), so it is converted, with its generation."""
    group = ConsumerHarness(group_initial_rebalance_delay_ms=3_000)
    group.join(new_member_id="m", protocols=PROTOCOLS, group_instance_id="i")
    group.leave(LeaveGroupMember(member_id="m", group_instance_id="i"))
    assert group.state == "PreparingRebalance"
    assert group.joins("a", "foo").member_epoch == 1
    assert (group.body.group_epoch, group.body.assignment_epoch) == (1, 1)


@pytest.mark.parametrize("group_max_size", [1, 2])
def test_a_classic_member_that_takes_the_place_of_the_last_native_one_makes_the_group_classic(
    group_max_size: int,
) -> None:
    """Also where it is alone, and where the group is as large as a classic one may be
    (`GroupMetadataManager.validateOnlineDowngradeWithReplacedMember`)."""
    group = ConsumerHarness(group_max_size=group_max_size)
    group.joins("a", "foo", instance_id="i")
    joined = group.answer(group.join(new_member_id="m", protocols=PROTOCOLS, group_instance_id="i"))
    assert joined.error_code is ErrorCode.NONE
    assert list(group.classic.members) == ["m"]


def test_a_group_that_is_too_large_stays_a_consumer_group() -> None:
    group = ConsumerHarness(group_max_size=1)
    group.joins("a", "foo", instance_id="i")
    group.add("m", protocols=PROTOCOLS)
    group.join(new_member_id="n", protocols=PROTOCOLS, group_instance_id="i")
    assert list(group.body.members) == ["m", "n"]
