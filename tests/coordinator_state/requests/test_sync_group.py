"""SyncGroup: the leader brings everybody's assignment, and each member gets its own."""

from typing import Any

import pytest

from coordinator_state import LogRecord
from schemas.error_codes import ErrorCode
from schemas.history import MemberDropped, MemberExpired, RebalanceStarted
from schemas.records import GroupMetadataValue, decode_record
from tests.coordinator_state.harness import GroupHarness, assignment, of_type

PLAN = {"a": assignment("t", 0), "b": assignment("t", 1)}


def joined_group() -> GroupHarness:
    """CompletingRebalance in generation 1 with the members `a` (leading) and `b`."""
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    group.add("a", rebalance_timeout_ms=20_000, session_timeout_ms=30_000)
    group.add("b", rebalance_timeout_ms=20_000, session_timeout_ms=30_000)
    group.sleep(6_000)
    assert group.state == "CompletingRebalance"
    return group


def test_a_follower_waits_for_the_leader() -> None:
    group = joined_group()
    assert group.answers(group.sync("b", 1)) == {}
    follower = f"r{group.offset}"
    answers = group.answers(group.sync("a", 1, PLAN))
    assert answers[follower].assignment == PLAN["b"]
    assert answers[f"r{group.offset}"].assignment == PLAN["a"]
    assert (answers[follower].protocol_type, answers[follower].protocol_name) == ("consumer", "range")
    assert group.state == "Stable"


def test_the_assignment_is_written_before_it_is_answered() -> None:
    group = joined_group()
    outputs = group.sync("a", 1, PLAN)
    (record,) = of_type(outputs, LogRecord)
    _, value = decode_record(record.key, record.value)
    assert isinstance(value, GroupMetadataValue)
    assert {member.member_id: member.assignment for member in value.members} == PLAN
    assert all(record.seq < output.seq for output in outputs if output is not record)


def test_a_member_that_the_leader_does_not_list_gets_nothing_and_a_stranger_is_ignored() -> None:
    group = joined_group()
    group.sync("a", 1, {"a": assignment("t", 0), "x": assignment("t", 1)})
    assert group.answer(group.sync("b", 1)).assignment == b""


def test_in_a_stable_group_everybody_gets_its_assignment_again() -> None:
    group = joined_group()
    group.sync("a", 1, PLAN)
    assert group.answer(group.sync("b", 1)).assignment == PLAN["b"]
    assert group.answer(group.sync("a", 1, {"a": assignment("t", 0, 1)})).assignment == PLAN["a"]


def test_a_member_that_does_not_sync_within_the_rebalance_timeout_is_dropped() -> None:
    group = joined_group()
    group.sync("a", 1, PLAN)
    assert of_type(group.sleep(19_999), MemberDropped) == []
    (dropped,) = of_type(group.sleep(1), MemberDropped)
    assert (dropped.member.member_id, dropped.reason) == ("b", "did_not_sync")
    assert group.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"protocol_name": "sticky"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": "connect"}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_type": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocol_name": None}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"group_instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_a_request_that_does_not_fit_the_group(fields: dict[str, Any], error: ErrorCode) -> None:
    group = joined_group()
    assert group.answer(group.sync("b", 1, **fields)).error_code is error


@pytest.mark.parametrize("generation_id", [-1, 0, 2])
def test_another_generation(generation_id: int) -> None:
    group = joined_group()
    assert group.answer(group.sync("b", generation_id)).error_code is ErrorCode.ILLEGAL_GENERATION


def test_during_the_next_join_phase_the_member_is_told_to_rejoin() -> None:
    group = joined_group()
    group.leave("a")
    assert group.answer(group.sync("b", 1)).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_waiting_members_are_told_when_the_rebalance_begins_anew() -> None:
    group = joined_group()
    group.sync("b", 1)
    waiting = f"r{group.offset}"
    assert group.answers(group.leave("a"))[waiting].error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_answer_begins_the_session_anew() -> None:
    group = joined_group()
    group.sync("b", 1)
    group.sleep(10_000)
    group.sync("a", 1, PLAN)
    assert of_type(group.sleep(29_999), MemberExpired) == []
    assert {record.member.member_id for record in of_type(group.sleep(1), MemberExpired)} == {"a", "b"}


def test_a_superseded_sync_is_answered() -> None:
    group = joined_group()
    group.sync("b", 1)
    first = f"r{group.offset}"
    assert group.answers(group.sync("b", 1))[first].error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_parked_sync_of_a_leaver_is_answered() -> None:
    group = joined_group()
    group.sync("b", 1)
    parked = f"r{group.offset}"
    assert group.answers(group.leave("b"))[parked].error_code is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_assignment_that_would_outgrow_the_record_is_refused_as_kafka_refuses_a_failed_append() -> None:
    group = GroupHarness(group_max_bytes=5_000)
    group.add("a")
    group.sleep(0)
    outputs = group.sync("a", 1, {"a": b"x" * 6_000})
    assert group.answer(outputs).error_code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert of_type(outputs, RebalanceStarted)[0].trigger == "assignment_too_large"
    assert group.state == "PreparingRebalance"
    assert group.answer(group.join("a")).generation_id == 2
