"""Defects of Kafka that are copied, unless `group_consumer_bug_fixes_enable`: each one both ways."""

from __future__ import annotations

import pytest

from schemas.error_codes import ErrorCode
from schemas.history import MemberDropped
from tests.coordinator_state.consumer.harness import ConsumerHarness
from tests.coordinator_state.harness import of_type, subscription

MENDS = pytest.mark.parametrize("mends", [False, True], ids=["as in Kafka", "mended"])
PROTOCOLS = {"range": subscription("foo")}


def a_group(mends: bool) -> ConsumerHarness:
    return ConsumerHarness(group_consumer_bug_fixes_enable=mends, group_consumer_assignment_interval_ms=0)


@MENDS
@pytest.mark.parametrize("timer", ["did_not_sync", "did_not_rejoin"])
def test_the_timers_of_a_classic_member_that_goes_on_with_the_consumer_protocol(mends: bool, timer: str) -> None:
    group = a_group(mends)
    group.joins("a", "foo")
    group.add("m", protocols=PROTOCOLS, session_timeout_ms=45_000, rebalance_timeout_ms=50_000)
    if timer == "did_not_rejoin":
        epoch = group.body.members["m"].member_epoch
        group.sync("m", epoch)
        group.joins("b", "foo")
        assert group.answer(group.heartbeat("m", epoch)).error_code == ErrorCode.REBALANCE_IN_PROGRESS
    heard = group.joins("m", "foo")
    assert heard.error_code == ErrorCode.NONE
    dropped = []
    for _ in range(6):
        dropped += of_type(group.sleep(10_000), MemberDropped)
        for member_id, member in group.body.members.items():
            group.told(member_id, member.member_epoch)
    assert [(record.member.member_id, record.reason) for record in dropped] == ([] if mends else [("m", timer)])


@MENDS
def test_an_upgrade_that_fails_and_who_waits(mends: bool) -> None:
    group = a_group(mends)
    group.stable("m", protocols=PROTOCOLS)
    group.join(new_member_id="n", protocols=PROTOCOLS)
    outputs = group.join("n", protocols=PROTOCOLS)
    assert group.state == "PreparingRebalance"
    waiting = f"r{group.offset}"
    assert waiting not in group.answers(outputs)
    outputs = group.beat("a", 0, joins_with=("foo",), server_assignor="no-such-assignor")
    assert group.heard(outputs).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    outputs = group.beat("a", 0, subscribed_topic_regex="(", rebalance_timeout_ms=1, topic_partitions=())
    assert group.heard(outputs).error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert group.group is not None
    assert group.group.body.type_name == "classic"
    assert (waiting in group.answers(outputs)) is not mends


@MENDS
def test_an_upgrade_that_succeeds_answers_who_waits(mends: bool) -> None:
    group = a_group(mends)
    group.stable("m", protocols=PROTOCOLS)
    group.join(new_member_id="n", protocols=PROTOCOLS)
    group.join("n", protocols=PROTOCOLS)
    waiting = f"r{group.offset}"
    outputs = group.beat("a", 0, joins_with=("foo",))
    assert group.answers(outputs)[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS


@MENDS
def test_a_join_without_a_rebalance_timeout(mends: bool) -> None:
    group = a_group(mends)
    group.joins("a", "foo")
    outputs = group.join(
        version=1, new_member_id="m", protocols=PROTOCOLS, session_timeout_ms=30_000, rebalance_timeout_ms=-1
    )
    dropped = of_type(outputs + group.sleep(29_999), MemberDropped)
    assert [record.reason for record in dropped] == ([] if mends else ["did_not_sync"])
    assert len(group.body.members) == (2 if mends else 1)
    group.sleep(1)
    assert set(group.body.members) == {"a"}


def test_a_join_of_the_first_version_has_the_session_timeout_for_it() -> None:
    """A broker puts it in before its coordinator sees it (`JoinGroupRequest.maybeOverrideRebalanceTimeout`)."""
    group = a_group(mends=False)
    group.joins("a", "foo")
    outputs = group.join(version=0, new_member_id="m", protocols=PROTOCOLS, session_timeout_ms=30_000)
    assert group.answer(outputs).error_code is ErrorCode.NONE
    assert group.body.members["m"].rebalance_timeout_ms == 30_000
    assert not of_type(group.sleep(29_999), MemberDropped)
    group.sleep(1)
    assert set(group.body.members) == {"a"}


@MENDS
def test_who_is_assigned_while_an_expression_is_not_resolved(mends: bool) -> None:
    group = ConsumerHarness(group_consumer_bug_fixes_enable=mends, group_consumer_assignment_interval_ms=1_000)
    group.joins("a", "foo")
    group.joins("c", "foo")
    assert group.state == "Assigning"
    group.sleep(1_000)
    group.joins("b", subscribed_topic_names=None, subscribed_topic_regex="f.*")
    assert (group.body.targets["b"] == ()) is mends
    assert group.body.members["b"].assigned == {}


@MENDS
@pytest.mark.parametrize("member_id", ["", "a"])
def test_who_takes_the_place_of_the_last_native_member_by_an_instance_id_that_it_gave_up(
    mends: bool, member_id: str
) -> None:
    """Kafka does not see that the member goes, and looks for its classic protocols
    (`ClassicGroup.fromConsumerGroup`)."""
    group = a_group(mends)
    group.joins("a", "foo", instance_id="i1")
    group.joins("a", "foo", instance_id="i2")
    before = group.body.group_epoch
    answer = group.answer(
        group.join(member_id, new_member_id="m", protocols=PROTOCOLS, group_instance_id="i1")
    )
    assert answer.error_code == (ErrorCode.NONE if mends else ErrorCode.UNKNOWN_SERVER_ERROR)
    if mends:
        assert list(group.classic.members) == [member_id or "m"]
    else:
        assert (group.body.group_epoch, list(group.body.members)) == (before, ["a"])
        own = group.answer(group.join(new_member_id="m", protocols=PROTOCOLS, group_instance_id="i2"))
        assert own.error_code == ErrorCode.NONE
        assert list(group.classic.members) == ["m"]
