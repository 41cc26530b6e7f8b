"""A fetch is answered with the commit before, until replicas have the next one."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from group_coordinator.proving.recordings.commits_in_sight import CommitsInSight
from schemas.messages import (
    JoinGroupRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    SyncGroupAssignment,
    SyncGroupRequest,
)
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


def sync(second: float, code: int = 0, *, waits_s: float = 2.0, is_leader: bool = True) -> Any:
    shares = (SyncGroupAssignment(member_id="m", assignment=b"x"),) if is_leader else ()
    body = SyncGroupRequest(group_id="g", member_id="m", generation_id=1, assignments=shares)
    return replace(heartbeat(second, code=code, api="SyncGroup", waits_s=waits_s), request=body, set_aside=None)


def join(second: float, instance_id: str | None = None, code: int = 0, *, waits_s: float = 0.001) -> Any:
    body = JoinGroupRequest(
        group_id="g", session_timeout_ms=8_000, rebalance_timeout_ms=8_000, member_id="", group_instance_id=instance_id,
        protocol_type="consumer", protocols=(),
    )  # fmt: skip
    logged = heartbeat(second, code=code, api="JoinGroup", waits_s=waits_s)
    return replace(logged, request=body, new_member_id=f"m{second}", set_aside=None)


def described(state: str, assignment: str = "", member_id: str = "m") -> dict[str, Any]:
    member = {"memberId": member_id, "memberMetadata": assignment, "memberAssignment": assignment}
    return {"groups": [{"groupState": state, "protocolData": assignment and "range", "members": [member]}]}


@pytest.mark.parametrize(("at_s", "may_be"), [(1, False), (3, True), (5, False)])
def test_a_group_is_stable_when_its_assignment_is_stored(at_s: float, may_be: bool) -> None:
    commits, describe = CommitsInSight([sync(2)]), heartbeat(at_s, api="DescribeGroups")
    waiting, stable = described("CompletingRebalance"), described("Stable", "x")
    assert commits.explains(describe, waiting, stable) is may_be
    assert not commits.explains(describe, described("PreparingRebalance"), stable)
    assert not commits.explains(describe, described("CompletingRebalance", member_id="other"), stable)


@pytest.mark.parametrize(
    ("joined_s", "code", "is_explained"), [(3, 27, True), (1, 27, False), (5, 27, False), (3, 25, False)]
)
def test_an_assignment_is_refused_when_somebody_joins_before_it_is_stored(
    joined_s: float, code: int, is_explained: bool
) -> None:
    leader, other = sync(2, code), sync(2.5, code, is_leader=False)
    commits = CommitsInSight([leader, other, join(joined_s)])
    assert commits.is_refused_meanwhile(leader) is commits.is_refused_meanwhile(other) is is_explained


@pytest.mark.parametrize(("second_s", "instance_id", "is_fenced"), [(3, "i", True), (5, "i", False), (3, "o", False)])
def test_a_static_member_is_fenced_by_its_twin_until_its_place_is_stored(
    second_s: float, instance_id: str, is_fenced: bool
) -> None:
    first = join(2, "i", 82, waits_s=2)
    commits = CommitsInSight([first, join(second_s, instance_id)])
    assert commits.is_refused_meanwhile(first) is is_fenced
