"""History: every rebalance has a cause, and the chain can be followed from record to record."""

from typing import TypeVar

import pytest

from coordinator_state import LogRecord, Output
from schemas.history import (
    AssignedTopic,
    AssignmentReceived,
    GroupDead,
    GroupEmpty,
    HistoryRecord,
    JoinPhaseCompleted,
    LeaderElected,
    MemberDropped,
    MemberExpired,
    MemberFenced,
    MemberLeft,
    MemberReplaced,
    OffsetsCommitted,
    OffsetsExpired,
    ProtocolChosen,
    RebalanceCompleted,
    RebalanceExtended,
    RebalanceStarted,
    RequestRefused,
)
from tests.coordinator_state.harness import DAY_MS, GroupHarness, assignment, of_type, subscription

T = TypeVar("T")


def one(outputs: list[Output], kind: type[T]) -> T:
    (record,) = of_type(outputs, kind)
    return record


def chain(group: GroupHarness, record: HistoryRecord) -> list[str]:
    """Names of the records from this one back to the first cause."""
    by_seq = {(record.epoch, record.seq): record for record in of_type(group.outputs, HistoryRecord)}
    names = []
    current: HistoryRecord | None = record
    while current is not None:
        names.append(type(current).__name__)
        current = by_seq[current.epoch, current.caused_by] if current.caused_by is not None else None
    return names


def test_no_moment_of_a_rebalance_lies_before_its_start() -> None:
    """A timer's append time is an estimate by the clock; the next request may have been appended before it."""
    group = GroupHarness()
    group.stable("a", "b")
    group.sleep(9_000)
    group.ahead_ms = 400
    group.heartbeat("a", 2)
    started = one(group.sleep(1_000), RebalanceStarted)
    group.ahead_ms = 0
    group.heartbeat("a", 2)
    joined = one(group.join("a"), JoinPhaseCompleted)
    completed = one(group.sync("a", 3, {"a": assignment("t", 0)}), RebalanceCompleted)
    assert started.timestamp_ms > completed.timestamp_ms
    (waited,) = completed.waited_for
    assert (waited.told_ms, waited.joined_ms) == (started.timestamp_ms, started.timestamp_ms)
    assert (joined.duration_ms, completed.join_ms, completed.duration_ms) == (0, 0, 0)


def test_a_crash_is_told_from_the_last_heartbeat_to_the_new_owner() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    heard_at = group.offset
    group.sleep(9_000)
    group.heartbeat("a", 2)
    outputs = group.sleep(1_000)

    expired = one(outputs, MemberExpired)
    assert (expired.member.member_id, expired.session_timeout_ms, expired.last_heard_ms) == ("b", 10_000, 1_000_000)
    assert expired.cause.timer == "session"
    assert expired.cause.offset == heard_at, "the event that armed its session: when it was last heard"
    started = one(outputs, RebalanceStarted)
    assert (started.trigger, started.member, started.waiting_for) == ("member_expired", expired.member, ("a",))
    assert started.caused_by == expired.seq

    group.sleep(500)
    group.heartbeat("a", 2)  # told
    group.sleep(1_500)
    joined = group.join("a")
    completed = one(joined, JoinPhaseCompleted)
    assert completed.rebalance == started.seq
    assert completed.duration_ms == 2_000
    (waited,) = completed.waited_for
    assert (waited.member_id, waited.told_ms, waited.joined_ms) == ("a", 1_010_500, 1_012_000)
    group.sleep(100)
    synced = group.sync("a", 3, {"a": assignment("t", 0, 1)})
    received = one(synced, AssignmentReceived)
    assert received.assignments[0].topics == (AssignedTopic(topic="t", partitions=(0, 1)),)
    over = one(synced, RebalanceCompleted)
    assert (over.outcome, over.duration_ms, over.join_ms, over.trigger) == ("stable", 2_100, 2_000, "member_expired")
    assert chain(group, over) == [
        "RebalanceCompleted",
        "AssignmentReceived",
        "JoinPhaseCompleted",
        "MemberRejoined",
        "RebalanceStarted",
        "MemberExpired",
    ]


def test_a_leave_carries_the_clients_own_words() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    outputs = group.leave("b")
    leave_record = one(outputs, MemberLeft)
    assert (leave_record.cause.api, leave_record.cause.reason, leave_record.cause.member_id) == (
        "LeaveGroup",
        "done",
        "b",
    )
    assert one(outputs, RebalanceStarted).caused_by == leave_record.seq


def test_who_was_slow_and_who_was_dropped() -> None:
    group = GroupHarness()
    group.stable("a", "b", "c", rebalance_timeout_ms=20_000, session_timeout_ms=30_000)
    group.join("a", rebalance_timeout_ms=20_000, session_timeout_ms=30_000)
    group.sleep(3_000)
    group.join("b", rebalance_timeout_ms=20_000, session_timeout_ms=30_000)
    outputs = group.sleep(17_000)
    dropped = one(outputs, MemberDropped)
    assert (dropped.member.member_id, dropped.reason) == ("c", "did_not_rejoin")
    completed = one(outputs, JoinPhaseCompleted)
    assert (completed.slowest, completed.dropped, completed.duration_ms) == ("b", ("c",), 20_000)


def test_an_interrupted_rebalance_ends_and_the_next_names_it() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    first = one(group.join("a"), RebalanceStarted)
    group.join("b")
    outputs = group.join("a", protocols={"range": subscription("t", "u")})
    assert one(outputs, RebalanceCompleted).outcome == "interrupted"
    assert one(outputs, RebalanceStarted).interrupts == first.seq


def test_members_that_do_not_sync_are_the_cause_of_the_next_rebalance() -> None:
    group = GroupHarness()
    group.stable("a", "b")
    group.join("a", rebalance_timeout_ms=8_000)
    group.join("b", rebalance_timeout_ms=8_000)
    group.sync("a", 3, {})
    outputs = group.sleep(8_000)
    dropped = one(outputs, MemberDropped)
    assert (dropped.member.member_id, dropped.reason, dropped.cause.timer) == ("b", "did_not_sync", "sync")
    assert one(outputs, RebalanceStarted).trigger == "members_did_not_sync"


@pytest.mark.parametrize(("version", "is_extended"), [("3.9", False), ("4.0", True), ("4.3", True)])
def test_who_arrives_at_an_emptied_group_extends_its_join_phase_since_kafka_4(version: str, is_extended: bool) -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000, kafka_rules=version)
    group.add("a")
    group.sleep(3_000)
    group.leave("a")
    group.add("b")
    group.sleep(1_000)
    group.add("c")
    assert (len(of_type(group.sleep(2_000), RebalanceExtended)) == 1) is is_extended


def test_the_initial_delay_and_its_extension_are_told() -> None:
    group = GroupHarness(group_initial_rebalance_delay_ms=3_000)
    started = one(group.add("a"), RebalanceStarted)
    assert started.initial
    assert started.deadline_ms == group.now_ms + 3_000
    group.sleep(1_000)
    group.add("b")
    extended = one(group.sleep(2_000), RebalanceExtended)
    assert (extended.reason, extended.rebalance) == ("members_arriving", started.seq)
    outputs = group.sleep(3_000)
    assert one(outputs, ProtocolChosen).votes == {"range": ("a", "b")}
    assert one(outputs, LeaderElected).reason == "first_member"
    assert one(outputs, JoinPhaseCompleted).caused_by == extended.seq


def test_a_static_bounce_is_told_without_a_rebalance_and_the_old_id_is_fenced() -> None:
    group = GroupHarness()
    group.join(new_member_id="s1", group_instance_id="s")
    group.sleep(0)
    group.sync("s1", 1, {"s1": assignment("t", 0)})
    outputs = group.join(new_member_id="s2", group_instance_id="s")
    replaced = one(outputs, MemberReplaced)
    assert (replaced.old_member_id, replaced.member.member_id, replaced.rebalanced) == ("s1", "s2", False)
    assert one(outputs, LeaderElected).reason == "leader_replaced"
    fenced = one(group.heartbeat("s1", 1, group_instance_id="s"), MemberFenced)
    assert (fenced.member_id, fenced.owner_member_id) == ("s1", "s2")


def test_a_refusal_names_the_rule_and_the_state_it_met() -> None:
    group = GroupHarness()
    group.stable("a")
    refused = one(group.heartbeat("a", 7), RequestRefused)
    assert (refused.error, refused.rule, refused.state) == ("ILLEGAL_GENERATION", "generation_differs", "Stable")
    assert "7" in refused.detail
    assert "1" in refused.detail
    nobody = one(GroupHarness().heartbeat("a", 1), RequestRefused)
    assert (nobody.rule, nobody.state) == ("unknown_group", "none")


def test_commits_tell_what_they_replace() -> None:
    group = GroupHarness()
    group.stable("a")
    group.commit("a", 1, {("t", 0): 10})
    committed = one(group.commit("a", 1, {("t", 0): 7, ("t", 1): 3}), OffsetsCommitted)
    assert [(offset.partition, offset.offset, offset.previous_offset) for offset in committed.offsets] == [
        (0, 7, 10),
        (1, 3, None),
    ]


def test_the_end_of_a_group_is_told_with_its_reason() -> None:
    group = GroupHarness()
    group.stable("a")
    group.commit("a", 1)
    assert one(group.leave("a"), GroupEmpty).generation_id == 2
    outputs = group.sleep(8 * DAY_MS)
    assert one(outputs, OffsetsExpired).offsets[0].previous_offset == 1
    assert one(outputs, GroupDead).reason == "expired"
    assert [output.value for output in of_type(outputs, LogRecord)] == [None, None]
    assert group.state == "none"


def test_every_output_is_numbered_and_no_rebalance_is_without_a_cause() -> None:
    group = GroupHarness()
    group.stable("a", "b", "c")
    group.leave("b")
    group.sleep(120_000)
    group.add("d")
    group.sleep(400_000)
    by_epoch: dict[int, list[int]] = {}
    for output in group.outputs:
        by_epoch.setdefault(output.epoch, []).append(output.seq)
    for numbers in by_epoch.values():
        assert numbers == list(range(1, len(numbers) + 1))
    starts = of_type(group.outputs, RebalanceStarted)
    assert len(starts) > 3
    seqs = {(record.epoch, record.seq) for record in of_type(group.outputs, HistoryRecord)}
    assert all((start.epoch, start.caused_by) in seqs for start in starts)
