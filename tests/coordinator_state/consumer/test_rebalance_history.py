"""What history tells of a consumer group's rebalances: why each began, whom it waited for, how it ended."""

from __future__ import annotations

from typing import get_args

from coordinator_state import Output
from schemas.consumer_group_history import TRIGGERS, EpochReason, GroupEpochBumped, MemberReconciled
from schemas.history import RebalanceCompleted, RebalanceStarted, Waited
from schemas.history_parts import RebalanceTrigger
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, consumer_heartbeat, owned, topics
from tests.coordinator_state.harness import of_type


def two_members() -> ConsumerHarness:
    """`a` owns all of `foo`, `b` has joined, and nobody has given up anything yet."""
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("a", "foo")
    group.sleep(1_000)
    group.joins("b", "foo")
    return group


def ends(outputs: list[Output]) -> list[tuple[str, int]]:
    return [(record.outcome, record.generation_id) for record in of_type(outputs, RebalanceCompleted)]


def test_every_reason_has_a_trigger() -> None:
    assert set(TRIGGERS) == set(get_args(EpochReason))
    assert set(TRIGGERS.values()) <= set(get_args(RebalanceTrigger))


def test_the_first_member_makes_a_rebalance_that_ends_at_once() -> None:
    group = ConsumerHarness()
    outputs = group.send(*consumer_heartbeat("a", 0, ("foo",)), topic_metadata=group.metadata)
    started, completed = of_type(outputs, RebalanceStarted)[0], of_type(outputs, RebalanceCompleted)[0]
    assert (started.trigger, started.initial, started.generation_id) == ("member_joined", True, 1)
    assert started.member is not None
    assert started.member.member_id == "a"
    assert (completed.rebalance, completed.outcome, completed.generation_id) == (started.seq, "stable", 2)
    assert completed.waited_for == ()


def test_a_rebalance_waits_for_who_must_give_up_partitions() -> None:
    group = two_members()
    group.sleep(1_000)
    told_ms = group.now_ms
    assert len(of_type(group.beat("a", 2), MemberReconciled)) == 1
    group.sleep(3_000)
    done_ms = group.now_ms
    assert ends(group.beat("a", 2, topic_partitions=owned(FOO, 0, 1))) == []
    outputs = group.beat("b", 3)
    completed = of_type(outputs, RebalanceCompleted)[0]
    assert completed.waited_for == (Waited(member_id="a", told_ms=told_ms, joined_ms=done_ms),)
    assert (completed.slowest, completed.outcome, completed.generation_id) == ("a", "stable", 3)
    assert completed.duration_ms == 4_000
    assert group.body.rebalance is None


def test_who_gives_up_nothing_in_time_is_dropped_and_named() -> None:
    group = two_members()
    group.told("a", 2)
    outputs: list[Output] = []
    for _ in range(20):
        outputs += [*group.sleep(3_000), *group.beat("b", 3), *group.beat("a", 2)]
    started, completed = of_type(outputs, RebalanceStarted)[0], of_type(outputs, RebalanceCompleted)[0]
    assert (completed.outcome, completed.dropped) == ("interrupted", ("a",))
    assert completed.waited_for[0].joined_ms is None
    assert (started.trigger, started.reason) == ("member_dropped", "member client was too slow")
    assert (started.interrupts, started.waiting_for) == (completed.rebalance, ())


def test_the_next_rebalance_waits_on_for_who_has_not_yet_given_up() -> None:
    group = two_members()
    group.sleep(1_000)
    told_ms = group.now_ms
    group.told("a", 2)
    group.sleep(1_000)
    outputs = group.send(*consumer_heartbeat("c", 0, ("foo",)), topic_metadata=group.metadata)
    started = of_type(outputs, RebalanceStarted)[0]
    assert ends(outputs) == [("interrupted", 3)]
    assert (started.waiting_for, started.generation_id) == (("a",), 3)
    assert of_type(outputs, GroupEpochBumped)[0].generation_id == 4
    assert group.body.rebalance is not None
    assert group.body.rebalance.waited == {"a": (told_ms, None)}


def test_no_moment_lies_before_the_start() -> None:
    """A timer's append time is an estimate by the clock; the next request may have been appended before it."""
    group = two_members()
    group.told("a", 2)
    group.beat("a", 2, topic_partitions=owned(FOO, 0, 1))
    group.beat("b", 3)
    group.sleep(30_000)
    group.ahead_ms = 400
    group.beat("a", 3)
    (expired,) = of_type(group.sleep(15_000), RebalanceStarted)
    assert expired.trigger == "member_expired"
    group.ahead_ms = 0
    completed = of_type(group.beat("a", 3), RebalanceCompleted)[-1]
    assert (completed.rebalance, completed.outcome) == (expired.seq, "stable")
    assert completed.started_ms == expired.timestamp_ms == completed.timestamp_ms + 400
    assert completed.duration_ms == 0


def test_the_last_member_leaves_an_empty_group() -> None:
    group = ConsumerHarness()
    group.joins("a", "foo")
    outputs = group.beat("a", -1)
    assert of_type(outputs, RebalanceStarted)[0].trigger == "member_left"
    assert ends(outputs) == [("empty", 3)]


def test_topics_that_grow_are_the_reason() -> None:
    group = ConsumerHarness(group_consumer_assignment_interval_ms=0)
    group.joins("a", "foo")
    group.told("a", 2)
    group.metadata = topics(2, foo=6)
    started = of_type(group.beat("a", 2), RebalanceStarted)[0]
    assert (started.trigger, started.member) == ("topics_changed", None)
