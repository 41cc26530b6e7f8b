"""How a member leaves: when it is closed, when it unsubscribes, when nobody listens."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.members.effects import Closed, Committed, OffsetAndMetadata, Revoked
from schemas.error_codes import ErrorCode
from schemas.messages import JoinGroupResponse, LeaveGroupRequest, LeaveGroupResponse
from tests.coordinating.members.bench import P0, Bench


def test_closing_commits_gives_up_and_leaves() -> None:
    bench = Bench()
    bench.stable(P0, committed=5)
    bench.member.processed(P0, 9)
    bench.member.close(bench.now_ms)
    bench.poll()
    assert not bench.open("LeaveGroup"), "the commit comes first"
    bench.commit_answer()
    assert bench.last(Revoked).partitions == (P0,)
    number = bench.member.commit({P0: OffsetAndMetadata(11)})
    bench.wait(0)
    assert not bench.open("LeaveGroup"), "the application may still commit what it gives up"
    bench.commit_answer()
    assert bench.last(Committed).commit_id == number
    bench.poll()
    leaver = bench.asked(LeaveGroupRequest).members[0]
    assert (leaver.member_id, leaver.reason) == ("c-1", "the consumer is being closed")
    assert not bench.heard(Closed)
    bench.answer("LeaveGroup", LeaveGroupResponse())
    assert bench.heard(Closed)
    bench.wait(600_000)
    assert bench.member.next_deadline_ms() is None


@pytest.mark.parametrize("error_code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_leave_that_nobody_took_is_said_again_within_the_request_timeout(error_code: ErrorCode) -> None:
    bench = Bench(request_timeout_ms=5_000)
    bench.stable()
    bench.member.close(bench.now_ms)
    bench.poll()
    bench.answer("LeaveGroup", LeaveGroupResponse(error_code=error_code))
    assert not bench.member.is_closed
    bench.wait(100)
    bench.answer("LeaveGroup", LeaveGroupResponse(error_code=error_code))
    bench.wait(200)
    first, second, third = [send.request for send in bench.sent if send.api == "LeaveGroup"]
    assert first == second == third
    bench.wait(4_700)
    assert bench.member.next_deadline_ms() is None
    assert bench.member.is_closed, "nobody listened, and it is over"


def test_a_leave_is_not_repeated_for_an_answer_about_the_member() -> None:
    bench = Bench()
    bench.stable()
    bench.member.close(bench.now_ms)
    bench.poll()
    bench.answer("LeaveGroup", LeaveGroupResponse(error_code=ErrorCode.UNKNOWN_MEMBER_ID))
    assert bench.member.is_closed


def test_who_unsubscribes_leaves_again_where_nobody_listened_and_may_join_meanwhile() -> None:
    bench = Bench()
    bench.stable(P0)
    bench.member.subscribe(())
    bench.poll()
    bench.answer("LeaveGroup", LeaveGroupResponse(error_code=ErrorCode.NOT_COORDINATOR))
    bench.member.subscribe(("orders",))
    bench.poll()
    bench.join(2, member_id="c-2")
    bench.wait(100)
    assert [member.member_id for member in bench.asked(LeaveGroupRequest).members] == ["c-1"]
    bench.answer("LeaveGroup", LeaveGroupResponse())
    assert bench.member.member_id == "c-2"


def test_closing_does_not_wait_for_ever() -> None:
    bench = Bench(request_timeout_ms=30_000)
    bench.stable(P0)
    bench.member.processed(P0, 9)
    bench.member.close(bench.now_ms)
    bench.wait(29_999)
    assert not bench.member.is_closed
    bench.wait(1)
    assert bench.last(Revoked).partitions == (P0,)
    assert bench.member.is_closed


def test_a_member_that_never_joined_closes_without_a_word() -> None:
    bench = Bench()
    bench.member.close(bench.now_ms)
    bench.poll()
    assert bench.member.is_closed
    assert not bench.sent


def test_a_member_that_waits_for_its_join_leaves_by_the_id_that_it_was_given() -> None:
    bench = Bench()
    bench.poll()
    bench.answer("JoinGroup", JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="c-1"))
    bench.member.close(bench.now_ms)
    bench.wait(0)
    assert bench.asked(LeaveGroupRequest).members[0].member_id == "c-1"


def test_a_failed_member_closes_at_once() -> None:
    bench = Bench()
    bench.poll()
    bench.answer("JoinGroup", JoinGroupResponse(error_code=ErrorCode.FENCED_INSTANCE_ID))
    bench.member.close(bench.now_ms)
    bench.wait(0)
    assert bench.member.is_closed
