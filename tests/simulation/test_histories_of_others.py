"""Histories that other coordinators got wrong, each by its name: what must happen instead.

Where it is not the group's to decide, the test lies elsewhere: lag never reaches behind the start of a log (redpanda
#30624) in `tests/command_line/test_live_topics.py` and `tests/watching/dashboard/test_lag.py`. apache/kafka #22245, a
static member that leaves with epoch -2, returns, and finds its epoch as it was, is of streams groups: the classic
protocol has neither that leave nor epochs of members. What comes next to it, a static member that is taken out by a
LeaveGroup and returns, is here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from coordinator_state import Answer, GroupConfig, LogRecord, Output, decode_group
from group_coordinator.coordinating.members.effects import CoordinatorUnknown
from schemas.error_codes import ErrorCode
from schemas.events import decode_request_event
from schemas.history import GroupDead, GroupEmpty, MemberExpired, RebalanceStarted
from schemas.java_hash import group_partition
from schemas.messages import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    LeaveGroupMember,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from schemas.records import OffsetCommitKey, OffsetCommitValue, decode_record
from simulation.run import live_through, run_world
from simulation.scenario import BadNetwork, DriverCrash, MemberPlan, Scenario
from simulation.world import World
from tests.coordinating.members.bench import Bench
from tests.coordinator_state.harness import GroupHarness, assignment, of_type
from tests.simulation.planted_bugs import answers_are_written_first


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
    return list(harness.classic.members)


def generation_of(harness: GroupHarness) -> int:
    assert harness.group is not None
    return harness.classic.generation_id


def test_a_static_rejoin_during_completing_rebalance_rebalances() -> None:
    """The old member id may already be in the leader's hands: its assignment must not reach anybody."""
    harness = GroupHarness()
    harness.join(new_member_id="l", group_instance_id="il")
    harness.join(new_member_id="s1", group_instance_id="is")
    harness.join("l", group_instance_id="il")
    assert harness.state == "CompletingRebalance"
    generation = generation_of(harness)
    started = of_type(harness.join(new_member_id="s2", group_instance_id="is"), RebalanceStarted)
    assert [record.trigger for record in started] == ["static_member_replaced"]
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
    waited_for = [member.member_id for member in harness.classic.members.values() if member.awaiting_join is None]
    return [output for member_id in waited_for for output in harness.join(member_id)]


def test_commit_metadata_survives_rebalances() -> None:
    harness = GroupHarness()
    generation = harness.stable("a")
    harness.commit("a", generation, {("t", 0): 7}, metadata="checkpoint 12")
    harness.add("b")
    harness.join("a")
    fetched = harness.answer(
        harness.send("OffsetFetch", OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g"),)))
    )
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


def test_a_leave_that_meets_not_coordinator_is_retried_and_honoured() -> None:
    """Else the others wait for the session of somebody who has closed."""
    shards = [GroupHarness(shard_count=2, partition=partition) for partition in range(2)]
    right_shard, wrong_shard = sorted(shards, key=lambda harness: harness.partition != group_partition("g", 2))
    bench = Bench(enable_auto_commit=False)
    conversation = Conversation(bench)
    bench.poll()
    conversation.with_shard(right_shard)
    assert members(right_shard) == [bench.member.member_id]
    bench.member.close(bench.now_ms)
    bench.poll()
    bench.poll()
    conversation.with_shard(wrong_shard)
    assert bench.heard(CoordinatorUnknown)
    assert wrong_shard.group is None
    assert members(right_shard), "nobody has heard it yet"
    assert not bench.member.is_closed
    bench.wait(1_000)
    conversation.with_shard(right_shard)
    assert right_shard.state == "Empty"
    assert bench.member.is_closed


class Conversation:
    """What a member says is carried to a shard, whichever is the group's own, and the answers back."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._heard: set[str] = set()

    def with_shard(self, shard: GroupHarness) -> None:
        """Until neither has more to say."""
        bench = self._bench
        while waiting := [send for send in bench.sent if send.request_id not in self._heard]:
            for send in waiting:
                self._heard.add(send.request_id)
                outputs = shard.send(send.api, send.request, request_id=send.request_id)
                outputs += shard.sleep(0)
                for answer in of_type(outputs, Answer):
                    sent_request = next(request for request in bench.sent if request.request_id == answer.request_id)
                    bench.deliver(sent_request, answer.response)
            bench.poll()


def test_a_static_member_that_left_and_returns_starts_a_generation() -> None:
    """Its partitions went to others meanwhile: it must not find the generation, and its assignment, as they were."""
    harness = GroupHarness()
    harness.join(new_member_id="l", group_instance_id="il")
    harness.join(new_member_id="s1", group_instance_id="is")
    harness.join("l", group_instance_id="il")
    harness.sync(
        "l", generation_of(harness), {"l": assignment("t", 0), "s1": assignment("t", 1)}, group_instance_id="il"
    )
    generation = generation_of(harness)
    harness.leave(LeaveGroupMember(member_id="", group_instance_id="is"))
    harness.join("l", group_instance_id="il")
    assert (members(harness), generation_of(harness)) == (["l"], generation + 1)
    harness.sync("l", generation + 1, {"l": assignment("t", 0, 1)}, group_instance_id="il")
    harness.join(new_member_id="s2", group_instance_id="is")
    assert harness.state == "PreparingRebalance"
    harness.join("l", group_instance_id="il")
    assert (members(harness), generation_of(harness)) == (["l", "s2"], generation + 2)


def test_empty_is_not_skipped_on_the_way_to_dead() -> None:
    """A group that loses its last member is Empty, and says so, before it can be deleted or expire."""
    harness = GroupHarness()
    generation = harness.stable("a")
    harness.commit("a", generation)
    delete = DeleteGroupsRequest(groups_names=("g",))
    assert harness.answer(harness.send("DeleteGroups", delete, 2)).results[0].error_code is ErrorCode.NON_EMPTY_GROUP
    leave_outputs = harness.leave("a")
    assert of_type(leave_outputs, GroupEmpty)
    assert harness.state == "Empty"
    deleted = harness.send("DeleteGroups", delete, 2)
    assert [output.reason for output in of_type(deleted, GroupDead)] == ["deleted"]
    order = [type(output) for output in harness.outputs if isinstance(output, GroupEmpty | GroupDead)]
    assert order == [GroupEmpty, GroupDead]


def one_member(*faults: DriverCrash | BadNetwork) -> Scenario:
    plan = MemberPlan(
        name="only", group_id="readers", topics=("orders",), auto_commit_interval_ms=500, poll_every_ms=200
    )
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
    """Whatever step of a batch the driver dies at: no answer is given before its commit is in the log.

    And in the end, what the member was told is committed is in the log and in the state.
    """
    world = World(one_member(DriverCrash(shard=0, at_ms=5_000, step=step, down_ms=2_000)))
    live_through(world)
    assert list(acknowledged_unstored(world)) == []
    (process,) = world.processes
    committed = {
        (topic, partition): offset_and_metadata.offset
        for (topic, partition), offset_and_metadata in process.member.committed.items()
    }
    assert committed
    held = decode_group(*world.drivers[0].states["readers"]).offsets
    logged: dict[tuple[str, int], int] = {}
    for written in world.written:
        if isinstance(written.output, LogRecord):
            key, value = decode_record(written.output.key, written.output.value)
            if isinstance(key, OffsetCommitKey) and value is not None:
                logged[key.topic, key.partition] = value.offset  # type: ignore[union-attr]
    for (topic, partition), offset in committed.items():
        assert held.get(topic, partition).offset >= offset  # type: ignore[union-attr]
        assert logged[topic, partition] >= offset


@pytest.mark.parametrize("step", range(6))
def test_a_driver_that_acknowledges_before_it_stores_is_found(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All is stored in the end: only who looks at each answer sees it."""
    answers_are_written_first(monkeypatch)
    world = World(one_member(DriverCrash(shard=0, at_ms=5_000, step=step, down_ms=2_000)))
    live_through(world)
    assert list(acknowledged_unstored(world))


def acknowledged_unstored(world: World) -> Iterator[str]:
    """Accepted commits that were not in the offsets log when the sink got the answer, in the order of what it got."""
    stored: set[tuple[int, str, int, int]] = set()
    accepted = 0
    for shard, output, _ in world.written:
        if isinstance(output, LogRecord):
            key, value = decode_record(output.key, output.value)
            if isinstance(key, OffsetCommitKey) and isinstance(value, OffsetCommitValue):
                stored.add((shard, key.topic, key.partition, value.offset))
        if not isinstance(output, Answer) or not isinstance(output.response, OffsetCommitResponse):
            continue
        _, request = decode_request_event(output.group_id, world.log.partitions[shard][output.answers_offset].value)
        assert isinstance(request, OffsetCommitRequest)
        for topic, answered in zip(request.topics, output.response.topics, strict=True):
            for requested, answered_partition in zip(topic.partitions, answered.partitions, strict=True):
                if answered_partition.error_code is ErrorCode.NONE:
                    accepted += 1
                    if (shard, topic.name, requested.partition_index, requested.committed_offset) not in stored:
                        place = f"{topic.name}-{requested.partition_index}"
                        yield f"event {output.answers_offset}: {place} at {requested.committed_offset}"
    assert accepted


def test_a_member_whose_answers_are_lost_comes_back_and_the_group_settles() -> None:
    outcome = run_world(one_member(BadNetwork(member="only", at_ms=0, for_ms=9_000, lose_answers=70)))
    assert outcome.violations == []
    assert any("is lost on its way" in line.text for line in outcome.trace)
