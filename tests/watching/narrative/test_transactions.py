"""Which transactions a group's offsets wait for, against a coordinator that knows what is pending."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from group_coordinator.watching.history.current_group import CurrentGroup
from group_coordinator.watching.narrative.sentences import sentence
from group_coordinator.watching.narrative.transactions import SHOWN_MAX, waits
from schemas.history import History, HistoryRecord
from schemas.transaction_history import TransactionalOffsetsPending, TransactionalOffsetsReplaced
from tests.coordinator_state.harness import GroupHarness, of_type


def told(group: GroupHarness) -> list[str]:
    view = CurrentGroup()
    for record in cast("list[History]", of_type(group.outputs, HistoryRecord)):
        view.add(record)
    if group.group is not None:
        pending = group.group.offsets.pending
        waiting = {each for of in pending.values() for by_producer in of.values() for each in by_producer}
        assert view.transactions.keys() == waiting, "the coordinator knows of these"
    return [line.split(" since ")[0] for line in waits(view)]


def test_the_transaction_is_named_in_the_sentence_of_the_record() -> None:
    group = GroupHarness("g")
    (record,) = of_type(group.commit_in_transaction(7, {("t", 0): 5}), TransactionalOffsetsPending)
    named = replace(record, transactional_id="billing-1")
    assert sentence(named) == "producer 7 writes t-0 at 5 in transaction billing-1, which is still open"
    of_a_watched_cluster = replace(record, transactional_id=UNSET)
    assert sentence(of_a_watched_cluster) == "producer 7 writes t-0 at 5 in a transaction that is still open"


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_wait_until_their_transaction_ends(committed: bool) -> None:
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5, ("t", 1): 6})
    group.commit_in_transaction(8, {("u", 0): 9})
    first = "Offsets of t-0 and t-1 wait for transaction x7 of producer 7"
    second = "Offsets of u-0 wait for transaction x8 of producer 8"
    assert told(group) == [first, second]
    group.end_transaction(7, committed=committed)
    assert told(group) == [second]
    group.end_transaction(8, committed=committed)
    assert told(group) == []


@pytest.mark.parametrize("committed", [True, False])
def test_offsets_that_later_commits_have_replaced_wait_as_before(committed: bool) -> None:
    """Who wants stable ones is refused until the transaction ends: a tool that sets offsets does not help."""
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5, ("t", 1): 5})
    sentences = ["Offsets of t-0 and t-1 wait for transaction x7 of producer 7"]
    for partition in (0, 1):
        group.commit("", -1, {("t", partition): 9})
        assert told(group) == sentences
    ended = group.end_transaction(7, committed=committed)
    assert told(group) == []
    replaced = of_type(ended, TransactionalOffsetsReplaced)
    assert [sentence(record) for record in replaced] == (
        ["the transaction of producer 7 is committed: later commits had replaced t-0 at 5 and t-1 at 5"]
        if committed
        else []
    )


def test_offsets_that_are_deleted_wait_no_more() -> None:
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5, ("t", 1): 5})
    group.delete_offsets(("t", 1))
    assert told(group) == ["Offsets of t-0 wait for transaction x7 of producer 7"]
    group.delete_offsets(("t", 0))
    assert told(group) == []


def test_offsets_of_a_group_that_had_no_members_wait_when_some_come() -> None:
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5})
    group.stable("A")
    assert told(group) == ["Offsets of t-0 wait for transaction x7 of producer 7"]


def test_of_very_many_transactions_the_oldest_are_told() -> None:
    group = GroupHarness("g")
    for producer_id in range(SHOWN_MAX + 3):
        group.commit_in_transaction(producer_id, {("t", 0): 5})
    sentences = told(group)
    assert len(sentences) == SHOWN_MAX + 1
    assert sentences[-1] == "They wait for 3 transactions more."
