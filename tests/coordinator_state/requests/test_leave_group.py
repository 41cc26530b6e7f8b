"""LeaveGroup: members leave, or an administrator removes static ones."""

import pytest

from schemas.error_codes import ErrorCode
from schemas.history import GroupEmpty, MemberLeft, PendingMemberRemoved, RebalanceStarted
from schemas.messages import LeaveGroupMember
from tests.coordinator_state.harness import GroupHarness, of_type


def test_the_others_rebalance() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    outputs = group.leave("b")
    assert [record.member.member_id for record in of_type(outputs, MemberLeft)] == ["b"]
    (started,) = of_type(outputs, RebalanceStarted)
    assert (started.trigger, started.waiting_for) == ("member_left", ("a",))
    assert group.answer(outputs).members[0].error_code is ErrorCode.NONE
    assert group.answer(group.heartbeat("b", 2)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_one_leaves_an_empty_group_of_the_next_generation() -> None:
    group = GroupHarness()
    group.stable("a")
    assert len(of_type(group.leave("a"), GroupEmpty)) == 1
    assert group.group is not None
    assert (group.state, group.classic.generation_id) == ("Empty", 2)


def test_several_members_in_one_request_are_one_rebalance() -> None:
    group = GroupHarness()
    group.stable("a", "b", "c")
    outputs = group.leave("a", "x", "b")
    codes = [member.error_code for member in group.answer(outputs).members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NONE]
    assert len(of_type(outputs, RebalanceStarted)) == 1


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(("member_id", "error"), [("b", ErrorCode.NONE), ("x", ErrorCode.UNKNOWN_MEMBER_ID)])
def test_before_version_3_the_error_stands_at_the_top(version: int, member_id: str, error: ErrorCode) -> None:
    group = GroupHarness()
    group.stable("a", "b")
    answer = group.answer(group.leave(member_id, version=version))
    assert (answer.error_code, answer.members) == (error, ())


def test_the_join_phase_ends_when_the_member_leaves_that_it_waited_for() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a")
    waiting = f"r{group.offset}"
    assert group.answers(group.leave("b"))[waiting].generation_id == 3


def static_group() -> GroupHarness:
    """Stable with one static member: `s` of the instance `i`."""
    group = GroupHarness()
    group.join(new_member_id="s", group_instance_id="i")
    group.sleep(0)
    group.sync("s", 1)
    assert group.state == "Stable"
    return group


def test_a_static_member_is_removed_by_its_instance_id() -> None:
    group = static_group()
    outputs = group.leave(LeaveGroupMember(group_instance_id="i", reason="scaled down"))
    (leave_record,) = of_type(outputs, MemberLeft)
    assert (leave_record.member.member_id, leave_record.cause.reason) == ("s", "scaled down")
    (answered,) = group.answer(outputs).members
    assert (answered.member_id, answered.group_instance_id, answered.error_code) == ("", "i", ErrorCode.NONE)


@pytest.mark.parametrize(
    ("member", "error"),
    [
        (LeaveGroupMember(group_instance_id="unknown"), ErrorCode.UNKNOWN_MEMBER_ID),
        (LeaveGroupMember(member_id="other", group_instance_id="i"), ErrorCode.FENCED_INSTANCE_ID),
        (LeaveGroupMember(member_id="s", group_instance_id="unknown"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_member_and_instance_must_belong_together(member: LeaveGroupMember, error: ErrorCode) -> None:
    group = static_group()
    assert group.answer(group.leave(member)).members[0].error_code is error
    assert group.state == "Stable"


def test_a_handed_out_id_can_leave() -> None:
    """Kafka rebalances even then."""
    group = GroupHarness()
    group.stable("a")
    group.join(new_member_id="b")
    outputs = group.leave("b")
    assert [record.reason for record in of_type(outputs, PendingMemberRemoved)] == ["left"]
    assert of_type(outputs, RebalanceStarted)[0].trigger == "pending_member_left"


def test_the_reason_is_shortened_as_kafka_does() -> None:
    group = GroupHarness()
    group.stable("a")
    outputs = group.leave(LeaveGroupMember(member_id="a", reason="x" * 1_000))
    assert of_type(outputs, MemberLeft)[0].cause.reason == "x" * 255
