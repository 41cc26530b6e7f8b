"""The fold: each record has a meaning, repetitions and refusals of other partitions change nothing,
lives begin anew."""

from __future__ import annotations

from random import Random
from typing import get_args

from msgspec.structs import replace

from group_coordinator.watching.history.fold import GroupFold, in_order
from group_coordinator.watching.history.meanings import MEANINGS
from schemas.history import History, HistoryRecord, RequestRefused
from tests.watching.tables.example_history import example_history


class Lives(GroupFold):
    """Writes down lives and states."""

    def __init__(self) -> None:
        super().__init__()
        self.entries: list[str] = []

    def life_began(self, record: HistoryRecord) -> None:
        self.entries.append("life")

    def state_entered(self, record: HistoryRecord, state: str) -> None:
        self.entries.append(state)


def lives(records: list[History]) -> list[str]:
    view = Lives()
    for record in records:
        view.add(record)
    return view.entries


def of_group(group_id: str) -> list[History]:
    return [record for record in example_history() if record.group_id == group_id]


def test_each_record_has_a_meaning() -> None:
    assert set(MEANINGS) == set(get_args(History))


def test_states_one_after_the_other() -> None:
    rebalance = ["PreparingRebalance", "CompletingRebalance", "Stable"]
    assert lives(of_group("orders")) == ["life", "Empty", *rebalance * 3]


def test_a_group_that_dies_and_comes_again_begins_another_life() -> None:
    assert lives(of_group("forgotten")) == ["life", "Empty", "Dead", "life", "Empty"]


def test_what_comes_again_changes_nothing() -> None:
    records = of_group("nervous")
    assert (
        lives([*records, *records])
        == lives([copy for record in records for copy in (record, record)])
        == lives(records)
    )


def test_a_refusal_on_another_partition_begins_no_life_and_hides_nothing() -> None:
    """A request that was sent to the wrong partition is refused there, under a larger epoch than the group's own."""
    records = of_group("orders")
    refused = next(record for record in example_history() if isinstance(record, RequestRefused))
    cause = replace(refused.cause, partition=refused.cause.partition + 1)
    stray = replace(refused, group_id="orders", epoch=10**9, cause=cause)
    assert lives([*records[:5], stray, *records[5:]]) == lives(records)


def test_the_fold_is_a_function_of_the_set_of_records() -> None:
    shuffled = [*example_history(), *example_history()]
    Random(3).shuffle(shuffled)
    for group_id in {record.group_id for record in example_history()}:
        ordered = [record for record in in_order(shuffled) if record.group_id == group_id]
        assert lives(ordered) == lives(of_group(group_id))
