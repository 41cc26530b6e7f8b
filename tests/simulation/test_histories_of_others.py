"""Histories that other coordinators got wrong, each by its name: what must happen instead."""

from __future__ import annotations

import pytest

from coordinator_state import GroupConfig, LogRecord, Output, decode_group
from schemas.error_codes import ErrorCode
from schemas.history import GroupDead, GroupEmpty, MemberExpired, RebalanceStarted
from schemas.java_hash import group_partition
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from schemas.records import OffsetCommitKey, decode_record
from simulation.run import live_world
from simulation.scenario import BadNetwork, DriverCrash, MemberPlan, Scenario
from simulation.world import World
from tests.coordinator_state.harness import GroupHarness, assignment, of_type


@pytest.mark.parametrize("rebalance_timeout_ms", [-1, -2])
@pytest.mark.parametrize("version", [0, 3], ids=["absent in version 0", "given"])
def test_a_rebalance_timeout_that_is_negative_or_absent_means_the_session_timeout(
    rebalance_timeout_ms: int, version: int
) -> None:
    """Taken literally, the rebalance is over before anybody could rejoin. (A request of version 0 is decoded to -1.)"""
    harness = GroupHarness()
    harness.join(new_member_id="a", rebalance_timeout_ms=rebalance_timeout_ms, version=version)
    harness.sync("a", 1)
    harness.join(new_member_id="b", rebalance_timeout_ms=rebalance_timeout_ms, version=version)
    harness.sleep(5_000)
    harness.heartbeat("a", 1)
    harness.sleep(4_999)
    assert harness.state == "PreparingRebalance", "the session timeout of 10 s is not over"
    harness.sleep(1)
    assert harness.state == "CompletingRebalance"
    assert members(harness) == ["b"]


def members(harness: GroupHarness) -> list[str]:
    assert harness.group is not None
    return list(harness.group.members)


def generation_of(harness: GroupHarness) -> int:
    assert harness.group is not None
    return harness.group.generation_id


def test_a_static_rejoin_during_completing_rebalance_rebalances() -> None:
    """The old member id may already be in the leader's hands: its assignment must not reach anybody."""
    harness = GroupHarness()
    harness.join(new_member_id="l", group_instance_id="il")
    harness.join(new_member_id="s1", group_instance_id="is")
    harness.join("l", group_instance_id="il")
    assert harness.state == "CompletingRebalance"
    generation = generation_of(harness)
    started = of_type(harness.join(new_member_id="s2", group_instance_id="is"), RebalanceStarted)
    assert [each.trigger for each in started] == ["static_member_replaced"]
    refused = harness.answer(harness.sync("l", generation, {"l": b"", "s1": assignment("t", 0)}))
    assert refused.error_code is ErrorCode.REBALANCE_IN_PROGRESS
    harness.join("l", group_instance_id="il")
    assert generation_of(harness) == generation + 1
    assert members(harness) == ["l", "s2"]


def test_a_session_that_ends_after_its_member_has_gone_does_nothing() -> None:
    """Left, replaced, dropped: a timer of the member must not fire on its ghost, or on its successor."""
    harness = GroupHarness()
    harness.stable("a", "b")
    harness.leave("b")
    harness.join("a")
    harness.sync("a", generation_of(harness))
    for _ in range(10):
        harness.sleep(2_000)
        harness.heartbeat("a", generation_of(harness))
    assert not of_type(harness.outputs, MemberExpired)
    assert harness.state == "Stable"


def test_a_session_of_a_replaced_static_member_does_not_hit_its_successor() -> None:
    harness = GroupHarness()
    harness.join(new_member_id="s1", group_instance_id="i")
    harness.sync("s1", 1)
    harness.sleep(9_000)
    harness.join(new_member_id="s2", group_instance_id="i")
    harness.sleep(2_000)
    assert harness.state == "Stable"
    assert not of_type(harness.outputs, MemberExpired)


@pytest.mark.parametrize("how", ["leaves", "expires"])
def test_the_removal_of_the_last_awaited_member_completes_the_join(how: str) -> None:
    """Else the others wait for the whole rebalance timeout for somebody who is gone."""
    harness = GroupHarness()
    harness.stable("a", "b")
    harness.add("c")
    harness.join("a")
    assert harness.state == "PreparingRebalance"
    outputs = harness.leave("b") if how == "leaves" else harness.sleep(10_000)
    assert harness.state == "CompletingRebalance"
    assert sum(answer.error_code is ErrorCode.NONE for answer in harness.answers(outputs).values()) >= 2


def test_assignments_stay_readable_while_the_group_prepares() -> None:
    """Readers of the group choked on empty bytes: while preparing from Stable, members keep what they hold."""
    harness = GroupHarness()
    generation = harness.stable("a", "b")
    harness.join("a")
    assert harness.state == "PreparingRebalance"
    described = harness.answer(harness.send("DescribeGroups", DescribeGroupsRequest(groups=("g",)), 5)).groups[0]
    assert [member.member_assignment for member in described.members] == [assignment("t", 0), assignment("t", 1)]
    assert [member.member_metadata for member in described.members] == [b"", b""]
    assert harness.answer(harness.heartbeat("b", generation)).error_code is ErrorCode.REBALANCE_IN_PROGRESS


def test_chained_rebalances_forget_nobody() -> None:
    """A member that rejoins in time through rebalance after rebalance is never answered UNKNOWN_MEMBER_ID."""
    harness = GroupHarness()
    harness.stable("a")
    for number in range(5):
        harness.add(f"first{number}")
        outputs = rejoin_all(harness)
        harness.add(f"second{number}")  # before anybody has synced
        refused = harness.answer(harness.sync("a", generation_of(harness)))
        assert refused.error_code is ErrorCode.REBALANCE_IN_PROGRESS
        outputs += rejoin_all(harness)
        assert {answer.error_code for answer in harness.answers(outputs).values()} == {ErrorCode.NONE}
        for member_id in reversed(members(harness)):
            harness.sync(member_id, generation_of(harness), {})
        assert harness.state == "Stable"
    assert len(members(harness)) == 11


def rejoin_all(harness: GroupHarness) -> list[Output]:
    assert harness.group is not None
    waited_for = [member.member_id for member in harness.group.members.values() if member.awaiting_join is None]
    return [output for member_id in waited_for for output in harness.join(member_id)]


def test_commit_metadata_survives_rebalances() -> None:
    harness = GroupHarness()
    generation = harness.stable("a")
    harness.commit("a", generation, {("t", 0): 7}, metadata="checkpoint 12")
    harness.add("b")
    harness.join("a")
    fetched = harness.answer(harness.send("OffsetFetch", OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g"),))))
    partition = fetched.groups[0].topics[0].partitions[0]
    assert (partition.committed_offset, partition.metadata) == (7, "checkpoint 12")


def test_a_lost_join_answer_lets_the_same_id_in_again() -> None:
    """The answer is lost, the client asks again with its id: it is told its generation, and nothing rebalances."""
    harness = GroupHarness()
    harness.add("a")
    generation = generation_of(harness)
    again = harness.join("a")
    assert harness.answer(again).generation_id == generation
    assert harness.answer(again).member_id == "a"
    assert not of_type(again, RebalanceStarted)


def test_a_leave_that_meets_the_wrong_shard_changes_nothing_and_is_honoured_at_the_right_one() -> None:
    shards = [GroupHarness(shard_count=2, partition=partition) for partition in range(2)]
    right, wrong = sorted(shards, key=lambda harness: harness.partition != group_partition("g", 2))
    right.stable("a")
    assert wrong.answer(wrong.leave("a")).error_code is ErrorCode.NOT_COORDINATOR
    assert wrong.group is None
    assert right.answer(right.leave("a")).members[0].error_code is ErrorCode.NONE
    assert right.state == "Empty"


def test_empty_is_not_skipped_on_the_way_to_dead() -> None:
    """A group that loses its last member is Empty, and says so, before it can be deleted or expire."""
    harness = GroupHarness()
    generation = harness.stable("a")
    harness.commit("a", generation)
    delete = DeleteGroupsRequest(groups_names=("g",))
    assert harness.answer(harness.send("DeleteGroups", delete, 2)).results[0].error_code is ErrorCode.NON_EMPTY_GROUP
    left = harness.leave("a")
    assert of_type(left, GroupEmpty)
    assert harness.state == "Empty"
    deleted = harness.send("DeleteGroups", delete, 2)
    assert [each.reason for each in of_type(deleted, GroupDead)] == ["deleted"]
    order = [type(each) for each in harness.outputs if isinstance(each, GroupEmpty | GroupDead)]
    assert order == [GroupEmpty, GroupDead]


def one_member(*faults: DriverCrash | BadNetwork) -> Scenario:
    plan = MemberPlan(name="only", group_id="readers", topics=("orders",), auto_commit_interval_ms=500, poll_every_ms=200)
    return Scenario(
        seed=1,
        config=GroupConfig(group_initial_rebalance_delay_ms=0),
        topics={"orders": 2},
        members=(plan,),
        faults=faults,
        faults_end_ms=12_000,
    )


@pytest.mark.parametrize("step", range(6))
def test_a_commit_is_not_acknowledged_before_it_is_stored(step: int) -> None:
    """Whatever step of a batch the driver dies at: what a member was told is committed is in the log and in the state."""
    world = World(one_member(DriverCrash(shard=0, at_ms=5_000, step=step, down_ms=2_000)))
    world.run()
    (process,) = world.processes
    told = {(topic, partition): each.offset for (topic, partition), each in process.member.committed.items()}
    assert told
    held = decode_group(*world.drivers[0].states["readers"]).offsets
    logged: dict[tuple[str, int], int] = {}
    for written in world.written:
        if isinstance(written.output, LogRecord):
            key, value = decode_record(written.output.key, written.output.value)
            if isinstance(key, OffsetCommitKey) and value is not None:
                logged[key.topic, key.partition] = value.offset  # type: ignore[union-attr]
    for (topic, partition), offset in told.items():
        assert held.get(topic, partition).offset >= offset  # type: ignore[union-attr]
        assert logged[topic, partition] >= offset


def test_a_member_whose_answers_are_lost_comes_back_and_the_group_settles() -> None:
    outcome = live_world(one_member(BadNetwork(member="only", at_ms=0, for_ms=9_000, lose_answers=70)))
    assert outcome.violations == []
    assert any("is lost on its way" in each.text for each in outcome.told)
