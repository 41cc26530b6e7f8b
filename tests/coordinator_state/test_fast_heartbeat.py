"""The fast way of heartbeats and the step give the same outputs and leave the same state, whatever came before."""

from __future__ import annotations

import random

import pytest
from msgspec import UNSET, Raw, UnsetType

from coordinator_state import GroupConfig, GroupCoordinator, Output, RequestEvent, decode_group, encode_group
from schemas.events import RequestEnvelope
from schemas.group_metadata_events import TopicMetadata
from schemas.messages import HeartbeatRequest
from tests.coordinator_state.harness import GroupHarness, assignment

MEMBERS = ("a", "b", "c")
TOLD: list[TopicMetadata | UnsetType] = [UNSET, UNSET, UNSET, TopicMetadata(version=1, topics=(), absent=("t",))]


def random_group(chance: random.Random) -> GroupHarness:
    """A group in any state, with members of different sessions."""
    group = GroupHarness(group_initial_rebalance_delay_ms=chance.choice([0, 3_000]))
    for _ in range(chance.randrange(2, 14)):
        member_id, generation_id = chance.choice(MEMBERS), chance.randrange(4)
        match chance.randrange(6):
            case 0:
                group.join(new_member_id=member_id)
            case 1 | 2:
                group.join(member_id, session_timeout_ms=chance.choice([6_000, 10_000, 30_000]))
            case 3:
                group.sync(member_id, generation_id, {member: assignment("t", 0) for member in MEMBERS})
            case 4:
                group.sleep(chance.choice([0, 500, 3_000, 6_000]))
            case _:
                group.heartbeat(member_id, generation_id)
    return group


def heartbeat(group: GroupHarness, chance: random.Random) -> RequestEvent:
    generation_id = group.classic.generation_id if group.group is not None and chance.random() < 0.8 else 1
    request = HeartbeatRequest(
        group_id="g",
        generation_id=generation_id,
        member_id=chance.choice((*MEMBERS, "x")),
        group_instance_id=chance.choice([None, None, None, "i"]),
    )
    version = chance.choice([4, 4, 3, 0, 9])
    envelope = RequestEnvelope(
        request_id="h",
        reply_partition=0,
        api="Heartbeat",
        api_version=version,
        client_id="c",
        body=Raw(),
        topic_metadata=chance.choice(TOLD),
    )
    clock_ms = group.now_ms + chance.choice([-5_000, 0, 1, 4_000, 6_000, 40_000])
    return RequestEvent(group.offset + 1, clock_ms, clock_ms + 7, envelope, request)


def handled(group: GroupHarness, events: list[RequestEvent]) -> tuple[list[Output], tuple[bytes, bytes] | None]:
    packed = None if group.group is None else encode_group(group.group)
    coordinator = GroupCoordinator("g", group.config, group=None if packed is None else decode_group(*packed))
    for event in events:
        coordinator.handle(event)
    return coordinator.take_outputs(), None if coordinator.group is None else encode_group(coordinator.group)


@pytest.mark.parametrize("seed", range(20))
def test_both_ways_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    for _ in range(30):
        group = random_group(chance)
        events = [heartbeat(group, chance) for _ in range(6)]
        fast = handled(group, events)
        with monkeypatch.context() as patch:
            patch.setattr("coordinator_state.coordinator.fast_heartbeat", lambda step, event, request: False)
            assert handled(group, events) == fast


def test_a_heartbeat_of_a_stable_group_takes_the_fast_way(monkeypatch: pytest.MonkeyPatch) -> None:
    group = GroupHarness()
    generation_id = group.stable("a", "b")
    coordinator = GroupCoordinator("g", GroupConfig(), group=group.group)
    coordinator.advance_to(group.now_ms)
    monkeypatch.setattr(GroupCoordinator, "handle_in_full", lambda self, event: pytest.fail("a step was taken"))
    request = HeartbeatRequest(group_id="g", generation_id=generation_id, member_id="a")
    envelope = RequestEnvelope(
        request_id="h", reply_partition=0, api="Heartbeat", api_version=4, client_id="c", body=Raw()
    )
    coordinator.handle(RequestEvent(group.offset + 1, group.now_ms, group.now_ms, envelope, request))
    assert len(coordinator.take_outputs()) == 1
