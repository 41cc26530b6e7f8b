"""Consumer groups on the dashboard: verdicts, who holds up whom, held against what the members were told and did."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.facts import GroupFacts
from group_coordinator.watching.dashboard.health import expires_ms, verdict
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.server import start_server
from group_coordinator.watching.dashboard.settings import HealthSettings
from group_coordinator.watching.dashboard.verdicts import Verdict
from group_coordinator.watching.history.holding import places
from group_coordinator.watching.narrative import words
from schemas.events import encode_json
from schemas.history import History, HistoryRecord, OffsetsExpired
from tests.coordinator_state.harness import of_type
from tests.watching.dashboard.consumer_members import START_MS, DrivenMember, Story, cluster
from tests.watching.dashboard.consumer_scene import CULPRIT, GROUP, scene, values
from tests.watching.dashboard.values_source import ValuesSource

if TYPE_CHECKING:
    from playwright.sync_api import Page

SETTINGS = HealthSettings()
IDS = {name: f"{name:x>22}" for name in "abcdefghijkl"}


def member(name: str, *topics: str, **fields: object) -> DrivenMember:
    fields = {"topics": topics or ("orders",), **fields}
    return DrivenMember(member_id=IDS[name], client_id=f"orders-{name}", **fields)  # type: ignore[arg-type]


def facts_of(story: Story) -> GroupFacts:
    facts = GroupFacts(story.group.group_id)
    records: list[History] = of_type(story.group.outputs, HistoryRecord)  # type: ignore[arg-type]
    for record in records:
        facts.add(record)
    return facts


def verdict_of(story: Story) -> Verdict:
    return verdict(facts_of(story), None, story.now_ms, SETTINGS)


def held_up() -> Story:
    """`b` has joined, and `a` has just been told to give up half of its partitions, which it will not."""
    story = Story("orders", cluster(orders=6))
    story.join(member("a", revokes=False))
    story.go_on(10_000)
    story.join(member("b"))
    while not story.members["orders-a"].must_go:
        story.go_on(5_000)
    return story


def test_who_does_not_give_up_is_named_with_what_and_since_when() -> None:
    story = held_up()
    a = story.members["orders-a"]
    story.go_on(40_000)
    facts = facts_of(story)
    (holder,) = facts.holders()
    assert holder.member_id == a.member_id
    assert places(holder.topics) == set(a.must_go)
    assert holder.told_ms == min(a.must_go.values())
    assert holder.waiting == (IDS["b"],)
    calm = verdict_of(story)
    assert calm.kind == "rebalancing"
    assert f"waits for orders-a ({IDS['a'][:8]}) to give up orders" in calm.reason
    story.go_on(30_000)
    judgement = verdict_of(story)
    assert (judgement.kind, judgement.who) == ("stuck", f"orders-a ({IDS['a'][:8]})")
    for_s = (story.now_ms - min(a.must_go.values())) // 1_000
    said = rf"has not given up orders [0-9, -]+ for 1 min {for_s - 60} s; orders-b .* waits for it"
    assert re.search(said, judgement.reason)
    # It says by itself when to look again.
    assert calm.holds_until_ms is not None
    assert verdict(facts, None, calm.holds_until_ms, SETTINGS).kind == "stuck"
    assert verdict(facts, None, calm.holds_until_ms - 1, SETTINGS).kind == "rebalancing"


def test_an_epoch_that_rises_meanwhile_does_not_excuse_it() -> None:
    story = held_up()
    told_ms = min(story.members["orders-a"].must_go.values())
    story.go_on(30_000)
    story.join(member("c"))
    story.go_on(40_000)
    assert facts_of(story).holders()[0].told_ms == told_ms
    assert verdict_of(story).who == f"orders-a ({IDS['a'][:8]})"


def test_all_is_well_when_it_has_given_up() -> None:
    story = held_up()
    story.go_on(80_000)
    a = story.members["orders-a"]
    a.owned -= set(a.must_go)
    story.go_on(20_000)
    assert not a.must_go
    facts = facts_of(story)
    assert facts.holders() == ()
    assert verdict_of(story).reason == "2 members, 6 partitions"


def test_who_is_dropped_for_it_is_gone_from_the_verdict() -> None:
    story = Story("orders", cluster(orders=6))
    story.join(member("a", revokes=False, rebalance_timeout_ms=20_000))
    story.go_on(10_000)
    story.join(member("b"))
    story.go_on(60_000)
    assert set(story.members) == {"orders-b"}
    assert verdict_of(story).kind == "stable"
    assert facts_of(story).holders() == ()


def test_a_coordinator_that_is_away_does_not_drop_it_and_that_is_said() -> None:
    story = held_up()
    a = story.members["orders-a"]
    story.go_on(10_000)
    later_ms = min(a.must_go.values()) + a.rebalance_timeout_ms + SETTINGS.deadline_grace_ms + 1
    assert "beyond its rebalance timeout" in verdict(facts_of(story), None, later_ms, SETTINGS).reason


def test_an_epoch_without_a_target_is_stuck_after_two_intervals() -> None:
    story = Story("orders", cluster(orders=6))
    story.join(member("a"))
    story.go_on(10_000)
    story.join(member("b"))
    story.join(member("c"))  # within the assignment interval
    facts = facts_of(story)
    assert facts.state == "Assigning"
    now_ms = story.now_ms
    assert verdict(facts, None, now_ms + 30_000, SETTINGS).kind == "rebalancing"
    judgement = verdict(facts, None, now_ms + 31_000, SETTINGS)
    assert (judgement.kind, judgement.who) == ("stuck", None)
    assert "epoch 4 has had no target assignment for 31 s" in judgement.reason


def test_who_has_not_heard_of_the_target_is_named_when_it_takes_too_long() -> None:
    story = Story("orders", cluster(orders=6), group_consumer_assignment_interval_ms=0)
    story.join(member("a"))
    story.go_on(10_000)
    story.join(member("b"))
    facts = facts_of(story)
    (holder,) = facts.holders()
    assert (holder.member_id, holder.told_ms) == (IDS["a"], None)
    judgement = verdict(facts, None, story.now_ms + 61_000, SETTINGS)
    assert (judgement.kind, judgement.who) == ("stuck", f"orders-a ({IDS['a'][:8]})")


def test_a_deployment_of_many_members_is_no_storm() -> None:
    story = Story("orders", cluster(orders=24))
    for name in "abcdefghijkl":
        story.join(member(name))
        story.go_on(5_000)
    assert facts_of(story).rebalances >= 12
    assert story.now_ms - START_MS < SETTINGS.window_ms
    story.go_on(30_000)
    assert verdict_of(story).kind == "stable"


def test_a_client_that_comes_and_goes_under_other_ids_flaps() -> None:
    story = Story("orders", cluster(orders=6))
    story.join(member("a"))
    story.go_on(10_000)
    for name in "bcd":
        story.join(DrivenMember(member_id=IDS[name], client_id="restless", topics=("orders",)))
        story.go_on(10_000)
        story.leave("restless")
        story.go_on(10_000)
    judgement = verdict_of(story)
    assert (judgement.kind, judgement.who) == ("flapping", "restless@127.0.0.1")
    assert "left 3 times" in judgement.reason


def test_topics_that_change_again_and_again_are_a_storm() -> None:
    story = Story("orders", cluster(orders=6))
    story.join(member("a"))
    story.go_on(10_000)
    for version in range(2, 13):
        story.group.metadata = cluster(version, orders=6 + version)
        story.go_on(10_000)
    judgement = verdict_of(story)
    assert judgement.kind == "storming"
    assert "because the topics changed" in judgement.reason


# ------------------------------------------------------------------------------------------------------------ the pages


def documents(story: Story) -> Documents:
    index = Index()
    records: list[History] = of_type(story.group.outputs, HistoryRecord)  # type: ignore[arg-type]
    for record in records:
        index.add_record(record, encode_json(record))
    return Documents(index, clock=lambda: story.now_ms)


def test_the_page_tells_target_and_holders_at_any_moment() -> None:
    story = held_up()
    a = story.members["orders-a"]
    told_ms = min(a.must_go.values())
    story.go_on(20_000)
    revoked = sorted(partition for _, partition in a.must_go)
    a.owned -= set(a.must_go)
    story.go_on(20_000)
    page = documents(story).group("orders")
    epochs = page["epochs"]
    assert epochs["now"]["holders"] == []
    before, told = epochs["holders"]
    # Before it has heard of the target, and since it was told, until it has given up.
    assert (before[1], before[2].since_ms) == (told_ms, None)
    assert (told[0], told[2].since_ms, told[2].until_ms) == (told_ms, told_ms, told_ms + a.rebalance_timeout_ms)
    assert told[2].partitions == f"orders {words.ranges(revoked)}"
    assert told[2].waiting == (IDS["b"],)
    assert told_ms + 20_000 < told[1] <= told_ms + 30_000
    assert epochs["now"]["targets"] == {
        each.member_id: f"orders {words.ranges(partition for _, partition in each.owned)}"
        for each in story.members.values()
    }
    assert (page["group"].target_epoch, page["group"].generation) == (3, 3)


def test_target_and_assignment_are_compared_whatever_the_order_of_topics() -> None:
    story = Story("orders", cluster(orders=4, payments=4, zebras=4))
    story.join(member("a", "zebras", "orders", "payments"))
    story.join(member("b", "payments", "orders"))
    story.go_on(40_000)
    now = documents(story).group("orders")["epochs"]["now"]
    assert now["targets"] == {member_id: entry[2] for member_id, entry in now["members"].items()}


def test_a_rebalance_tells_who_holds_it_up_and_whom_the_target_moves() -> None:
    story = held_up()
    a, pages = story.members["orders-a"], documents(story)
    key = pages.group("orders")["rebalances"][-1].key
    told = pages.rebalance("orders", key)
    assert [holder.member_id for holder in told.holders] == [a.member_id]
    to_move = {
        move.partitions: (move.member_id_before, move.member_id_after, move.member_id_target) for move in told.moves
    }
    assert to_move[tuple(sorted(partition for _, partition in a.must_go))] == (a.member_id, a.member_id, IDS["b"])
    story.go_on(330_000)  # until it is dropped
    told = documents(story).rebalance("orders", key)
    assert (told.rebalance.outcome, told.rebalance.dropped) == ("interrupted", (a.member_id,))
    assert [(waited.member_id, waited.fate) for waited in told.waited_for] == [(a.member_id, "dropped")]


def test_offsets_of_an_empty_consumer_group_expire_by_their_commits() -> None:
    """As its coordinator has it: not by when the last member left, as those of a classic group."""
    story = Story("orders", cluster(orders=2))
    a = story.join(member("a"))
    committed_ms = {}
    for partition in (0, 1):
        story.go_on(3_600_000)
        story.group.commit(a.member_id, a.epoch, {("orders", partition): 5})
        committed_ms[partition] = story.now_ms
    story.go_on(3_600_000)
    story.leave("orders-a")
    told = {each.partition: each.expires_ms for each in documents(story).group("orders")["offsets"]}
    assert told == {each: at_ms + SETTINGS.offsets_retention_ms for each, at_ms in committed_ms.items()}
    assert expires_ms(facts_of(story), SETTINGS) == told[0]
    expired = [
        record for record in story.group.sleep(8 * 86_400_000) if isinstance(record, OffsetsExpired)
    ]  # fmt: skip
    for record in expired:
        (change,) = record.offsets
        assert 0 <= record.timestamp_ms - committed_ms[change.partition] - SETTINGS.offsets_retention_ms <= 600_000
    assert len(expired) == 2


def test_migrations_say_when_and_by_whom() -> None:
    (conversion,) = documents(scene()).group(GROUP)["epochs"]["conversions"]
    assert conversion[0] == START_MS + 8_000
    assert conversion[2] == (
        "the group goes over to the consumer protocol, with the ConsumerGroupHeartbeat of client orders-1 (/127.0.0.1)"
    )


def test_the_page_shows_it(page: Page) -> None:
    story = scene()
    culprit = story.members[CULPRIT]
    with start_server(ValuesSource("a story", values())) as server:
        page.goto(f"{server.address}#/groups")
        page.wait_for_selector(".row:has-text('stuck')")
        assert "orders-2 (zP8ZtVkq) has not given up orders 7 for" in page.locator(".row .health small").inner_text()
        page.goto(f"{server.address}#/group/{GROUP}")
        page.wait_for_selector(".targets li")
        holders = page.locator(".holders li").all_inner_texts()
        (told_ms,) = set(culprit.must_go.values())
        assert [" ".join(text.split()) for text in holders] == [
            f"orders-2 (zP8ZtVkq) must give up orders 7 since {words.clock(told_ms)}, for "
            f"{words.duration(story.now_ms - told_ms)}; orders-3 (B0kX7mX1) waits for it (else it is dropped at "
            f"{words.clock(told_ms + culprit.rebalance_timeout_ms)})"
        ]
        rows = page.locator(".targets li").all_inner_texts()
        assert ["classic protocol" in row for row in rows] == [True, False, False, False]
        assert "waits for" in rows[3]
        side = page.locator(".side").inner_text()
        assert "pay.*" in side
        assert "ConsumerGroupHeartbeat of client orders-1" in side
        # In the past, before the classic group was converted, and when all was well.
        page.goto(f"{server.address}#/group/{GROUP}?at={START_MS + 5_000}")
        page.wait_for_selector(".side h2:text('00:00:05.000')")
        assert page.locator(".targets li").count() == 0
        assert page.locator(".side dt").all_inner_texts()[1] == "generation"
        numbers = page.locator("tr[data-key] td:nth-child(2)").all_inner_texts()
        of_classic = [number for number in numbers if number.startswith("gen. ")]
        assert of_classic == numbers[-len(of_classic) :] != numbers, "the oldest ones, of the classic group"
        page.goto(f"{server.address}#/group/{GROUP}?at={START_MS + 60_000}")
        page.wait_for_selector(".side :text('Every member has what the target gives it.')")
        page.goto(f"{server.address}#/group/{GROUP}?tab=members")
        page.wait_for_selector("th:text('Epoch')")
