"""A fetch is answered with the commit before, until replicas have the next one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from group_coordinator.proving.recordings.commits_in_sight import CommitsInSight
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.proving.recordings.heartbeats import request as heartbeat

COMMIT_TAKES_S = 5.0


def commit(second: float, offset: int, code: int = 0) -> Any:
    topic = OffsetCommitRequestTopic(
        name="t", partitions=(OffsetCommitRequestPartition(partition_index=0, committed_offset=offset),)
    )
    body = OffsetCommitRequest(group_id="g", member_id="m", topics=(topic,))
    answer = {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "errorCode": code}]}]}
    logged = heartbeat(second, waits_s=COMMIT_TAKES_S)
    return replace(logged, request=body, response=answer)


def answer(offset: int, error_code: int = 0) -> dict[str, Any]:
    partition = {"partitionIndex": 0, "committedOffset": offset, "errorCode": error_code}
    return {"groups": [{"groupId": "g", "topics": [{"name": "t", "partitions": [partition]}]}]}


@pytest.mark.parametrize(
    ("at_s", "told", "may_be"),
    [(12, 10, True), (12, 20, True), (12, 5, False), (16, 10, False), (16, 20, True), (16, 30, False)],
)
def test_a_commit_is_in_sight_when_it_is_answered(at_s: float, told: int, may_be: bool) -> None:
    commits = CommitsInSight([commit(-10, 5), commit(0, 10), commit(10, 20)])
    fetch = heartbeat(at_s)
    assert (answer(told) == answer(20) or commits.may_be_seen(fetch, answer(told), answer(20))) is may_be


@pytest.mark.parametrize("code", [7, 15])
def test_one_that_was_answered_with_an_error_may_never_be_seen(code: int) -> None:
    commits = CommitsInSight([commit(0, 10), commit(10, 20, code)])
    assert commits.may_be_seen(heartbeat(60), answer(10), answer(20))
    assert not commits.may_be_seen(heartbeat(60), answer(11), answer(20))
    assert not commits.may_be_seen(heartbeat(60), answer(-1, 88), answer(20))


@pytest.mark.parametrize("told", [{"groupState": "", "errorCode": 69}, {"groupState": "Dead", "errorCode": 0}])
def test_a_group_is_there_when_the_first_answer_shows_it(told: dict[str, Any]) -> None:
    """A broker that was slow to replicate the first record of a group told for a second that there is none."""
    commits = CommitsInSight([heartbeat(5, api="ConsumerGroupHeartbeat", waits_s=2.0), heartbeat(0, code=16)])
    assert commits.may_be_absent(heartbeat(6), {"groups": [told]})
    assert not commits.may_be_absent(heartbeat(8), {"groups": [told]})
    assert not commits.may_be_absent(heartbeat(6), {"groups": [{"groupState": "Empty", "errorCode": 0}]})
