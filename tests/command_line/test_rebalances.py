"""Rebalances put together from history: headline, explanation, summary."""

from __future__ import annotations

from typing import cast

from msgspec.structs import replace

from group_coordinator.watching.commands.explanation import explanation
from group_coordinator.watching.commands.summary import Summary
from group_coordinator.watching.narrative.rebalances import headline, rebalances
from schemas.history import History, HistoryRecord, RebalanceCompleted
from tests.command_line.histories import crash, everything, interrupted, long_wait
from tests.coordinator_state.consumer.harness import FOO, ConsumerHarness, owned
from tests.coordinator_state.harness import of_type
from tests.watching.tables.example_history import example_history


def test_a_rebalance_in_one_line() -> None:
    *_, last = rebalances(crash())
    assert headline(last) == (
        "00:00:10 payments: generation 3 because b expired (last heard 10 s ago); waited 2 s for a-6f1b2c3d; done "
        "after 2.1 s"
    )


def test_who_was_waited_for_in_vain_is_named() -> None:
    *_, last = rebalances(long_wait())
    assert headline(last) == (
        "00:00:00 payments: generation 3 because d joined; waited 10 s for a-6f1b2c3d and b, until b expired; done "
        "after 10 s"
    )
    assert "b           never  never: expired after 10 s" in list(explanation(last))


def test_what_is_written_twice_is_told_once() -> None:
    records = crash()
    twice = [*records[:25], *records[10:]]
    assert [headline(rebalance) for rebalance in rebalances(twice)] == [
        headline(rebalance) for rebalance in rebalances(records)
    ]


def test_an_interrupted_rebalance_and_the_one_that_interrupts_it() -> None:
    *_, first, second = rebalances(interrupted())
    assert "interrupted after" in headline(first)
    assert first.generation_id == 3
    assert second.generation_id == 4
    assert second.started.interrupts == first.started.seq
    assert any("the rebalance before this one is interrupted" in line for line in explanation(second))


def test_the_chain_of_a_crash() -> None:
    *_, last = rebalances(crash())
    lines = list(explanation(last))
    assert lines[0] == "Group payments, rebalance to generation 3, 2026-01-01 00:00:10 (UTC)"
    assert lines[1] == "Why: b expired (last heard 10 s ago)."
    steps = [line.split("  ")[-2 if line.endswith("]") else -1].strip() for line in lines[4:13]]
    assert steps == [
        "b is heard for the last time",
        "b (/127.0.0.1) expires: last heard 10 s ago, its time was 10 s",
        "a rebalance starts, because b expired (last heard 10 s ago); it waits for a-6f1b2c3d, until 00:01:10 at the "
        "latest",
        "a-6f1b2c3d learns of it",
        "a-6f1b2c3d rejoins",
        "assignor range is chosen: range 1 vote",
        "generation 3 begins with 1 member, after 2 s; waited for a-6f1b2c3d",
        "leader a-6f1b2c3d sends the assignment",
        "the rebalance to generation 3 is done after 2.1 s",
    ]
    text = "\n".join(lines)
    assert "a-6f1b2c3d  after 500 ms  after 2 s  1.5 s" in text
    assert "t      1           b             a-6f1b2c3d   moved" in text
    assert "1 of 2 partitions changed owner." in text
    assert "a-6f1b2c3d-0000-4000-8000-00000000000a" in text


def test_every_rebalance_of_every_kind_can_be_explained() -> None:
    by_group: dict[str, list[History]] = {}
    for record in everything():
        by_group.setdefault(record.group_id, []).append(record)
    count = 0
    for records in by_group.values():
        for rebalance in rebalances(records):
            lines = list(explanation(rebalance))
            assert lines[1].startswith("Why: ")
            assert "None" not in "\n".join(lines)
            count += 1
    assert count == sum(isinstance(record, RebalanceCompleted) for record in everything())


def test_a_group_that_dies_and_comes_again_starts_anew() -> None:
    records = crash()
    again = [replace(record, epoch=record.epoch + 1_000) for record in records]
    all_rebalances = list(rebalances([*records, *again]))
    assert [rebalance.generation_id for rebalance in all_rebalances] == [1, 2, 3, 1, 2, 3]
    assert all_rebalances[3].owned_before == {}


def test_the_summary() -> None:
    summary = Summary()
    for record in [*everything(), *crash()]:  # the crash is in both: at-least-once
        summary.add(record)
    assert summary.groups["payments"].went["expired"] == 1
    assert summary.groups["payments"].rebalances == {"member_joined": 2, "member_expired": 1}
    assert summary.groups["many"].state == "Empty"
    assert summary.groups["slow"].state == "Dead"
    assert summary.groups["slow"].went["dropped"] == 1
    lines = list(summary.lines())
    text = "\n".join(lines)
    assert lines[0].split() == [
        "GROUP", "STATE", "GENERATION/EPOCH", "REBALANCES", "REBALANCING", "JOINED", "LEFT", "EXPIRED", "DROPPED",
        "COMMITS", "REFUSED",
    ]  # fmt: skip
    assert "Members that went" in text
    assert "00:00:10 payments: b (/127.0.0.1) expires: last heard 10 s ago, its time was 10 s" in text
    slowest = lines[lines.index("Slowest rebalances") + 1]
    assert slowest.split()[:2] == ["10", "s"]


def test_a_group_of_the_summary_is_explained_as_its_history_is() -> None:
    group = ConsumerHarness("g")
    group.joins("a", "foo")
    group.sleep(1_000)
    group.joins("b", "foo")
    group.sleep(1_000)
    group.beat("a", 2, topic_partitions=owned(FOO, 0, 1, 2, 3))
    group.beat("a", 2, topic_partitions=owned(FOO, 0, 1))
    group.beat("b", 3)
    group.beat("b", -1)
    group.sleep(1_000)
    group.beat("a", 3)
    records = cast("list[History]", of_type(group.outputs, HistoryRecord))
    summary = Summary()
    told = [summary.add(record) for record in records]
    last = next(story.current for story in reversed(told) if story is not None and story.current is not None)
    assert list(explanation(last)) == list(explanation([*rebalances(records)][-1]))
    assert last.owned_after is not None
    assert list(last.owned_after) == ["a"], "who has left owns nothing"


def test_a_group_that_comes_again_is_not_dead() -> None:
    summary = Summary()
    for record in example_history():
        summary.add(record)
    assert summary.groups["forgotten"].state == "Empty"


def test_the_summary_of_nothing() -> None:
    (header,) = Summary().lines()
    assert header.startswith("GROUP")


def test_causes_add_up() -> None:
    summary = Summary()
    for record in everything():
        summary.add(record)
    started = sum(group.rebalances.total() for group in summary.groups.values())
    assert summary.by_cause.total() == started > 5
