"""Commits and committed offsets of a member of the consumer protocol: its epoch goes along."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.members.effects import CommitFailed, Committed, OffsetAndMetadata, Positioned
from schemas.error_codes import ErrorCode
from schemas.messages import OffsetCommitRequest, OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from tests.coordinating.members.bench import P0
from tests.coordinating.members.consumer_bench import INTERVAL_MS, ConsumerBench


def test_committed_offsets_are_fetched_with_the_members_epoch() -> None:
    bench = ConsumerBench()
    bench.poll()
    bench.beat(4, orders=(0,))
    bench.poll()
    (group,) = bench.asked(OffsetFetchRequest).groups
    assert (group.member_id, group.member_epoch) == (bench.member.member_id, 4)
    assert bench.open("OffsetFetch")[0].api_version == 9


@pytest.mark.parametrize("error_code", [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fetch_with_an_old_epoch_is_repeated_with_the_new_one(error_code: ErrorCode) -> None:
    bench = ConsumerBench()
    bench.poll()
    bench.beat(4, orders=(0,))
    bench.poll()
    refusal = OffsetFetchResponse(groups=(OffsetFetchResponseGroup(group_id="g", error_code=error_code),))
    bench.answer("OffsetFetch", refusal)
    bench.beat(5)
    assert not bench.open("OffsetFetch")
    bench.wait(100)
    assert bench.asked(OffsetFetchRequest).groups[0].member_epoch == 5
    bench.offsets({P0: 3})
    assert bench.last(Positioned).positions == {P0: 3}


def test_an_automatic_commit_with_an_old_epoch_is_repeated_with_the_new_one() -> None:
    bench = ConsumerBench(auto_commit_interval_ms=1_000)
    bench.settled(epoch=4, orders=(0,))
    bench.member.processed(P0, 9)
    bench.wait(1_000)
    assert bench.asked(OffsetCommitRequest).generation_id_or_member_epoch == 4
    bench.commit_answer(ErrorCode.STALE_MEMBER_EPOCH)
    bench.wait(INTERVAL_MS - 1_000)
    bench.beat(5)
    assert bench.asked(OffsetCommitRequest).generation_id_or_member_epoch in (4, 5)
    while bench.asked(OffsetCommitRequest).generation_id_or_member_epoch == 4:
        bench.commit_answer(ErrorCode.STALE_MEMBER_EPOCH)
        bench.wait(1_000)
    bench.commit_answer()
    assert bench.last(Committed).offsets == {P0: OffsetAndMetadata(10)}


def test_a_commit_by_hand_with_an_old_epoch_fails() -> None:
    bench = ConsumerBench(enable_auto_commit=False)
    bench.settled(epoch=4, orders=(0,))
    bench.member.commit({P0: OffsetAndMetadata(5)})
    bench.wait(0)
    bench.commit_answer(ErrorCode.STALE_MEMBER_EPOCH)
    assert bench.last(CommitFailed).error_code is ErrorCode.STALE_MEMBER_EPOCH
    assert bench.member.state == "stable"


@pytest.mark.parametrize("error_code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID])
def test_heartbeats_and_not_commits_say_whether_a_member_has_its_place(error_code: ErrorCode) -> None:
    bench = ConsumerBench(enable_auto_commit=False)
    bench.settled(epoch=4, orders=(0,))
    bench.member.commit({P0: OffsetAndMetadata(5)})
    bench.wait(0)
    bench.commit_answer(error_code)
    assert bench.last(CommitFailed).error_code is error_code
    assert (bench.member.state, bench.member.assignment) == ("stable", (P0,))


def test_a_commit_is_not_repeated_after_the_partitions_were_lost() -> None:
    bench = ConsumerBench(auto_commit_interval_ms=1_000)
    bench.settled(epoch=4, orders=(0,))
    bench.member.processed(P0, 9)
    bench.wait(INTERVAL_MS)
    bench.commit_answer(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    bench.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    bench.poll()
    bench.beat(7, orders=(0,))
    bench.wait(1_000)
    assert bench.last(CommitFailed).offsets == {P0: OffsetAndMetadata(10)}
    assert not bench.open("OffsetCommit")


def test_outside_the_group_nothing_is_committed() -> None:
    bench = ConsumerBench()
    bench.member.commit({P0: OffsetAndMetadata(5)})
    bench.poll()
    assert bench.last(CommitFailed).error_code is ErrorCode.UNKNOWN_MEMBER_ID
    assert not bench.open("OffsetCommit")
