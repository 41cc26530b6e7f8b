"""Positions: where a member begins."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.members.effects import Failed, LogBoundsNeeded, NoOffsetToReset, Positioned
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatResponse, OffsetFetchResponse, OffsetFetchResponseGroup
from tests.coordinating.members.bench import P0, P1, Bench


def test_a_member_begins_at_the_committed_offsets() -> None:
    bench = Bench()
    bench.stable(P0, P1, committed=17)
    assert bench.last(Positioned).positions == {P0: 17, P1: 17}


@pytest.mark.parametrize(("policy", "offset"), [("earliest", 3), ("latest", 9)])
def test_without_a_committed_offset_the_reset_policy_chooses(policy: str, offset: int) -> None:
    bench = Bench(auto_offset_reset=policy)
    bench.stable(P0, committed=-1)
    assert bench.last(LogBoundsNeeded).partitions == (P0,)
    assert not bench.heard(Positioned)
    bench.member.log_bounds({P0: (3, 9), P1: (0, 0)})
    bench.poll()
    assert bench.last(Positioned).positions == {P0: offset}


def test_without_a_reset_policy_the_application_is_told() -> None:
    bench = Bench(auto_offset_reset="none")
    bench.stable(P0, committed=-1)
    assert bench.last(NoOffsetToReset).partitions == (P0,)


def test_a_position_that_the_log_no_longer_has_begins_anew() -> None:
    bench = Bench()
    bench.stable(P0, committed=17)
    bench.member.out_of_range([P0])
    bench.member.log_bounds({P0: (100, 200)})
    bench.poll()
    assert bench.last(Positioned).positions == {P0: 100}


@pytest.mark.parametrize("error_code", [ErrorCode.UNSTABLE_OFFSET_COMMIT, ErrorCode.NOT_COORDINATOR])
def test_an_offset_fetch_that_may_be_repeated_is_repeated(error_code: ErrorCode) -> None:
    bench = Bench()
    bench.poll()
    bench.join()
    bench.sync(P0)
    bench.poll()
    bench.offsets({P0: -1}, error_code)
    assert not bench.heard(LogBoundsNeeded)
    bench.wait(100)
    bench.offsets({P0: 4})
    assert bench.last(Positioned).positions == {P0: 4}


def test_an_offset_fetch_of_a_group_that_may_not_be_used_ends_the_member() -> None:
    bench = Bench()
    bench.poll()
    bench.join()
    bench.sync(P0)
    bench.poll()
    group = OffsetFetchResponseGroup(group_id="g", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    bench.answer("OffsetFetch", OffsetFetchResponse(groups=(group,)))
    assert bench.last(Failed).error_code is ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_an_offset_fetch_without_an_answer_is_asked_again_and_the_late_answer_ignored() -> None:
    bench = Bench(request_timeout_ms=5_000)
    bench.poll()
    bench.join()
    bench.sync(P0)
    bench.poll()
    late_request = bench.open("OffsetFetch")[0]
    bench.wait(5_100)
    bench.offsets({P0: 8})
    bench.reopen(late_request)
    bench.offsets({P0: 4})
    assert [notification.positions for notification in bench.heard(Positioned)] == [{P0: 8}]


def test_an_old_answer_does_not_place_a_partition_that_was_given_up_meanwhile() -> None:
    bench = Bench(enable_auto_commit=False)
    bench.poll()
    bench.join()
    bench.sync(P0)
    bench.poll()
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    bench.poll()
    bench.poll()
    bench.join(generation_id=2)
    bench.sync(P0)
    bench.poll()
    bench.offsets({P0: 4})
    assert not bench.heard(Positioned)
    bench.offsets({P0: 8})
    assert bench.last(Positioned).positions == {P0: 8}
