"""Which transactions a group's offsets wait for, against a coordinator that knows what is pending."""

from __future__ import annotations

from typing import cast

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from group_coordinator.watching.narrative.sentences import sentence
from group_coordinator.watching.narrative.transactions import waits
from schemas.history import History, HistoryRecord
from schemas.transaction_history import TransactionalOffsetsPending
from tests.coordinator_state.harness import GroupHarness, of_type


def told(group: GroupHarness) -> list[str]:
    history = cast("list[History]", of_type(group.outputs, HistoryRecord))
    return [line.split(" since ")[0] for line in waits(history)]


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
    assert group.group is not None
    assert not group.group.offsets.has_pending


def test_offsets_that_are_replaced_or_deleted_are_not_said_to_wait() -> None:
    """The end of their transaction would leave no trace."""
    group = GroupHarness("g")
    group.commit_in_transaction(7, {("t", 0): 5, ("t", 1): 5})
    group.commit("", -1, {("t", 0): 9})
    assert [line.split(" wait ")[0] for line in told(group)] == ["Offsets of t-1"]
    group.delete_offsets(("t", 1))
    assert told(group) == []
