"""A consumer group explained: each sentence is held against what the members of a story were told and did."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from group_coordinator.watching.commands.explanation import explanation
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.health import verdict
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.narrative import sentences, words
from group_coordinator.watching.narrative.rebalances import Rebalance, headline, rebalances
from group_coordinator.watching.narrative.steps import moves_of, steps
from schemas.consumer_group_history import ConsumerMemberJoined, GroupConverted
from schemas.consumer_group_messages import LEAVE_STATIC_EPOCH
from schemas.group_metadata_events import RegexesResolved
from schemas.history import History, HistoryRecord, MemberExpired, MemberJoined, MemberLeft, MemberReplaced
from schemas.messages import LeaveGroupMember
from tests.coordinator_state.harness import assignment, of_type, subscription
from tests.watching.dashboard.consumer_members import START_MS, DrivenMember, Place, Story, cluster

A, B, C = ("q7PSb5mLRyGCVxRVgnDvwQ", "zP8ZtVkqTTa6c1sJfYj4xw", "B0kX7mX1Q1mT2h0vC9aN5g")


def records_of(story: Story) -> list[History]:
    records: list[History] = of_type(story.group.outputs, HistoryRecord)  # type: ignore[arg-type]
    return records


def told(story: Story) -> tuple[Rebalance, list[str]]:
    """The last rebalance, and what is said of it."""
    *_, last = rebalances(records_of(story))
    return last, list(explanation(last))


def stuck() -> Story:
    """`a` keeps what it must give up for `b`."""
    story = Story("orders", cluster(orders=6))
    story.join(
        DrivenMember(member_id=A, client_id="orders-1", topics=("orders",), revokes=False, rebalance_timeout_ms=60_000)
    )
    story.go_on(10_000)
    story.join(DrivenMember(member_id=B, client_id="orders-2", topics=("orders",)))
    story.go_on(20_000)
    return story


def test_why_whom_the_target_moves_and_who_holds_what_since_when() -> None:
    story = stuck()
    a = story.members["orders-1"]
    rebalance, lines = told(story)
    assert lines[1:3] == [
        "Why: orders-2 (zP8ZtVkq) joined.", "How it ended: it is not over, as far as this history goes."
    ]  # fmt: skip
    moving = words.ranges(partition for _, partition in a.must_go)
    since = words.clock(min(a.must_go.values()))
    assert (
        f"  orders-1 (q7PSb5mL) must give up orders {moving} since 2026-01-01 {since}; orders-2 (zP8ZtVkq) waits for it"
    ) in lines
    assert f"orders  {moving:10}  q7PSb5mL      q7PSb5mL     zP8ZtVkq" in lines
    assert "0 of 6 partitions changed owner; 3 partitions not yet where the target has them." in lines
    assert headline(rebalance).endswith("orders-2 (zP8ZtVkq) joined; not over, waiting for q7PSb5mL")


def test_who_gave_up_and_when() -> None:
    story = stuck()
    a = story.members["orders-1"]
    told_ms = min(a.must_go.values())
    a.owned -= set(a.must_go)
    story.go_on(20_000)
    rebalance, lines = told(story)
    assert rebalance.completed is not None
    (waited,) = rebalance.completed.waited_for
    assert (waited.member_id, waited.told_ms) == (A, told_ms)
    took = words.duration((waited.joined_ms or 0) - told_ms)
    assert any(line.split()[:1] == ["q7PSb5mL"] and line.rstrip().endswith(took) for line in lines)
    assert "3 of 6 partitions changed owner." in lines
    assert not [line for line in lines if "must give up" in line and "since" in line]


def test_who_is_dropped_for_it() -> None:
    story = stuck()
    a = story.members["orders-1"]
    dropped_ms = min(a.must_go.values()) + a.rebalance_timeout_ms
    story.go_on(60_000)
    before, last = list(rebalances(records_of(story)))[-2:]
    lasted = words.duration(dropped_ms - START_MS - 10_000)
    assert headline(before).endswith(f"waited for q7PSb5mL; dropped q7PSb5mL; interrupted after {lasted}")
    assert sentences.because(last.started) == "member orders-1 was too slow"
    assert "q7PSb5mL is dropped: it did not give up its partitions before the rebalance timeout" in [
        sentences.sentence(cause) for cause in last.causes
    ]


def test_who_has_given_up_is_not_waited_for() -> None:
    """An epoch that rises meanwhile names it, for then it had not."""
    story = stuck()
    story.join(DrivenMember(member_id=C, client_id="orders-3", topics=("orders",)))
    story.group.sleep(2_000)
    a = story.members["orders-1"]
    story.beat(a)
    rebalance, _ = told(story)
    assert rebalance.started.waiting_for == (A,)
    assert headline(rebalance).endswith("not over, waiting for q7PSb5mL")
    while a.must_go:
        a.owned -= set(a.must_go)
        story.beat(a)
        story.beat(a)
    rebalance, _ = told(story)
    assert rebalance.completed is None
    assert headline(rebalance).endswith("; not over")
    facts = GroupFacts("orders")
    for record in records_of(story):
        facts.add(record)
    reason = verdict(facts, None, story.now_ms, HealthSettings()).reason
    assert "orders-3 (B0kX7mX1) joined" in reason
    assert "waits for" not in reason


def test_who_was_told_before_the_rebalance_was_told_before_it() -> None:
    story = stuck()
    story.join(DrivenMember(member_id=C, client_id="orders-3", topics=("orders",)))
    story.go_on(10_000)
    a = story.members["orders-1"]
    told_ms = min(a.must_go.values())
    while a.must_go:
        a.owned -= set(a.must_go)
        story.go_on(10_000)
    rebalance, lines = told(story)
    assert rebalance.completed is not None
    before = words.duration(rebalance.started.timestamp_ms - told_ms)
    (line,) = [line for line in lines if line.startswith("q7PSb5mL") and "after" in line]
    assert f"{before} before" in line
    assert not [line for line in lines if "after -" in line]


def test_a_classic_rebalance_that_an_upgrade_interrupts_is_told_as_one() -> None:
    story = Story("orders", cluster(orders=4), group_consumer_migration_policy="bidirectional")
    protocols = {"range": subscription("orders")}
    story.group.add("m", client_id="old", protocols=protocols, session_timeout_ms=45_000)
    story.group.sync("m", 1, {"m": assignment("orders", *range(4))}, protocol_name="range")
    story.group.add("n", client_id="old", protocols=protocols, session_timeout_ms=45_000)
    story.join(DrivenMember(member_id=A, client_id="orders-1", topics=("orders",)))
    last, lines = told(story)
    assert (last.counts, last.started.interrupts is None) == ("epoch", False)
    assert any("this one is interrupted: its members had not all synced" in line for line in lines)
    story.join(DrivenMember(member_id=B, client_id="orders-2", topics=("orders",)))
    _, lines = told(story)
    assert any("this one is interrupted: not every member had its target" in line for line in lines)


def migrating() -> Story:
    """A classic member, and `a`, with which its group went over to the consumer protocol."""
    story = Story("orders", cluster(orders=4), group_consumer_migration_policy="bidirectional")
    story.group.add("m", client_id="old", protocols={"range": subscription("orders")}, session_timeout_ms=600_000)
    story.group.sync("m", 1, {"m": assignment("orders", *range(4))}, protocol_name="range")
    story.join(DrivenMember(member_id=A, client_id="orders-1", topics=("orders",)))
    return story


def test_an_upgrade_is_explained_by_the_member_that_came_and_the_conversion() -> None:
    rebalance, lines = told(migrating())
    assert [type(cause) for cause in rebalance.causes] == [GroupConverted, ConsumerMemberJoined]
    why = "orders-1 (q7PSb5mL) joined, with which the group went over to the consumer protocol"
    assert lines[1] == f"Why: {why}."
    assert why in headline(rebalance)


def test_a_member_that_left_before_the_upgrade_owns_nothing_after_it() -> None:
    """No assignment tells of all once members come to their partitions one by one."""
    story = Story("orders", cluster(orders=4), group_consumer_migration_policy="bidirectional")
    protocols = {"range": subscription("orders")}
    for member_id in ("m", "n"):
        story.group.add(member_id, protocols=protocols, session_timeout_ms=600_000)
    story.group.join("m", protocols=protocols, session_timeout_ms=600_000)
    story.group.sync("m", 2, {"m": assignment("orders", 0, 1), "n": assignment("orders", 2, 3)})
    story.group.leave("m")
    story.join(DrivenMember(member_id=A, client_id="orders-1", topics=("orders",)))
    upgrade, _ = told(story)
    assert "m" in upgrade.owned_before
    story.leave("orders-1")
    story.join(DrivenMember(member_id=B, client_id="orders-2", topics=("orders",)))
    for rebalance in list(rebalances(records_of(story)))[-3:]:
        assert "m" not in (rebalance.owned_after or {}), headline(rebalance)


@pytest.mark.parametrize(
    ("goes", "kind", "end"),
    [
        (lambda story: story.leave("orders-1"), MemberLeft, "left"),
        (lambda story: story.group.sleep(60_000), MemberExpired, "expired"),
        (lambda story: story.group.leave(LeaveGroupMember(member_id=A)), MemberLeft, "left"),
    ],
)
def test_a_downgrade_is_explained_by_the_member_that_went_and_the_conversion(
    goes: Callable[[Story], object], kind: type[HistoryRecord], end: str
) -> None:
    story = migrating()
    goes(story)
    rebalance, lines = told(story)
    assert [type(cause) for cause in rebalance.causes] == [kind, GroupConverted]
    assert lines[1] == f"Why: the last member of the consumer protocol is gone; orders-1 (q7PSb5mL) {end}."


def test_an_empty_group_that_a_classic_member_turns_is_explained_by_both() -> None:
    """Before version 4 of JoinGroup one request does both; later the first one only asks for a member id."""
    story = Story("orders", cluster(orders=4))
    story.join(DrivenMember(member_id=A, client_id="orders-1", topics=("orders",)))
    story.leave("orders-1")
    story.group.join(new_member_id="m", client_id="old", protocols={"range": subscription("orders")}, version=3)
    rebalance, lines = told(story)
    assert [type(cause) for cause in rebalance.causes] == [GroupConverted, MemberJoined]
    assert lines[1] == "Why: m joined the empty group, with which the group went over to the classic protocol."


@pytest.mark.parametrize("is_classic", [False, True])
@pytest.mark.parametrize("subscribes_anew", [False, True])
def test_a_static_member_that_is_back_is_said_to_cost_a_rebalance_where_it_does(
    is_classic: bool, subscribes_anew: bool
) -> None:
    story = Story("g", cluster(orders=4, more=4), group_consumer_migration_policy="bidirectional")
    story.group.joins(C, "orders")
    story.group.joins(A, "orders", instance_id="i")
    story.group.told(A, LEAVE_STATIC_EPOCH, instance_id="i")
    names = ("orders", "more") if subscribes_anew else ("orders",)
    if is_classic:
        protocols = {"range": subscription(*names)}
        story.group.join(new_member_id=B, client_id="old", protocols=protocols, group_instance_id="i")
    else:
        story.group.joins(B, *names, instance_id="i")
    records = records_of(story)
    (replaced,) = [record for record in records if isinstance(record, MemberReplaced)]
    *_, last = rebalances(records)
    assert (replaced in last.causes) == subscribes_anew
    end = "a rebalance is needed" if subscribes_anew else "it keeps its partitions, no rebalance"
    assert sentences.sentence(replaced).endswith(f"in place of q7PSb5mL: {end}")


def test_what_was_done_by_the_logs_clock_is_not_told_after_what_follows_from_it() -> None:
    """A timer has the log's clock, which may be ahead of the append time of the next request."""
    story = stuck()
    story.go_on(60_000)
    for rebalance in rebalances(records_of(story)):
        rebalance.steps = [
            replace(record, timestamp_ms=record.timestamp_ms - 100)
            if isinstance(record, HistoryRecord) and record.cause.kind == "request" else record
            for record in rebalance.steps
        ]  # fmt: skip
        told_steps = [step for step in steps(rebalance) if not step.is_cause]
        assert [step.record for step in told_steps if step.record is not None] == rebalance.steps
        times_ms = [step.time_ms for step in told_steps]
        assert times_ms == sorted(times_ms)


def test_a_pattern_that_is_not_resolved_yet_is_said_to_wait() -> None:
    """What it will match is not known, so it is not said to match nothing."""
    story = Story("orders", cluster(orders=4))
    story.join(DrivenMember(member_id=A, client_id="orders-1", topics=("orders",)))
    story.join(DrivenMember(member_id=B, client_id="orders-2", topics=("orders",), regex="pay.*"))
    story.go_on(10_000)
    waits = "the pattern pay.* of zP8ZtVkq waits for its resolution: nothing is assigned by it"
    _, lines = told(story)
    assert any(waits in line for line in lines)
    assert state_of(story).endswith("; the pattern pay.* waits for its resolution: nothing is assigned by it")
    story.group.tell(RegexesResolved(version=1, resolved={"pay.*": ()}, began_ms=story.now_ms))
    story.go_on(10_000)
    assert "pattern" not in state_of(story)
    assert "the pattern pay.* matches no topic" in map(sentences.sentence, records_of(story))
    assert any(waits in line for line in told(story)[1])  # when that rebalance ended


def state_of(story: Story) -> str:
    facts = GroupFacts(story.group.group_id)
    for record in records_of(story):
        facts.add(record)
    return verdict(facts, None, story.now_ms, HealthSettings()).reason


def two_members() -> Story:
    story = Story("orders", cluster(orders=6))
    for name, member_id in (("orders-1", A), ("orders-2", B)):
        story.join(DrivenMember(member_id=member_id, client_id=name, topics=("orders",)))
        story.go_on(20_000)
    return story


def owners_in(story: Story) -> dict[Place, str]:
    return {place: member.member_id for member in story.members.values() for place in member.owned}


def owners_told(rebalance: Rebalance) -> tuple[dict[Place, str], dict[Place, str]]:
    """Who owned each partition before a rebalance, and who has since."""
    moves = moves_of(rebalance)
    before = {
        (move.topic, number): move.member_id_before
        for move in moves
        if move.member_id_before
        for number in move.partitions
    }
    after = {
        (move.topic, number): move.member_id_after
        for move in moves
        if move.member_id_after
        for number in move.partitions
    }
    return before, after


def leaves(story: Story) -> None:
    story.leave("orders-1")


def falls_silent(story: Story) -> None:
    del story.members["orders-1"]
    story.go_on(45_000)


def is_too_slow(story: Story) -> None:
    story.go_on(50_000)


@pytest.mark.parametrize(
    ("beginning", "goes"), [(two_members, leaves), (two_members, falls_silent), (stuck, is_too_slow)]
)
def test_who_goes_owned_its_partitions_before_and_none_since(
    beginning: Callable[[], Story], goes: Callable[[Story], None]
) -> None:
    story = beginning()
    before = owners_in(story)
    assert len(before) == 6
    assert A in before.values()
    goes(story)
    story.go_on(10_000)
    rebalance, lines = told(story)
    assert owners_told(rebalance) == (before, owners_in(story))
    assert set(owners_in(story).values()) == {B}
    gone = sum(owner == A for owner in before.values())
    assert f"{gone} of 6 partitions changed owner." in lines


def test_nobody_owns_what_a_member_had_until_another_one_takes_it() -> None:
    story = two_members()
    both = owners_in(story)
    story.leave("orders-1")
    rebalance, _ = told(story)
    assert owners_told(rebalance) == (both, owners_in(story))
    assert len(owners_in(story)) == 3


def test_each_of_two_that_go_at_once_owned_its_own() -> None:
    story = two_members()
    both = owners_in(story)
    story.leave("orders-1")
    only_b = owners_in(story)
    story.leave("orders-2")
    first, last = list(rebalances(records_of(story)))[-2:]
    assert owners_told(first) == (both, only_b)
    assert owners_told(last) == (only_b, {})
    rows = [line.split() for line in explanation(last)]
    assert [row[2:] for row in rows if row[:1] == ["orders"]] == [["zP8ZtVkq", "nobody", "moved"]]


def test_who_goes_before_a_group_is_classic_owned_its_partitions() -> None:
    story = two_members()
    story.group.add("m", client_id="old", session_timeout_ms=45_000)
    story.go_on(10_000)
    before = owners_in(story)
    story.leave("orders-1")
    story.leave("orders-2")
    rebalance, _ = told(story)
    told_before, _ = owners_told(rebalance)
    assert {place: told_before[place] for place in before if before[place] == B} == {
        place: B for place in before if before[place] == B
    }


def test_a_rebalance_that_is_cut_short_says_who_held_it_up() -> None:
    story = stuck()
    story.join(DrivenMember(member_id=C, client_id="orders-3", topics=("orders",)))
    before, _ = list(rebalances(records_of(story)))[-2:]
    lines = list(explanation(before))
    assert "Who held it up when it ended:" in lines
    assert any(line.startswith("  orders-1 (q7PSb5mL) must give up") for line in lines)


def test_a_conversion_back_says_what_led_to_it() -> None:
    story = Story("orders", cluster(orders=6))
    story.join(DrivenMember(member_id=A, client_id="orders-1", topics=("orders",)))
    story.group.add("m", client_id="old", session_timeout_ms=45_000)
    story.leave("orders-1")
    (record,) = of_type(story.group.outputs, GroupConverted)
    assert sentences.sentence(record) == (
        "the group goes over to the classic protocol, with the ConsumerGroupHeartbeat of client orders-1 (/127.0.0.1)"
    )
