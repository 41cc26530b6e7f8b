"""Members and the coordinator's core together: who joins, who owns what, and what others notice."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from coordinator_state import Answer
from group_coordinator.coordinating.members.effects import (
    Assigned,
    CoordinatorUnknown,
    Failed,
    Lost,
    PollIntervalExceeded,
    Revoked,
)
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.history import (
    GroupStable,
    MemberExpired,
    MemberLeft,
    MemberReplaced,
    OffsetsCommitted,
    RebalanceStarted,
)
from tests.coordinating.members.world import World

COOPERATIVE = ("cooperative-sticky",)
SHORT_SESSION = {"session_timeout_ms": 6_000, "heartbeat_interval_ms": 1_000}


def orders(*partitions: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", partition) for partition in partitions)


def started(count: int, partitions: int = 6, **settings: Any) -> World:
    world = World({"orders": partitions})
    for number in range(count):
        world.start(f"m{number}", **settings)
    world.run_until(world.is_shared)
    world.run(5_000)
    assert world.is_shared()
    return world


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_members_share_the_partitions_evenly(count: int, assignor: str) -> None:
    world = started(count, partition_assignment_strategy=(assignor,))
    shares = [len(application.owned) for application in world.applications.values()]
    assert sum(shares) == 6
    assert max(shares) - min(shares) <= 1
    assert sum(application.member.is_leader for application in world.applications.values()) == 1


def test_the_first_join_has_no_reason_and_the_second_names_the_given_id() -> None:
    world = started(1)
    application = world.applications["m0"]
    first, second = application.requests("JoinGroup")
    assert (first.member_id, first.reason) == ("", "")
    assert second.member_id == application.member.member_id
    assert second.reason == f"need to re-join with the given member-id: {second.member_id}"


def test_a_stable_group_heartbeats_and_does_not_rebalance() -> None:
    world = started(3)
    rebalances = len(world.history(RebalanceStarted))
    heartbeats = len(world.applications["m0"].requests("Heartbeat"))
    world.run(60_000)
    assert len(world.history(RebalanceStarted)) == rebalances
    assert len(world.applications["m0"].requests("Heartbeat")) - heartbeats == pytest.approx(20, abs=1)
    assert not world.history(MemberExpired)


def test_eager_members_give_up_everything_and_say_why_they_rejoin() -> None:
    world = started(1)
    first = world.applications["m0"]
    world.start("m1")
    world.run_until(lambda: world.is_shared() and bool(world.applications["m1"].owned))
    assert [notification.partitions for notification in first.told(Revoked)] == [orders(0, 1, 2, 3, 4, 5)]
    assert [notification.partitions for notification in first.told(Assigned)] == [
        orders(0, 1, 2, 3, 4, 5),
        orders(0, 1, 2),
    ]
    assert first.requests("JoinGroup")[-1].reason == "group is already rebalancing"


def test_cooperative_members_keep_what_they_may_and_rebalance_twice() -> None:
    world = started(1, partition_assignment_strategy=COOPERATIVE)
    first = world.applications["m0"]
    second = world.start("m1", partition_assignment_strategy=COOPERATIVE)
    world.run_until(lambda: world.is_shared() and bool(second.owned))
    assert [notification.partitions for notification in first.told(Revoked)] == [orders(3, 4, 5)]
    assert [notification.partitions for notification in first.told(Assigned)] == [orders(0, 1, 2, 3, 4, 5), (), ()]
    assert first.requests("JoinGroup")[-1].reason == "need to revoke partitions and re-join"
    # Nobody had the partitions while they changed hands: the newcomer got them one generation later.
    assert [notification.partitions for notification in second.told(Assigned)] == [(), orders(3, 4, 5)]


def test_a_rolling_restart_with_cooperative_sticky_moves_only_what_it_must() -> None:
    world = started(3, partition_assignment_strategy=COOPERATIVE)
    world.produce("orders", 50)
    for name in ("m0", "m1", "m2"):
        before = world.owners()
        world.close(world.applications[name])
        world.run_until(world.is_shared)
        staying = {partition for partition, owner in before.items() if owner != name}
        assert all(world.owners()[partition] == before[partition] for partition in staying)
        world.start(name, partition_assignment_strategy=COOPERATIVE)
        world.run_until(lambda: world.is_shared() and len(set(world.owners().values())) == 3)
        world.produce("orders", 50)
        world.run(6_000)
    handled = [(partition, offset) for partition, offset, _ in world.processed]
    assert len(handled) == len(set(handled)) == 6 * 200, "every record once"
    assert [leave_record.cause.reason for leave_record in world.history(MemberLeft)] == [
        "the consumer is being closed"
    ] * 3


def test_a_crashed_member_expires_after_its_session_and_the_others_take_over() -> None:
    world = started(2, **SHORT_SESSION)
    world.crash(world.applications["m1"])
    took_ms = world.run_until(world.is_shared)
    assert 4_500 <= took_ms <= 6_000 + 500 + 1_000 + 1_000, "session, tick, the other's heartbeat, the rebalance"
    assert len(world.history(MemberExpired)) == 1


def test_a_static_member_bounces_without_a_rebalance() -> None:
    world = World({"orders": 6})
    for name in ("a", "b"):
        world.start(name, group_instance_id=name)
    world.run_until(world.is_shared)
    before, rebalances = world.owners(), len(world.history(RebalanceStarted))
    world.close(world.applications["b"])
    again = world.start("b", group_instance_id="b")
    world.run_until(world.is_shared)
    assert not world.history(MemberLeft)
    assert len(world.history(MemberReplaced)) == 1
    assert len(world.history(RebalanceStarted)) == rebalances
    assert set(again.owned) == {partition for partition, owner in before.items() if owner == "b"}
    assert again.told(Assigned)


def test_a_static_leader_that_bounces_keeps_the_assignment() -> None:
    world = World({"orders": 6})
    leader = world.start("a", group_instance_id="a")
    world.run_until(world.is_shared)
    world.start("b", group_instance_id="b")
    world.run_until(lambda: world.is_shared() and len(set(world.owners().values())) == 2)
    owned, rebalances = dict(leader.owned), len(world.history(RebalanceStarted))
    assert leader.member.is_leader
    world.crash(leader)
    again = world.start("a", group_instance_id="a")
    world.run_until(world.is_shared)
    assert again.owned == owned
    assert again.member.is_leader
    assert len(world.history(RebalanceStarted)) == rebalances
    world.grow("orders", 8)
    world.run_until(world.is_shared)
    assert len(world.history(RebalanceStarted)) == rebalances + 1, "it watches its topics like any leader"


def test_a_static_member_leaves_if_it_is_told_to() -> None:
    world = World({"orders": 2})
    application = world.start("a", group_instance_id="a")
    world.run_until(world.is_shared)
    world.close(application, leave_group=True)
    assert [leave_record.member.group_instance_id for leave_record in world.history(MemberLeft)] == ["a"]


def test_a_twin_with_the_same_instance_id_fences_the_first() -> None:
    world = World({"orders": 2})
    first = world.start("a", group_instance_id="same")
    world.run_until(world.is_shared)
    second = world.start("b", group_instance_id="same")
    world.run_until(lambda: bool(first.told(Failed)))
    assert first.member.failure is not None
    assert first.member.failure[0] is ErrorCode.FENCED_INSTANCE_ID
    assert [notification.partitions for notification in first.told(Lost)] == [orders(0, 1)]
    sent = len(first.sent)
    world.run(60_000)
    assert len(first.sent) == sent, "it is silent from now on"
    assert set(second.owned) == set(orders(0, 1))


def test_an_application_that_does_not_poll_leaves_and_comes_back_with_the_next_poll() -> None:
    world = started(2, max_poll_interval_ms=10_000)
    slow, other = world.applications.values()
    slow.polling = False
    world.run_until(lambda: len(other.owned) == 6)
    assert slow.told(PollIntervalExceeded)
    assert world.history(MemberLeft)[0].cause.reason == "consumer poll timeout has expired."
    assert not slow.told(Lost), "the application is not there to be told"
    world.run(30_000)
    slow.polling = True
    slow.owned.clear()
    slow.member.poll(world.now_ms)
    losses = [output for output in slow.member.take_outputs() if isinstance(output, Lost)]
    assert [len(notification.partitions) for notification in losses] == [3]
    world.run_until(lambda: len(slow.owned) == 3 and world.is_shared())
    rejoin = [join.reason for join in slow.requests("JoinGroup") if join.member_id == ""][-1]
    assert rejoin == "consumer pro-actively leaving the group"


def test_a_coordinator_that_is_silent_for_three_sessions_expels_nobody() -> None:
    world = started(3, **SHORT_SESSION)
    stable = len(world.history(GroupStable))
    world.coordinator_runs = False
    world.run(3 * 6_000)
    assert all(application.told(CoordinatorUnknown) for application in world.applications.values())
    world.coordinator_runs = True
    world.run(60_000)
    assert world.is_shared()
    assert not world.history(MemberExpired)
    assert len(world.history(GroupStable)) == stable


def test_members_that_start_while_the_coordinator_is_down_wait_for_it() -> None:
    world = World({"orders": 6})
    world.coordinator_runs = False
    for name in ("a", "b"):
        world.start(name)
    world.run(20_000)
    world.coordinator_runs = True
    world.run_until(lambda: world.is_shared() and len(set(world.owners().values())) == 2)


def test_a_lost_join_answer_is_asked_for_again_and_a_late_one_ignored() -> None:
    world = World({"orders": 2})
    lost: list[str] = []

    def answer_delays(_: object, answer: Answer) -> tuple[int, ...]:
        if answer.api == "JoinGroup" and not lost:
            lost.append("first")
            return (20_000,)
        return (5,)

    world.answer_delays = answer_delays
    application = world.start("a", max_poll_interval_ms=5_000, request_timeout_ms=5_000)
    took_ms = world.run_until(world.is_shared)
    assert 10_000 <= took_ms <= 12_000, "max.poll.interval.ms and 5 s"
    assert application.requests("JoinGroup")[1].reason == "rebalance failed due to DisconnectException"
    assert len({send.request_id for send in application.sent}) == len(application.sent)
    member_id = application.member.member_id
    world.run(30_000)
    assert application.member.member_id == member_id
    assert world.is_shared()


def test_double_and_delayed_answers_change_nothing() -> None:
    calm, echoing = World({"orders": 6}), World({"orders": 6})
    echoing.answer_delays = lambda _, __: (5, 6, 4_000)
    for world in (calm, echoing):
        for name in ("a", "b", "c"):
            world.start(name, partition_assignment_strategy=COOPERATIVE)
        world.run(60_000)
        assert world.is_shared()
    assert calm.owners() == echoing.owners()
    for name in calm.applications:
        assert calm.applications[name].diary == echoing.applications[name].diary


@pytest.mark.parametrize("strategy", [("range",), COOPERATIVE])
def test_a_group_settles_after_a_time_in_which_every_request_reached_the_log_twice(strategy: tuple[str, ...]) -> None:
    world = World({"orders": 6})
    world.request_delays = lambda _, __: (5, 250)
    for name in ("a", "b", "c"):
        world.start(name, partition_assignment_strategy=strategy)
    world.run(30_000)
    world.request_delays = lambda _, __: (5,)
    world.run_until(lambda: world.is_shared() and len(set(world.owners().values())) == 3)


def test_a_group_settles_after_a_time_in_which_a_third_of_all_is_lost() -> None:
    world = World({"orders": 6})
    sent = count()
    world.request_delays = lambda _, __: () if next(sent) % 3 == 0 else (5,)
    world.answer_delays = lambda _, __: () if next(sent) % 3 == 1 else (5,)
    for name in ("a", "b", "c"):
        world.start(
            name, max_poll_interval_ms=5_000, request_timeout_ms=2_000, partition_assignment_strategy=COOPERATIVE
        )
    world.produce("orders", 100)
    world.run(120_000)
    world.request_delays = lambda _, __: (5,)
    world.answer_delays = lambda _, __: (5,)
    world.run_until(lambda: world.is_shared() and len(set(world.owners().values())) == 3, limit_ms=120_000)
    world.run(20_000)
    assert set(world.committed().values()) == {100}


def test_members_that_prefer_different_assignors_agree_on_a_common_one() -> None:
    world = World({"orders": 6})
    world.start("a", partition_assignment_strategy=("range", "roundrobin"))
    world.start("b", partition_assignment_strategy=("roundrobin",))
    world.run_until(lambda: world.is_shared() and len(set(world.owners().values())) == 2)
    assert {application.member.protocol_name for application in world.applications.values()} == {"roundrobin"}


def test_a_member_without_a_common_assignor_is_refused_for_good() -> None:
    world = started(1, partition_assignment_strategy=("range",))
    odd = world.start("odd", partition_assignment_strategy=("sticky",))
    world.run_until(lambda: odd.member.failure is not None)
    assert odd.member.failure is not None
    assert odd.member.failure[0] is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_moves_from_eager_to_cooperative_by_two_rolling_restarts() -> None:
    world = started(3, partition_assignment_strategy=("range",))
    for strategy in (("cooperative-sticky", "range"), ("cooperative-sticky",)):
        for name in ("m0", "m1", "m2"):
            running = [
                application
                for application in world.applications.values()
                if application.alive and application.name.startswith(name)
            ]
            world.close(running[0])
            world.start(name, partition_assignment_strategy=strategy)
            world.run_until(lambda: world.is_shared() and len(set(world.owners().values())) == 3)
    assert {application.member.protocol_name for application in world.applications.values() if application.alive} == {
        "cooperative-sticky"
    }


def test_the_leader_rebalances_when_a_topic_of_any_member_grows() -> None:
    world = World({"orders": 4, "payments": 2})
    leader = world.start("a", topics=("orders",))
    world.run(2_000)
    other = world.start("b", topics=("payments",))
    world.run_until(lambda: world.is_shared() and len(other.owned) == 2)
    assert leader.member.is_leader
    world.grow("payments", 5)
    world.run_until(lambda: len(other.owned) == 5)
    assert "cached metadata has changed" in [join.reason for join in leader.requests("JoinGroup")]


def test_a_topic_that_does_not_exist_yet_is_assigned_once_it_does() -> None:
    world = World({})
    application = world.start("a", topics=("orders",))
    world.run(5_000)
    assert application.told(Assigned)[-1].partitions == ()
    world.grow("orders", 3)
    world.run_until(lambda: len(application.owned) == 3)


@pytest.mark.parametrize("strategy", [("range",), COOPERATIVE])
def test_a_changed_subscription_rejoins_with_the_new_topics(strategy: tuple[str, ...]) -> None:
    world = World({"orders": 2, "payments": 2})
    application = world.start("a", topics=("orders",), partition_assignment_strategy=strategy)
    world.run_until(lambda: len(application.owned) == 2)
    application.member.subscribe(("payments",))
    world.run_until(lambda: {partition.topic for partition in application.owned} == {"payments"})
    assert application.requests("JoinGroup")[-1].reason == "subscription has changed"
    assert [notification.partitions for notification in application.told(Revoked)] == [orders(0, 1)]


def test_unsubscribing_leaves_the_group_and_subscribing_joins_it_again() -> None:
    world = started(2)
    world.produce("orders", 10)
    first = world.applications["m0"]
    world.run(1_000)
    first.member.subscribe(())
    first.act()
    assert not first.owned
    world.run(4_000)
    assert world.history(MemberLeft)[0].cause.reason == "the consumer unsubscribed from all topics"
    assert set(world.committed().values()) == {10}, "what it had processed is safe"
    first.member.subscribe(("orders",))
    world.run_until(lambda: world.is_shared() and bool(first.owned))


def test_members_go_on_committing_across_a_rebalance_and_nothing_is_processed_twice() -> None:
    world = started(1)
    world.produce("orders", 20)
    world.run(300)
    world.start("m1")
    world.run_until(lambda: world.is_shared() and bool(world.applications["m1"].owned))
    world.produce("orders", 20)
    world.run(6_000)
    handled = [(partition, offset) for partition, offset, _ in world.processed]
    assert len(handled) == len(set(handled)) == 6 * 40
    assert set(world.committed().values()) == {40}
    assert world.history(OffsetsCommitted)
