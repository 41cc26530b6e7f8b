"""The fast way of commits and the step give the same outputs and leave the same state, whatever came before."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec import UNSET, Raw

from coordinator_state import GroupConfig, GroupCoordinator, RequestEvent
from coordinator_state.classic.fast_commit import fast_commit
from coordinator_state.step import Step
from schemas.events import RequestEnvelope
from schemas.messages import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic
from tests.coordinator_state.fast_ways import MEMBERS, TOLD, handled, random_group
from tests.coordinator_state.harness import GroupHarness

TOPICS = ("t", "u")
MANY = range(60)


def group_with_offsets(chance: random.Random) -> GroupHarness:
    """A group in any state that has offsets, some of them with metadata, an expiry of their own or in transactions."""
    group = random_group(chance)
    if chance.random() < 0.6:
        group = GroupHarness()
        group.stable(*MEMBERS)
    for _ in range(chance.randrange(5)):
        generation_id = group.classic.generation_id if group.group is not None else -1
        partitions = {(chance.choice(TOPICS), chance.randrange(4)): chance.randrange(9) for _ in range(3)}
        match chance.randrange(6):
            case 0:
                group.commit(chance.choice(MEMBERS), generation_id, partitions, metadata="m")
            case 1:
                group.commit(chance.choice(MEMBERS), generation_id, partitions, version=2, retention_time_ms=60_000)
            case 2:
                group.commit_in_transaction(7, partitions)
            case _:
                group.commit(chance.choice(MEMBERS), generation_id, partitions)
    return group


def commit(group: GroupHarness, chance: random.Random) -> RequestEvent:
    """A commit like most, in which now and then one thing is otherwise."""

    def mostly(usual: Any, *others: Any) -> Any:
        return chance.choice(others) if chance.random() < 0.1 else usual

    generation_id = group.classic.generation_id if group.group is not None else 1
    numbers = mostly([0], [], [0, 1], [1, 1], [0, 1, 2, 3], MANY)
    topics = tuple(
        OffsetCommitRequestTopic(
            name=name,
            partitions=tuple(
                OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=chance.randrange(100),
                    committed_leader_epoch=chance.choice([-1, 3]),
                    committed_metadata=mostly("", None, "m"),
                )
                for number in numbers
            ),
        )
        for name in mostly(("t",), (), ("u",), ("t", "u"), ("t", "t"))
    )
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=mostly(generation_id, 1, -1),
        member_id=mostly(chance.choice(MEMBERS), "x", ""),
        group_instance_id=mostly(None, "i"),
        retention_time_ms=mostly(-1, 5_000),
        topics=topics,
    )
    envelope = RequestEnvelope(
        request_id="c",
        reply_partition=0,
        api="OffsetCommit",
        api_version=mostly(9, 8, 2, 1, 11),
        client_id="c",
        body=Raw(),
        topic_metadata=mostly(UNSET, *TOLD),
    )
    clock_ms = group.now_ms + mostly(chance.choice([0, 1, 400]), -5_000, 6_000, 40_000)
    return RequestEvent(group.offset + 1, clock_ms, clock_ms + 7, envelope, request)


@pytest.mark.parametrize("seed", range(20))
def test_both_ways_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, went_fast = random.Random(seed), []

    def noted(step: Step, event: RequestEvent, request: OffsetCommitRequest) -> bool:
        is_done = fast_commit(step, event, request)
        went_fast.append(is_done)
        return is_done

    for _ in range(40):
        group = group_with_offsets(chance)
        events = [commit(group, chance) for _ in range(6)]
        with monkeypatch.context() as patch:
            patch.setattr("coordinator_state.coordinator.fast_commit", noted)
            fast = handled(group, events)
            patch.setattr("coordinator_state.coordinator.fast_commit", lambda step, event, request: False)
            assert handled(group, events) == fast
    assert True in went_fast


def test_a_second_commit_of_a_member_takes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupHarness()
    generation_id = group.stable("a", "b")
    group.commit("a", generation_id)
    coordinator = GroupCoordinator("g", GroupConfig(), group=group.group)
    coordinator.advance_to(group.now_ms)
    monkeypatch.setattr(GroupCoordinator, "handle_in_full", lambda self, event: pytest.fail("a step was taken"))
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=2)
    request = OffsetCommitRequest(
        group_id="g",
        generation_id_or_member_epoch=generation_id,
        member_id="a",
        topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    )
    envelope = RequestEnvelope(
        request_id="c", reply_partition=0, api="OffsetCommit", api_version=9, client_id="c", body=Raw()
    )
    coordinator.handle(RequestEvent(group.offset + 1, group.now_ms, group.now_ms, envelope, request))
    outputs = [type(output).__name__ for output in coordinator.take_outputs()]
    assert outputs == ["LogRecord", "OffsetsCommitted", "Answer"]
