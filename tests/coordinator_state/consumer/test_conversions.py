"""Conversions that no recorded history has. Source: Kafka 4.3.1's classes, as named below."""

from __future__ import annotations

import pytest

from coordinator_state import LogRecord
from schemas.consumer_group_records import REGULAR_EXPRESSION_TYPE, named_key
from schemas.error_codes import ErrorCode
from schemas.group_metadata_events import RegexesResolved
from schemas.messages import LeaveGroupMember
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import of_type, subscription

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


def test_a_native_member_that_goes_on_with_the_classic_protocol_makes_the_group_classic() -> None:
    """It takes the place of the last native member: its own. One without an instance id does not
    (`GroupMetadataManager.classicGroupJoinToConsumerGroup`)."""
    static, dynamic = ConsumerHarness(), ConsumerHarness()
    static.joins("a", "foo", instance_id="i")
    assert static.answer(static.join("a", protocols=PROTOCOLS, group_instance_id="i")).error_code is ErrorCode.NONE
    assert list(static.classic.members) == ["a"]
    dynamic.joins("a", "foo")
    assert dynamic.answer(dynamic.join("a", protocols=PROTOCOLS)).error_code is ErrorCode.NONE
    assert list(dynamic.body.members) == ["a"]


def test_an_expression_that_is_given_up_by_the_join_that_ends_the_consumer_group_has_two_tombstones() -> None:
    """The tombstones of the group are those of what it was before the request."""
    group = ConsumerHarness()
    group.joins("a", "foo", instance_id="i", subscribed_topic_regex="f.*")
    group.tell(RegexesResolved(version=1, resolved={"f.*": ("foo",)}, began_ms=group.now_ms))
    outputs = group.join(new_member_id="m", protocols=PROTOCOLS, group_instance_id="i")
    assert list(group.classic.members) == ["m"]
    key = named_key(REGULAR_EXPRESSION_TYPE, "g", "f.*")
    assert [record.value for record in of_type(outputs, LogRecord) if record.key == key] == [None, None]


@pytest.mark.parametrize("hash_order", [False, True])
def test_who_makes_the_group_classic_by_joining_is_its_last_member(hash_order: bool) -> None:
    """So another one leads it, whatever the ids (`ClassicGroup.fromConsumerGroup`)."""
    for joiner in (f"m-{number}" for number in range(20)):
        group = ConsumerHarness(group_consumer_hash_order=hash_order)
        group.joins("a", "foo", instance_id="i")
        group.add("first", protocols=PROTOCOLS)
        group.join(new_member_id=joiner, protocols=PROTOCOLS, group_instance_id="i")
        assert group.classic.leader_id == "first"
