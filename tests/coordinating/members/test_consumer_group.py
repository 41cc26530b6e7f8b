"""Members of the consumer protocol and the coordinator's core together: who owns what, and what others notice."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator_state import Answer, GroupConfig
from coordinator_state.consumer.group import consumer_group
from group_coordinator.coordinating.members.consumer_member import ConsumerGroupMember
from group_coordinator.coordinating.members.effects import (
    CommitFailed,
    Committed,
    Failed,
    Lost,
    OffsetAndMetadata,
    PollIntervalExceeded,
    Revoked,
    Send,
)
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from tests.coordinating.members.world import GROUP, Application, World

CONSUMER: dict[str, Any] = {"group_protocol": "consumer"}
SESSION_MS = 45_000
INTERVAL_MS = 5_000


def orders(*partitions: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", partition) for partition in partitions)


def started(count: int, partitions: int = 6, **settings: Any) -> World:
    world = World({"orders": partitions})
    for number in range(count):
        world.start(f"m{number}", **(CONSUMER | settings))
    world.run_until(lambda: is_settled(world))
    return world


def is_settled(world: World) -> bool:
    """Everybody has what the coordinator wants him to have."""
    group = world.coordinator.groups.get(GROUP)
    return world.is_shared() and group is not None and group.body.state_name == "Stable"


def epoch_of(world: World) -> int:
    return consumer_group(world.coordinator.groups[GROUP]).group_epoch


def every_record_once(world: World) -> None:
    handled = [(partition, offset) for partition, offset, _ in world.processed]
    assert len(handled) == len(set(handled)) == sum(world.log_ends.values())


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("assignor", [None, "uniform", "range"])
def test_members_share_the_partitions_evenly(count: int, assignor: str | None) -> None:
    world = started(count, group_remote_assignor=assignor)
    shares = [len(application.owned) for application in world.applications.values()]
    assert sum(shares) == 6
    assert max(shares) - min(shares) <= 1


def test_a_settled_group_stays_as_it_is() -> None:
    world = started(3)
    epoch = epoch_of(world)
    world.run(120_000)
    assert epoch_of(world) == epoch
    heartbeats = world.applications["m0"].requests("ConsumerGroupHeartbeat")
    assert len(heartbeats) == pytest.approx(120_000 / INTERVAL_MS, abs=6)


def test_a_commit_by_hand_that_meets_a_newer_epoch_counts_for_what_the_member_keeps() -> None:
    """The coordinator moves a member on with its heartbeat, whose answer the member has not got when it commits."""
    world = started(2, enable_auto_commit=False)
    member = world.applications["m0"].member
    assert isinstance(member, ConsumerGroupMember)
    world.start("m2", **CONSUMER)
    kept: list[TopicPartition] = []
    commits: list[int] = []

    def commit_before_the_answer(application: Application, answer: Answer) -> tuple[int, ...]:
        group = consumer_group(world.coordinator.groups[GROUP])
        known = group.members.get(member.member_id)
        if known is not None and known.member_epoch > member.generation_id > 0 and not commits:
            kept[:] = member.assignment
            commits.append(member.commit(dict.fromkeys(kept, OffsetAndMetadata(7))))
            application.act()
        return (5 if application.member is not member else 50,)

    world.answer_delays = commit_before_the_answer
    world.run_until(lambda: is_settled(world) and bool(commits))
    world.run(1_000)
    assert kept
    assert world.applications["m0"].told(Committed)[0].commit_id == commits[0]
    assert not world.applications["m0"].told(CommitFailed)
    assert {partition: world.committed()[partition] for partition in kept} == dict.fromkeys(kept, 7)


def test_a_newcomer_takes_what_others_give_up_and_nobody_else_notices() -> None:
    world = started(2)
    before = world.owners()
    third = world.start("m2", **CONSUMER)
    world.run_until(lambda: is_settled(world) and bool(third.owned))
    kept = [partition for partition, owner in world.owners().items() if before[partition] == owner]
    assert len(kept) == 4
    for name in ("m0", "m1"):
        assert [len(told.partitions) for told in world.applications[name].told(Revoked)][-1] == 1
        assert not world.applications[name].told(Lost)


def test_a_rolling_restart_handles_every_record_once() -> None:
    world = started(3)
    world.produce("orders", 50)
    for name in ("m0", "m1", "m2"):
        world.close(world.applications[name])
        world.run_until(lambda: is_settled(world))
        world.start(name, **CONSUMER)
        world.run_until(lambda: is_settled(world) and len(set(world.owners().values())) == 3)
        world.produce("orders", 50)
        world.run(6_000)
    every_record_once(world)


def test_a_crashed_member_is_put_out_after_its_session_and_the_others_take_over() -> None:
    world = started(2)
    world.crash(world.applications["m1"])
    took_ms = world.run_until(lambda: is_settled(world))
    assert SESSION_MS - INTERVAL_MS <= took_ms <= SESSION_MS + 2 * INTERVAL_MS


def test_a_member_that_was_silent_for_too_long_loses_its_partitions_and_comes_back() -> None:
    world = started(2)
    lonely = world.applications["m1"]
    world.request_delays = lambda application, _: () if application is lonely else (5,)
    world.run_until(lambda: len(world.applications["m0"].owned) == 6, limit_ms=120_000)
    assert len(lonely.owned) == 3, "it does not know"
    world.request_delays = lambda *_: (5,)
    world.run_until(lambda: bool(lonely.told(Lost)))
    world.run_until(lambda: is_settled(world) and len(lonely.owned) == 3)


def test_who_revokes_slowly_holds_up_only_who_waits_for_its_partitions() -> None:
    world = started(2)
    slow, other = world.applications["m0"], world.applications["m1"]
    slow.polling = False
    third = world.start("m2", **CONSUMER)
    world.run(40_000)
    assert len(slow.owned) == 3
    assert len(other.owned) == 2
    assert len(third.owned) == 1, "what the other gave up"
    slow.polling = True
    world.run_until(lambda: is_settled(world) and len(third.owned) == 2)


def test_who_does_not_revoke_within_the_rebalance_timeout_is_put_out() -> None:
    world = started(2, max_poll_interval_ms=20_000)
    slow = world.applications["m0"]
    slow.polling = False
    third = world.start("m2", max_poll_interval_ms=20_000, **CONSUMER)
    world.run(30_000)
    assert slow.told(Lost)
    assert slow.told(PollIntervalExceeded)
    world.run_until(lambda: len(third.owned) == 3)
    slow.polling = True
    world.run_until(lambda: is_settled(world) and len(slow.owned) == 2)


def test_subscriptions_change() -> None:
    world = World({"orders": 4, "bills": 2})
    first, second = world.start("m0", ("orders",), **CONSUMER), world.start("m1", ("orders",), **CONSUMER)
    world.run_until(lambda: len(world.owners()) == 4)
    second.member.subscribe(("bills",))
    world.run_until(lambda: is_settled(world))
    assert first.member.assignment == orders(0, 1, 2, 3)
    assert second.member.assignment == (TopicPartition("bills", 0), TopicPartition("bills", 1))


def test_an_expression_finds_topics_that_are_there_and_that_come() -> None:
    world = World({"orders": 2, "bills": 1})
    application = world.start("m0", (), **CONSUMER)
    assert isinstance(application.member, ConsumerGroupMember)
    application.member.subscribe_pattern("o.*")
    world.run_until(lambda: application.member.assignment == orders(0, 1))
    world.run(15_000)
    world.grow("others", 1)
    world.run_until(lambda: TopicPartition("others", 0) in application.owned)
    application.member.subscribe(("bills",))
    world.run_until(lambda: application.member.assignment == (TopicPartition("bills", 0),))


def test_a_topic_that_grows_is_shared_at_the_next_heartbeats() -> None:
    world = started(3, partitions=3)
    world.grow("orders", 12)
    took_ms = world.run_until(lambda: is_settled(world))
    assert took_ms <= 2 * INTERVAL_MS + 2_000
    assert sorted(len(application.owned) for application in world.applications.values()) == [4, 4, 4]


def test_partitions_of_a_topic_without_a_name_wait_for_it() -> None:
    world = World({"orders": 4})
    world.known_topics = {}
    application = world.start("m0", **CONSUMER)
    world.run(10_000)
    assert application.member.state == "reconciling"
    assert not application.owned
    world.known_topics = world.topics
    world.run_until(lambda: is_settled(world), limit_ms=2_000)


def test_a_static_member_comes_back_to_its_partitions_and_nobody_notices() -> None:
    world = started(1)
    static = world.start("s", group_instance_id="s", **CONSUMER)
    world.run_until(lambda: is_settled(world) and len(static.owned) == 3)
    before, epoch = static.member.assignment, epoch_of(world)
    world.close(static)
    world.run(20_000)
    again = world.start("s", group_instance_id="s", **CONSUMER)
    world.run_until(lambda: is_settled(world))
    assert again.member.assignment == before
    assert epoch_of(world) == epoch


def test_two_static_members_with_one_instance_id_do_not_get_along() -> None:
    world = World({"orders": 2})
    first = world.start("s", group_instance_id="s", **CONSUMER)
    world.run_until(lambda: is_settled(world))
    second = world.start("s", group_instance_id="s", **CONSUMER)
    world.run(1_000)
    assert second.told(Failed)[0].error_code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert not first.told(Failed)


def test_a_group_that_is_full_takes_nobody() -> None:
    world = World({"orders": 2}, config=GroupConfig(group_consumer_max_size=1))
    world.start("m0", **CONSUMER)
    world.run_until(lambda: is_settled(world))
    second = world.start("m1", **CONSUMER)
    world.run(1_000)
    assert second.told(Failed)[0].error_code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_lost_and_late_answers_and_double_requests_do_no_harm() -> None:
    world = started(3)
    world.produce("orders", 20)
    numbers = {"answer": 0, "request": 0}

    def answers(_: Application, answer: Answer) -> tuple[int, ...]:
        numbers["answer"] += 1
        return () if numbers["answer"] % 7 == 0 else (900,) if numbers["answer"] % 5 == 0 else (5,)

    def requests(_: Application, send: Send) -> tuple[int, ...]:
        numbers["request"] += 1
        return (5, 40) if numbers["request"] % 6 == 0 else (5,)

    world.answer_delays, world.request_delays = answers, requests
    world.start("m3", **CONSUMER)
    world.run(120_000)
    world.answer_delays, world.request_delays = lambda *_: (5,), lambda *_: (5,)
    world.run_until(lambda: is_settled(world), limit_ms=120_000)


# --------------------------------------------------------------------------------------------- with classic members


def test_classic_and_new_members_share_one_group() -> None:
    world = World({"orders": 6})
    old, new = world.start("old"), world.start("new", **CONSUMER)
    world.run_until(lambda: is_settled(world) and len(old.owned) == len(new.owned) == 3, limit_ms=120_000)
    assert world.coordinator.groups[GROUP].body.type_name == "consumer"


@pytest.mark.parametrize("assignor", ["range", "cooperative-sticky"])
@settings(max_examples=10)
@given(st.randoms(use_true_random=False))
def test_a_group_is_migrated_up_and_down_member_by_member_and_no_record_is_lost_or_doubled(
    assignor: str, random: Random
) -> None:
    """Each time when the group has settled: a classic member that has not come to the group's epoch when the last new
    member leaves loses its place, as with Kafka's coordinator, and what it has not committed is read again."""
    config = GroupConfig(
        group_initial_rebalance_delay_ms=0, group_consumer_assignment_interval_ms=0,
        group_consumer_heartbeat_interval_ms=500, group_consumer_min_heartbeat_interval_ms=500,
    )  # fmt: skip
    world = World({"orders": 6}, config=config, tick_ms=20, batch_ms=random.choice([5, 20, 50]))
    world.request_delays = lambda *_: (random.choice([1, 3, 10, 30]),)
    world.answer_delays = lambda *_: (random.choice([1, 3, 10, 30]),)
    classic: dict[str, Any] = {"partition_assignment_strategy": (assignor,), "heartbeat_interval_ms": 300}
    team: list[Application] = []
    types = []
    for turn, kind in enumerate([classic] * 3 + [CONSUMER] * 3 + [classic] * 3):
        world.produce("orders", 10)
        if len(team) == 3:
            world.close(team.pop(0))
        team.append(world.start(f"m{turn % 3}", poll_every_ms=random.choice([20, 60, 100]), **kind))
        world.run_until(lambda: is_settled(world) and all(application.owned for application in team))
        types.append(world.coordinator.groups[GROUP].body.type_name)
    world.produce("orders", 10)
    world.run(10_000)
    assert types == ["classic"] * 3 + ["consumer"] * 5 + ["classic"]
    every_record_once(world)
    assert not [told for application in world.applications.values() for told in application.told(Lost)]


# ------------------------------------------------------------------------------------------------------ what may come

Step = tuple[str, int, int]
"""What happens, to whom, and how much time passes then."""
KINDS = ["start", "start", "close", "crash", "stall", "go_on", "resubscribe", "mute", "grow", "sleep"]
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.sampled_from([200, 2_000, 11_000, 50_000])), max_size=12
)


def unless_it_is(muted: Application, receiver: Application, _: Answer) -> tuple[int, ...]:
    return () if receiver is muted else (5,)


def happen(world: World, kind: str, application: Application) -> None:
    match kind:
        case "close":
            application.polling = True
            world.close(application)
        case "crash":
            world.crash(application)
        case "stall" | "go_on":
            application.polling = kind == "go_on"
        case "resubscribe":
            application.member.subscribe(("orders",) if "bills" in application.member.subscription else ("bills",))
        case "mute":
            world.answer_delays = partial(unless_it_is, application)
        case "grow":
            world.grow("orders", min(world.topics["orders"] + 2, 12))


@settings(max_examples=30)
@given(STEPS)
def test_whatever_members_do_no_partition_has_two_owners_and_all_is_shared_in_the_end(steps: list[Step]) -> None:
    world = World({"orders": 4, "bills": 2})
    slots: dict[int, Application] = {}
    for kind, slot, wait_ms in steps:
        application = slots.get(slot)
        if application is not None and application.alive:
            happen(world, kind, application)
        elif kind == "start":
            slots[slot] = world.start(f"m{slot}", ("orders", "bills"), max_poll_interval_ms=30_000, **CONSUMER)
        world.run(wait_ms)
        if not any(kind == "mute" for kind, *_ in steps):
            world.owners()  # fails if a partition has two; who hears nothing does not know that he has lost his
    world.answer_delays = lambda *_: (5,)
    alive = [application for application in slots.values() if application.alive]
    for application in alive:
        application.polling = True
        application.member.subscribe(("orders", "bills"))
    world.run(60_000)  # who was put out without a word hears of it
    if alive:
        world.run_until(lambda: is_settled(world), limit_ms=300_000)
