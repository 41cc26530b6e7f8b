"""The fast way of heartbeats and the step give the same outputs and leave the same state, whatever came before."""

from __future__ import annotations

import random

import pytest
from msgspec import Raw

from coordinator_state import GroupConfig, GroupCoordinator, RequestEvent
from schemas.events import RequestEnvelope
from schemas.messages import HeartbeatRequest
from tests.coordinator_state.fast_ways import MEMBERS, TOLD, handled, random_group
from tests.coordinator_state.harness import GroupHarness


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
