"""Verdicts: what is wrong, and whose doing it is."""

from __future__ import annotations

from group_coordinator.watching.dashboard.committed import Committed
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.health import expires_ms, verdict
from group_coordinator.watching.dashboard.lag import Lag
from group_coordinator.watching.dashboard.settings import HealthSettings
from tests.coordinator_state.harness import DAY_MS, GroupHarness, assignment
from tests.watching.dashboard.lives import facts_of

SETTINGS = HealthSettings()
START_MS = 1_767_225_600_000


def kind_and_who(group: GroupHarness, lag: Lag | None = None) -> tuple[str, str | None]:
    judgement = verdict(facts_of(group), lag, group.now_ms, SETTINGS)
    return judgement.kind, judgement.who


def settled(*members: str) -> GroupHarness:
    group = GroupHarness("g", now_ms=START_MS)
    group.stable(*members)
    return group


def test_a_group_that_works_is_stable_and_idle_members_are_counted() -> None:
    group = settled("a", "b")
    assert kind_and_who(group) == ("stable", None)
    group.join("a")
    group.join("b")
    group.sync("b", 3)
    group.sync("a", 3, {"a": assignment("t", 0, 1), "b": assignment("t")})
    judgement = verdict(facts_of(group), None, group.now_ms, SETTINGS)
    assert judgement.reason == "2 members, 2 partitions; 1 member without a partition"


def test_a_rebalance_is_no_trouble_until_it_lasts_and_then_it_says_whom_it_waits_for() -> None:
    group = settled("a", "b")
    fields = {"session_timeout_ms": 300_000, "rebalance_timeout_ms": 300_000}
    for member in ("a", "b"):
        group.join(member, **fields)
    group.sync("b", 3)
    group.sync("a", 3, {"a": assignment("t", 0), "b": assignment("t", 1)})
    group.join("a", **fields)
    facts = facts_of(group)
    assert verdict(facts, None, group.now_ms + 59_000, SETTINGS).kind == "rebalancing"
    judgement = verdict(facts, None, group.now_ms + 61_000, SETTINGS)
    assert (judgement.kind, judgement.who) == ("stuck", "b")
    assert "waits for b to rejoin" in judgement.reason
    # It says by itself when to look again.
    calm = verdict(facts, None, group.now_ms, SETTINGS)
    assert calm.holds_until_ms is not None
    assert verdict(facts, None, calm.holds_until_ms, SETTINGS).kind == "stuck"


def test_a_rebalance_beyond_its_deadline_is_stuck_before_a_minute_is_over() -> None:
    group = settled("a", "b")
    fields = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 6_000}
    for member in ("a", "b"):
        group.join(member, **fields)
    group.sync("b", 3)
    group.sync("a", 3, {"a": assignment("t", 0), "b": assignment("t", 1)})
    group.join("a", **fields)
    judgement = verdict(
        facts_of(group), None, group.now_ms + 22_000, SETTINGS
    )  # the clock stands still: a coordinator that is away
    assert judgement.kind == "stuck"
    assert "beyond its deadline" in judgement.reason


def test_a_leader_that_does_not_send_the_assignment_is_named() -> None:
    group = settled("a", "b")
    group.join("a", session_timeout_ms=300_000)
    group.join("b", session_timeout_ms=300_000)
    judgement = verdict(facts_of(group), None, group.now_ms + 61_000, SETTINGS)
    assert (judgement.kind, judgement.who) == ("stuck", "a")


def come_and_go(group: GroupHarness, name: str, number: int) -> None:
    for _ in range(number):
        generation_id = group.classic.generation_id if group.group is not None else 0
        group.add(name, client_id=f"client-{name}")
        group.join("a")
        group.join("b")
        group.sync("a", generation_id + 1, {"a": assignment("t", 0)})
        group.leave(name)
        group.join("a")
        group.join("b")
        group.sync("a", generation_id + 2, {"a": assignment("t", 0)})
        group.sleep(1_000)
        for member in ("a", "b"):
            group.heartbeat(member, generation_id + 2)


def test_a_member_that_comes_and_goes_is_named_though_its_member_ids_differ() -> None:
    group = settled("a", "b")
    come_and_go(group, "x1", 1)
    assert kind_and_who(group)[0] == "stable"
    # Another member id, the same client.
    generation_id = group.classic.generation_id if group.group is not None else 0
    group.add("x2", client_id="client-x1")
    for member in ("a", "b"):
        group.join(member)
    group.sync("a", generation_id + 1, {"a": assignment("t", 0)})
    group.leave("x2")
    judgement = verdict(facts_of(group), None, group.now_ms, SETTINGS)
    assert judgement.kind == "flapping"
    assert judgement.who is not None
    assert judgement.who.startswith("client-x1@")
    assert "left twice" in judgement.reason


def test_flapping_is_forgotten_when_it_is_over() -> None:
    group = settled("a", "b")
    come_and_go(group, "x", 3)
    facts = facts_of(group)
    assert verdict(facts, None, group.now_ms, SETTINGS).kind == "flapping"
    assert verdict(facts, None, group.now_ms + SETTINGS.window_ms, SETTINGS).kind == "stable"


def test_a_rolling_deploy_is_no_storm_and_nobody_flaps() -> None:
    group = settled("a", "b")
    for name in ("c", "d", "e"):
        come_and_go(group, name, 1)
    assert kind_and_who(group)[0] == "stable"


def test_many_rebalances_by_many_are_a_storm() -> None:
    group = settled("a", "b")
    for number in range(5):
        come_and_go(group, f"c{number}", 1)
    judgement = verdict(facts_of(group), None, group.now_ms, SETTINGS)
    assert judgement.kind == "storming"
    assert "rebalances in 10 min" in judgement.reason


def test_an_empty_group_with_lag_and_one_whose_offsets_are_about_to_expire() -> None:
    group = settled("a")
    group.commit("a", 1, {("t", 0): 5})
    group.leave("a")
    assert kind_and_who(group) == ("empty", None)
    assert kind_and_who(group, Lag(1_200, 5_000, False, 0)) == ("empty_with_lag", None)
    facts = facts_of(group)
    assert expires_ms(facts, SETTINGS) == group.now_ms + 7 * DAY_MS
    calm = verdict(facts, None, group.now_ms, SETTINGS)
    assert calm.holds_until_ms == group.now_ms + 6 * DAY_MS
    assert verdict(facts, None, group.now_ms + 6 * DAY_MS, SETTINGS).kind == "expiring"


def test_offsets_without_members_expire_after_the_oldest_commit() -> None:
    facts = GroupFacts("g")
    facts.state, facts.offsets = "Empty", {("t", 0): Committed(1, 1_000, ""), ("t", 1): Committed(1, 9_000, "")}
    assert expires_ms(facts, SETTINGS) == 1_000 + SETTINGS.offsets_retention_ms
