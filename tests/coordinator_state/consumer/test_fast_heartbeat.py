"""The fast way of members' heartbeats and the step give the same outputs and leave the same state."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import UNSET, Raw, UnsetType

from coordinator_state import GroupCoordinator, Output, RequestEvent, decode_group, encode_group
from coordinator_state.consumer.fast_heartbeat import fast_member_heartbeat
from coordinator_state.consumer.group import ConsumerGroup
from schemas.consumer_group_messages import ConsumerGroupHeartbeatRequest
from schemas.events import RequestEnvelope
from schemas.group_metadata_events import GroupConfiguration, RegexesResolved, TopicMetadata
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned, topics

MEMBERS = ("a", "b", "c")


def epoch_of(group: ConsumerHarness, member_id: str) -> int:
    state = group.group
    body = None if state is None else state.body
    member = body.members.get(member_id) if isinstance(body, ConsumerGroup) else None
    return 1 if member is None else member.member_epoch


def random_group(chance: random.Random) -> ConsumerHarness:
    """A group in any state: with members that reconcile, static ones, expressions, classic members, own settings."""
    group = ConsumerHarness(kafka_rules=chance.choice(["4.3", "4.4"]))

    def beat(member_id: str) -> object:
        return group.beat(member_id, epoch_of(group, member_id), topic_partitions=())

    happenings: list[Callable[[str], object]] = [
        lambda member_id: group.joins(member_id, "foo"),
        lambda member_id: group.joins(member_id, "foo"),
        lambda member_id: group.joins(member_id, "foo", instance_id="i"),
        lambda member_id: group.joins(member_id, "foo", server_assignor=chance.choice(["range", "uniform"])),
        lambda member_id: group.joins(member_id, subscribed_topic_names=None, subscribed_topic_regex="f.*"),
        lambda _: group.tell(
            RegexesResolved(resolved={"f.*": chance.choice([("foo",), ()])}, version=1, began_ms=group.now_ms)
        ),
        lambda _: group.tell(topics(version=chance.randrange(1, 4), foo=chance.choice([4, 6]))),
        lambda _: group.tell(GroupConfiguration(consumer_session_timeout_ms=50_000)),
        lambda member_id: group.join(member_id, new_member_id=member_id),
        lambda _: group.sleep(chance.choice([0, 500, 2_000, 46_000])),
        beat,
    ]
    for _ in range(chance.randrange(2, 14)):
        chance.choice(happenings)(chance.choice(MEMBERS))
    if chance.random() < 0.8:
        group.sleep(2_000)
        for member_id in (*MEMBERS, *MEMBERS):
            beat(member_id)
    return group


def heartbeat(group: ConsumerHarness, chance: random.Random) -> RequestEvent:
    member_id = chance.choice((*MEMBERS, *MEMBERS, "x"))
    changes: list[dict[str, Any]] = [
        {}, {}, {}, {}, {"topic_partitions": owned(FOO, 0)}, {"instance_id": "i"}, {"instance_id": "j"},
        {"subscribed_topic_names": ("foo",)}, {"subscribed_topic_regex": ""}, {"server_assignor": "range"},
        {"rebalance_timeout_ms": 60_000}, {"rack_id": "r"},
    ]  # fmt: skip
    epoch = epoch_of(group, member_id) if chance.random() < 0.85 else chance.randrange(-2, 4)
    fields: dict[str, Any] = {"group_id": "g", "member_id": member_id, "member_epoch": epoch} | chance.choice(changes)
    request = ConsumerGroupHeartbeatRequest(**fields)
    metadata: list[TopicMetadata | UnsetType | None] = [UNSET, None, topics(foo=4), topics(version=3, foo=8)]
    envelope = RequestEnvelope(
        request_id="h", reply_partition=0, api="ConsumerGroupHeartbeat", api_version=chance.choice([1, 1, 0, 9]),
        client_id=chance.choice(["client", "client", "client", "d"]), body=Raw(),
        topic_metadata=chance.choice(metadata),
    )  # fmt: skip
    clock_ms = group.now_ms + chance.choice([-5_000, 0, 0, 0, 1, 1, 4_000, 4_000, 4_000, 44_000, 46_000])
    return RequestEvent(group.offset + 1, clock_ms, clock_ms + 7, envelope, request)


def handled(group: ConsumerHarness, events: list[RequestEvent]) -> tuple[list[Output], tuple[bytes, bytes] | None]:
    packed = None if group.group is None else encode_group(group.group)
    coordinator = GroupCoordinator("g", group.config, group=None if packed is None else decode_group(*packed))
    for event in events:
        coordinator.handle(event)
    return coordinator.take_outputs(), None if coordinator.group is None else encode_group(coordinator.group)


@pytest.mark.parametrize("seed", range(12))
def test_both_ways_are_the_same(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance, ways = random.Random(seed), Counter[bool]()

    def counted(*arguments: Any) -> bool:
        is_done = fast_member_heartbeat(*arguments)
        ways[is_done] += 1
        return is_done

    for _ in range(40):
        group = random_group(chance)
        events = [heartbeat(group, chance) for _ in range(6)]
        with monkeypatch.context() as patch:
            patch.setattr("coordinator_state.coordinator.fast_member_heartbeat", counted)
            fast = handled(group, events)
            patch.setattr("coordinator_state.coordinator.fast_member_heartbeat", lambda *_: False)
            assert handled(group, events) == fast
    assert set(ways) == {True, False}


@pytest.mark.parametrize(
    "subscription", [{}, {"instance_id": "i"}, {"subscribed_topic_names": None, "subscribed_topic_regex": "f.*"}]
)
def test_a_heartbeat_of_a_stable_member_takes_the_fast_way(
    subscription: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    group = ConsumerHarness()
    group.joins("a", "foo", **subscription)
    group.tell(RegexesResolved(resolved={"f.*": ("foo",)}, version=1, began_ms=group.now_ms))
    group.sleep(2_000)
    group.told("a", epoch_of(group, "a"))
    epoch = group.told("a", epoch_of(group, "a")).member_epoch
    monkeypatch.setattr(GroupCoordinator, "handle_in_full", lambda self, event: pytest.fail("a step was taken"))
    assert group.told("a", epoch, instance_id=subscription.get("instance_id")).member_epoch == epoch
