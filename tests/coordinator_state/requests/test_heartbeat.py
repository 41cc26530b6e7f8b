"""Heartbeat: the member lives, and learns of a rebalance."""

import pytest

from coordinator_state import AssignmentChange, LogRecord
from schemas.error_codes import ErrorCode
from schemas.history import HistoryRecord, MemberExpired
from tests.coordinator_state.harness import GroupHarness, of_type, subscription


def test_a_session_ends_a_session_timeout_after_the_last_heartbeat() -> None:
    group = GroupHarness()
    group.stable("a")
    group.sleep(9_999)
    group.heartbeat("a", 1)
    assert of_type(group.sleep(9_999), MemberExpired) == []
    (expired,) = of_type(group.sleep(1), MemberExpired)
    assert expired.last_heard_ms == group.now_ms - 10_000


def test_a_heartbeat_at_the_very_end_of_the_session_comes_too_late() -> None:
    group = GroupHarness()
    group.stable("a")
    group.sleep(10_000)
    assert group.answer(group.heartbeat("a", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_writes_no_record_and_no_history() -> None:
    group = GroupHarness()
    group.stable("a")
    outputs = group.heartbeat("a", 1)
    assert not of_type(outputs, LogRecord)
    assert not of_type(outputs, HistoryRecord)
    assert not of_type(outputs, AssignmentChange)


def test_a_member_that_must_rejoin_is_told_so_and_lives() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a", protocols={"range": subscription("t", "u")})
    for _ in range(3):
        group.sleep(9_999)
        assert group.answer(group.heartbeat("b", 2)).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_member_that_waits_for_the_leader_hears_that_all_is_well() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a")
    group.join("b")
    assert group.state == "CompletingRebalance"
    assert group.answer(group.heartbeat("b", 3)).error_code is ErrorCode.NONE


@pytest.mark.parametrize("generation_id", [-1, 1, 3])
def test_another_generation(generation_id: int) -> None:
    group = GroupHarness()
    group.stable("a", "b")
    assert group.answer(group.heartbeat("a", generation_id)).error_code is ErrorCode.ILLEGAL_GENERATION


def test_an_instance_id_fences_the_member_that_had_it_before() -> None:
    group = GroupHarness()
    group.join(new_member_id="s", group_instance_id="i")
    group.sleep(0)
    group.sync("s", 1)
    group.join(new_member_id="s2", group_instance_id="i")
    assert group.answer(group.heartbeat("s", 1, group_instance_id="i")).error_code is ErrorCode.FENCED_INSTANCE_ID
    assert group.answer(group.heartbeat("s", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert group.answer(group.heartbeat("s2", 1, group_instance_id="i")).error_code is ErrorCode.NONE
    assert group.answer(group.heartbeat("s2", 1)).error_code is ErrorCode.NONE


def test_a_handed_out_id_is_no_member() -> None:
    group = GroupHarness()
    group.stable("a")
    group.join(new_member_id="b")
    assert group.answer(group.heartbeat("b", 1)).error_code is ErrorCode.UNKNOWN_MEMBER_ID
