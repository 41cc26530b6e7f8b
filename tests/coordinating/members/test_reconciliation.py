"""A member of the consumer protocol makes an assignment its own: what it does, in which order, and what it tells."""

from __future__ import annotations

import pytest

from group_coordinator.coordinating.members.effects import Assigned, Closed, Lost, Positioned, Revoked, TopicNamesNeeded
from schemas.consumer_protocol import TopicPartition
from schemas.error_codes import ErrorCode
from schemas.messages import OffsetCommitRequest
from tests.coordinating.members.bench import P0, P1
from tests.coordinating.members.consumer_bench import BILLS, HEARTBEAT, INTERVAL_MS, ORDERS, ConsumerBench, owns


def told_less(bench: ConsumerBench) -> None:
    """A member with both partitions is told to have the first one only."""
    bench.settled(orders=(0, 1))
    bench.wait(INTERVAL_MS)
    bench.beat(1, orders=(0,))


def test_new_partitions_are_the_members_before_they_are_acknowledged() -> None:
    bench = ConsumerBench()
    bench.poll()
    bench.beat(4, orders=(0, 1))
    assert bench.member.assignment == ()
    bench.poll()
    assert bench.last(Assigned) == Assigned(partitions=(P0, P1), generation_id=4)
    bench.offsets({P0: 5, P1: 6})
    assert bench.last(Positioned).positions == {P0: 5, P1: 6}


def test_positions_are_committed_then_partitions_given_up_then_it_is_told() -> None:
    bench = ConsumerBench(auto_commit_interval_ms=60_000)
    bench.settled(epoch=3, orders=(0, 1))
    bench.member.processed(P1, 7)
    bench.wait(INTERVAL_MS)
    bench.beat(3, orders=(0,))
    bench.poll()
    request = bench.asked(OffsetCommitRequest)
    assert (request.member_id, request.generation_id_or_member_epoch) == (bench.member.member_id, 3)
    assert not bench.member.may_process, "what is processed now may not be committed"
    bench.poll()
    assert not bench.heard(Revoked)
    bench.commit_answer()
    bench.poll()
    assert bench.last(Revoked).partitions == (P1,)
    assert (bench.member.assignment, bench.member.may_process) == ((P0,), True)
    assert not bench.open(HEARTBEAT), "the application has yet to let go"
    bench.poll()
    assert bench.heartbeat().topic_partitions == owns(orders=(0,))
    assert bench.last(Assigned).partitions == ()
    assert bench.member.state == "stable"


def test_a_commit_that_goes_with_new_partitions_only_stops_nobody() -> None:
    bench = ConsumerBench(auto_commit_interval_ms=60_000)
    bench.settled(orders=(0,))
    bench.member.processed(P0, 7)
    bench.wait(INTERVAL_MS)
    bench.beat(2, orders=(0, 1))
    bench.poll()
    assert bench.open("OffsetCommit")
    assert bench.member.may_process
    bench.commit_answer()
    bench.poll()
    assert bench.heartbeat().topic_partitions == owns(orders=(0, 1))


def test_without_automatic_commits_it_gives_up_at_the_first_poll() -> None:
    bench = ConsumerBench(enable_auto_commit=False)
    told_less(bench)
    bench.poll()
    assert bench.last(Revoked).partitions == (P1,)
    assert not bench.open("OffsetCommit")
    bench.poll()
    assert bench.heartbeat().topic_partitions == owns(orders=(0,))


def test_a_commit_that_is_not_answered_does_not_hold_the_partitions_for_ever() -> None:
    bench = ConsumerBench(auto_commit_interval_ms=600_000, max_poll_interval_ms=20_000, request_timeout_ms=60_000)
    bench.settled(orders=(0, 1))
    bench.member.processed(P1, 7)
    bench.wait(INTERVAL_MS)
    bench.beat(1, orders=(0,))
    bench.poll()
    bench.wait(19_000)
    bench.poll()
    assert not bench.heard(Revoked)
    bench.wait(1_000)
    bench.poll()
    assert bench.last(Revoked).partitions == (P1,)


def test_heartbeats_go_on_while_the_application_does_not_let_go() -> None:
    bench = ConsumerBench(enable_auto_commit=False)
    told_less(bench)
    for _ in range(3):
        bench.wait(INTERVAL_MS)
        assert bench.heartbeat().topic_partitions is None, "it has not given up anything"
        bench.beat(1)
    assert bench.member.assignment == (P0, P1)
    assert bench.member.state == "reconciling"


def test_another_assignment_meanwhile_is_reconciled_after_the_first() -> None:
    bench = ConsumerBench(enable_auto_commit=False)
    told_less(bench)
    bench.poll()
    bench.wait(INTERVAL_MS)
    bench.beat(2, bills=(0,))
    bench.poll()
    assert bench.heartbeat().topic_partitions == owns(orders=(0,))
    assert bench.member.state == "reconciling"
    bench.poll()
    assert bench.last(Revoked).partitions == (P0,)
    bench.poll()
    assert bench.last(Assigned).partitions == (TopicPartition("bills", 0),)
    bench.beat(2)
    assert bench.heartbeat().topic_partitions == owns(bills=(0,))


def test_an_assignment_that_comes_back_is_acknowledged_without_a_move() -> None:
    bench = ConsumerBench(enable_auto_commit=False)
    told_less(bench)
    bench.wait(INTERVAL_MS)
    bench.beat(2, orders=(0, 1))
    bench.poll()
    assert bench.heartbeat().topic_partitions == owns(orders=(0, 1))
    assert not bench.heard(Revoked)
    assert len(bench.heard(Assigned)) == 1


def test_what_is_assigned_in_a_topic_without_a_name_waits() -> None:
    bench = ConsumerBench()
    bench.names_topics = False
    bench.poll()
    bench.beat(1, orders=(0,), bills=(3,))
    assert bench.last(TopicNamesNeeded).topic_ids == tuple(sorted((ORDERS, BILLS)))
    bench.member.topic_names({ORDERS: "orders", "another": "x"})
    bench.poll()
    assert bench.heartbeat().topic_partitions == owns(orders=(0,))
    assert (bench.member.assignment, bench.member.state) == ((P0,), "reconciling")
    bench.beat(1)
    bench.poll()
    assert not bench.open(HEARTBEAT), "it has said what it has"
    asked = len(bench.heard(TopicNamesNeeded))
    bench.wait(1_000)
    assert bench.heard(TopicNamesNeeded)[asked:] == [TopicNamesNeeded(topic_ids=(BILLS,))]
    bench.member.topic_names({BILLS: "bills"})
    bench.poll()
    assert bench.heartbeat().topic_partitions == owns(orders=(0,), bills=(3,))
    assert bench.member.state == "stable"
    bench.wait(60_000)
    assert len(bench.heard(TopicNamesNeeded)) == asked + 1


def test_a_topic_made_again_under_its_name_is_another_topic() -> None:
    bench = ConsumerBench()
    bench.settled(orders=(0,))
    bench.wait(INTERVAL_MS)
    bench.beat(2, another=(0,))
    bench.member.topic_names({"another": "orders"})
    bench.poll()
    assert [item.topic_id for item in bench.heartbeat().topic_partitions or ()] == ["another"]
    assert bench.member.assignment == (P0,)


def test_a_member_that_is_put_out_while_it_reconciles_forgets_it() -> None:
    bench = ConsumerBench(auto_commit_interval_ms=60_000)
    bench.settled(orders=(0, 1))
    bench.member.processed(P1, 7)
    bench.wait(INTERVAL_MS)
    bench.beat(1, orders=(0,))
    bench.poll()
    bench.wait(INTERVAL_MS)
    bench.refuse(ErrorCode.FENCED_MEMBER_EPOCH)
    assert bench.last(Lost).partitions == (P0, P1)
    bench.poll()
    bench.beat(5, orders=(1,))
    bench.poll()
    assert not bench.heard(Revoked)
    assert bench.heartbeat().topic_partitions == owns(orders=(1,))
    assert bench.member.generation_id == 5


# ------------------------------------------------------------------------------------------------- leaving and closing


def test_without_topics_it_leaves_and_with_topics_it_joins_again() -> None:
    bench = ConsumerBench()
    bench.settled(orders=(0,))
    bench.member.subscribe(())
    bench.poll()
    assert bench.last(Revoked).partitions == (P0,)
    assert (bench.heartbeat().member_epoch, bench.member.state) == (-1, "unsubscribed")
    bench.beat(-1)
    bench.wait(60_000)
    bench.poll()
    assert not bench.open(HEARTBEAT)
    bench.member.subscribe(("bills",))
    bench.poll()
    assert (bench.heartbeat().member_epoch, bench.heartbeat().subscribed_topic_names) == (0, ("bills",))


@pytest.mark.parametrize(
    ("instance_id", "leave_group", "epoch"),
    [
        (None, None, -1),
        (None, True, -1),
        (None, False, None),
        ("i", None, -2),
        ("i", True, -1),
        ("i", False, -2),
    ],
)
def test_a_member_closes(instance_id: str | None, leave_group: bool | None, epoch: int | None) -> None:
    bench = ConsumerBench(group_instance_id=instance_id, auto_commit_interval_ms=60_000)
    bench.settled(epoch=2, orders=(0,))
    bench.member.processed(P0, 9)
    bench.member.close(bench.now_ms, leave_group=leave_group)
    bench.poll()
    assert bench.member.state == "prepare_leaving"
    bench.wait(INTERVAL_MS)
    assert bench.heartbeat().member_epoch == 2, "it lives while it closes"
    bench.commit_answer()
    assert bench.last(Revoked).partitions == (P0,)
    bench.beat(2)
    assert not bench.open(HEARTBEAT)
    bench.poll()
    if epoch is None:
        assert not bench.open(HEARTBEAT)
    else:
        assert (bench.heartbeat().member_epoch, bench.heartbeat().instance_id) == (epoch, instance_id)
        bench.beat(epoch)
    assert bench.heard(Closed)
    assert (bench.member.state, bench.member.next_deadline_ms()) == ("unsubscribed", None)


def test_a_member_that_is_put_out_while_it_closes_does_not_leave_once_more() -> None:
    bench = ConsumerBench(auto_commit_interval_ms=60_000)
    bench.settled(orders=(0,))
    bench.member.processed(P0, 9)
    bench.wait(INTERVAL_MS)
    bench.member.close(bench.now_ms)
    bench.refuse(ErrorCode.UNKNOWN_MEMBER_ID)
    assert bench.last(Lost).partitions == (P0,)
    bench.commit_answer(ErrorCode.UNKNOWN_MEMBER_ID)
    bench.poll()
    assert bench.heard(Closed)
    assert not bench.open(HEARTBEAT)


def test_a_leave_that_meets_no_coordinator_is_said_again() -> None:
    bench = ConsumerBench(enable_auto_commit=False)
    bench.settled(orders=(0,))
    bench.member.close(bench.now_ms)
    bench.poll()
    bench.poll()
    bench.refuse(ErrorCode.NOT_COORDINATOR)
    assert not bench.heard(Closed)
    bench.wait(100)
    assert bench.heartbeat().member_epoch == -1
    bench.beat(-1)
    assert bench.heard(Closed)


def test_a_member_that_never_joined_closes_without_a_word() -> None:
    bench = ConsumerBench()
    bench.member.close(bench.now_ms)
    bench.poll()
    assert bench.heard(Closed)
    assert not bench.sent
