"""Commits: what is safe, what is repeated."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.members.effects import (
    CommitFailed,
    Committed,
    CoordinatorUnknown,
    Failed,
    OffsetAndMetadata,
    Revoked,
)
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.messages import HeartbeatResponse, JoinGroupRequest, OffsetCommitRequest
from tests.coordinating.members.bench import P0, P1, Bench
from tests.coordinating.members.world import World


def committed_by(request: object) -> dict[TopicPartition, int]:
    assert isinstance(request, OffsetCommitRequest)
    return {
        TopicPartition(topic.name, partition.partition_index): partition.committed_offset
        for topic in request.topics
        for partition in topic.partitions
    }


def test_positions_that_moved_are_committed_at_the_interval() -> None:
    bench = Bench(auto_commit_interval_ms=5_000)
    bench.stable(P0, P1, committed=5)
    bench.member.processed(P0, 6)
    bench.wait(5_000)
    assert committed_by(bench.asked(OffsetCommitRequest)) == {P0: 7}
    bench.commit_answer()
    assert bench.last(Committed).automatic
    bench.wait(20_000)
    assert not bench.open("OffsetCommit"), "nothing has moved since"


def test_where_the_reset_policy_began_is_committed_too() -> None:
    bench = Bench(auto_offset_reset="latest")
    bench.stable(P0, committed=-1)
    bench.member.log_bounds({P0: (0, 9)})
    bench.wait(5_000)
    assert committed_by(bench.asked(OffsetCommitRequest)) == {P0: 9}


def test_nothing_is_committed_automatically_when_that_is_off() -> None:
    bench = Bench(enable_auto_commit=False)
    bench.stable(P0, committed=5)
    bench.member.processed(P0, 6)
    bench.wait(60_000)
    bench.member.close(bench.now_ms)
    bench.poll()
    assert not [send for send in bench.sent if send.api == "OffsetCommit"]


def test_the_commit_before_a_rebalance_is_waited_for() -> None:
    bench = Bench()
    bench.stable(P0, committed=5)
    bench.member.processed(P0, 6)
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    bench.poll()
    assert not bench.member.may_process
    assert not bench.heard(Revoked)
    bench.poll()
    assert len(bench.open("OffsetCommit")) == 1
    bench.commit_answer()
    bench.poll()
    assert bench.last(Revoked).partitions == (P0,)
    bench.poll()
    assert bench.open("JoinGroup")
    assert bench.member.may_process


def test_the_commit_before_a_rebalance_is_not_waited_for_longer_than_the_rebalance() -> None:
    bench = Bench(max_poll_interval_ms=20_000, default_api_timeout_ms=600_000)
    bench.stable(P0, committed=5)
    bench.member.processed(P0, 6)
    bench.member.subscribe(("orders", "payments"))
    for _ in range(21):
        bench.poll()
        bench.wait(1_000)
    bench.poll()
    assert bench.open("JoinGroup")


# -------------------------------------------------------------------------------------------------- commits by request


def test_a_commit_is_answered_by_its_number() -> None:
    bench = Bench()
    bench.stable(P0, P1)
    number = bench.member.commit({P0: OffsetAndMetadata(3, "note")})
    bench.poll()
    request = bench.asked(OffsetCommitRequest)
    assert request.topics[0].partitions[0].committed_metadata == "note"
    bench.commit_answer()
    assert bench.last(Committed) == Committed(
        commit_id=number, offsets={P0: OffsetAndMetadata(3, "note")}, automatic=False
    )


def test_a_commit_without_offsets_commits_the_positions() -> None:
    bench = Bench(enable_auto_commit=False)
    bench.stable(P0, committed=5)
    bench.member.processed(P0, 20)
    bench.member.commit()
    bench.poll()
    assert committed_by(bench.asked(OffsetCommitRequest)) == {P0: 21}


def test_a_commit_of_nothing_succeeds_at_once() -> None:
    bench = Bench()
    bench.stable()
    number = bench.member.commit({})
    bench.poll()
    assert bench.last(Committed).commit_id == number


def test_a_commit_outside_the_group_fails_at_once() -> None:
    bench = Bench()
    bench.member.commit({P0: OffsetAndMetadata(1)})
    bench.poll()
    assert bench.last(CommitFailed).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    bench.member.commit({P0: OffsetAndMetadata(1)})
    bench.poll()
    assert bench.last(CommitFailed).error_code is ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(
    "error_code",
    [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR],
)
def test_a_commit_that_meets_no_coordinator_is_repeated_until_its_time_is_up(error_code: ErrorCode) -> None:
    bench = Bench(default_api_timeout_ms=1_000, retry_backoff_max_ms=400)
    bench.stable(P0)
    bench.member.commit({P0: OffsetAndMetadata(3)})
    bench.poll()
    for pause_ms in (100, 200, 400):
        assert committed_by(bench.commit_answer(error_code).request) == {P0: 3}
        bench.wait(pause_ms)
    bench.commit_answer(error_code)
    assert bench.last(CommitFailed).error_code is error_code


def test_only_the_partitions_that_failed_are_repeated() -> None:
    bench = Bench()
    bench.stable(P0, P1)
    bench.member.commit({P0: OffsetAndMetadata(3), P1: OffsetAndMetadata(4)})
    bench.poll()
    bench.commit_answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, only=P1)
    bench.wait(100)
    assert committed_by(bench.commit_answer().request) == {P1: 4}
    assert bench.last(Committed).offsets == {P0: OffsetAndMetadata(3), P1: OffsetAndMetadata(4)}


def test_an_older_commit_is_never_repeated_over_a_later_one() -> None:
    bench = Bench()
    bench.stable(P0, P1)
    first = bench.member.commit({P0: OffsetAndMetadata(3), P1: OffsetAndMetadata(3)})
    bench.poll()
    bench.commit_answer(ErrorCode.NOT_COORDINATOR)
    bench.member.commit({P0: OffsetAndMetadata(8)})
    bench.wait(100)
    assert committed_by(bench.commit_answer().request) == {P0: 8}
    assert committed_by(bench.commit_answer().request) == {P1: 3}
    second = bench.member.commit({P1: OffsetAndMetadata(5)})
    bench.poll()
    bench.commit_answer(ErrorCode.NOT_COORDINATOR)
    bench.member.commit({P1: OffsetAndMetadata(9)})
    bench.wait(100)
    assert bench.last(CommitFailed).commit_id == second
    assert first in [notification.commit_id for notification in bench.heard(Committed)]


def test_a_commit_is_not_repeated_in_another_generation() -> None:
    bench = Bench(enable_auto_commit=False, partition_assignment_strategy=("cooperative-sticky",))
    bench.stable(P0)
    bench.member.commit({P0: OffsetAndMetadata(3)})
    bench.member.subscribe(("orders", "payments"))
    bench.poll()
    bench.join(generation_id=2)
    bench.sync(P0)
    bench.poll()
    bench.commit_answer(ErrorCode.NOT_COORDINATOR)
    bench.wait(60_000)
    assert bench.last(CommitFailed).error_code is ErrorCode.NOT_COORDINATOR
    assert len([send for send in bench.sent if send.api == "OffsetCommit"]) == 1


def test_a_commit_without_an_answer_is_sent_again_under_another_id() -> None:
    bench = Bench(request_timeout_ms=5_000)
    bench.stable(P0)
    bench.member.commit({P0: OffsetAndMetadata(3)})
    bench.poll()
    first = bench.open("OffsetCommit")[0]
    bench.wait(5_100)
    assert bench.heard(CoordinatorUnknown)
    second = bench.open("OffsetCommit")[0]
    assert second.request_id != first.request_id
    assert committed_by(second.request) == {P0: 3}


@pytest.mark.parametrize(
    ("error_code", "reason"),
    [
        (ErrorCode.REBALANCE_IN_PROGRESS, "offset commit failed since group is already rebalancing"),
        (ErrorCode.UNKNOWN_MEMBER_ID, "encountered UNKNOWN_MEMBER_ID from OFFSET_COMMIT response"),
        (ErrorCode.ILLEGAL_GENERATION, "encountered ILLEGAL_GENERATION from OFFSET_COMMIT response"),
        (ErrorCode.GROUP_ID_NOT_FOUND, "encountered GROUP_ID_NOT_FOUND from OFFSET_COMMIT response"),
    ],
)
def test_a_commit_that_finds_another_generation_fails_and_the_member_joins_again(
    error_code: ErrorCode, reason: str
) -> None:
    bench = Bench(enable_auto_commit=False)
    bench.stable(P0)
    bench.member.commit({P0: OffsetAndMetadata(3)})
    bench.poll()
    bench.commit_answer(error_code)
    assert bench.last(CommitFailed).error_code is error_code
    bench.poll()
    bench.poll()
    assert bench.asked(JoinGroupRequest).reason == reason


@pytest.mark.parametrize("error_code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_a_commit_that_is_refused_for_good_ends_the_member(error_code: ErrorCode) -> None:
    bench = Bench(group_instance_id="i")
    bench.stable(P0)
    bench.member.commit({P0: OffsetAndMetadata(3)})
    bench.poll()
    bench.commit_answer(error_code)
    assert bench.last(Failed).error_code is error_code
    assert [notification.error_code for notification in bench.heard(CommitFailed)] == [error_code]


def test_metadata_that_is_too_long_fails_the_commit_and_nothing_else() -> None:
    bench = Bench()
    bench.stable(P0)
    bench.member.commit({P0: OffsetAndMetadata(3, "x" * 5_000)})
    bench.poll()
    bench.commit_answer(ErrorCode.OFFSET_METADATA_TOO_LARGE)
    assert bench.last(CommitFailed).error_code is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert bench.member.failure is None


# ------------------------------------------------------------------------------------------------------ with the core


def test_a_successor_goes_on_where_the_predecessor_stopped() -> None:
    world = World({"orders": 3})
    world.produce("orders", 100)
    first = world.start("first")
    world.run_until(lambda: len(world.processed) == 300)
    world.close(first)
    world.produce("orders", 10)
    world.start("second")
    world.run_until(lambda: len(world.processed) == 330)
    world.run(10_000)
    assert len(set(world.processed)) == len(world.processed)
    assert {offset for _, offset, name in world.processed if name == "second"} == set(range(100, 110))
    assert set(world.committed().values()) == {110}


def test_after_a_crash_what_was_not_committed_is_processed_again_and_nothing_is_skipped() -> None:
    world = World({"orders": 1})
    first = world.start("first", auto_commit_interval_ms=1_000, session_timeout_ms=6_000, heartbeat_interval_ms=1_000)
    for _ in range(20):
        world.produce("orders", 7)
        world.run(313)
    world.crash(first)
    world.start("second")
    world.run_until(lambda: any(name == "second" for *_, name in world.processed))
    world.run(5_000)
    offsets = [offset for _, offset, _ in world.processed]
    assert set(offsets) == set(range(140))
    assert len(offsets) - 140 < 5 * 7, "not more than a commit interval"


def test_a_manual_commit_in_the_middle_is_where_a_restart_begins() -> None:
    world = World({"orders": 1})
    world.produce("orders", 100)
    first = world.start("first", enable_auto_commit=False)
    world.run_until(lambda: len(world.processed) == 100)
    first.member.commit({P0: OffsetAndMetadata(40, "so far")})
    first.act()
    world.run(1_000)
    world.close(first)
    world.start("second", enable_auto_commit=False)
    world.run_until(lambda: len(world.processed) == 160)
    assert [offset for _, offset, name in world.processed if name == "second"] == list(range(40, 100))


def test_what_a_cooperative_member_processed_during_the_rebalance_is_committed_before_it_gives_it_away() -> None:
    bench = Bench(partition_assignment_strategy=("cooperative-sticky",))
    bench.stable(P0, P1)
    bench.wait(3_000)
    bench.answer("Heartbeat", HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS))
    bench.poll()
    bench.member.processed(P1, 41)
    bench.join(generation_id=2)
    bench.sync(P0)
    bench.poll()
    assert bench.last(Revoked).partitions == (P1,)
    assert not bench.open("JoinGroup"), "the successor must find the commit"
    assert committed_by(bench.commit_answer().request) == {P1: 42}
    bench.poll()
    assert bench.open("JoinGroup")
