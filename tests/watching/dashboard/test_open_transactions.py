"""The API and the page say which transactions a group's offsets wait for, against a coordinator that knows it."""

from __future__ import annotations

from group_coordinator.ground.system.disk_store import DiskStore
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.open_transactions import OpenTransaction, OpenTransactions
from group_coordinator.watching.dashboard.settings import DashboardSettings
from schemas.events import encode_json
from schemas.history import HistoryRecord
from tests.coordinator_state.harness import GroupHarness, of_type


def told(group: GroupHarness, index: Index) -> OpenTransactions:
    for record in of_type(group.outputs, HistoryRecord):
        index.add(encode_json(record))
    documents = Documents(index)
    page = documents.group("g")["open_transactions"]
    assert documents.group_now(group="g").open_transactions == page
    return page


def test_they_are_told_until_they_end() -> None:
    group, index = GroupHarness("g"), Index()
    group.stable("A")
    since_ms = group.now_ms
    group.commit_in_transaction(7, {("t", 1): 6, ("u", 0): 5, ("t", 0): 5})
    group.commit("", -1, {("t", 0): 9})
    assert told(group, index) == OpenTransactions(
        oldest=(
            OpenTransaction(
                producer_id=7,
                producer_epoch=0,
                transactional_id="x7",
                since_ms=since_ms,
                topics={"t": (0, 1), "u": (0,)},
                text="Offsets of t-1, u-0 and t-0 wait for transaction x7 of producer 7",
            ),
        ),
        left_out=0,
    )
    group.end_transaction(7, committed=True)
    assert told(group, index) == OpenTransactions(oldest=(), left_out=0)


def test_a_window_that_has_lost_the_records_still_tells_them() -> None:
    group, index = GroupHarness("g"), Index(DashboardSettings(bytes_per_group_max=20_000))
    group.commit_in_transaction(7, {("t", 0): 5})
    for number in range(1_000):
        group.commit_in_transaction(8, {("t", 1): number})
        group.end_transaction(8, committed=False)
    assert [each.producer_id for each in told(group, index).oldest] == [7]
    records = index.group_records("g")
    assert records is not None
    assert records.dropped > 0


def test_they_are_told_of_a_group_that_was_on_disk() -> None:
    index = Index(DashboardSettings(groups_max_bytes=1), DiskStore())
    waiting, other = GroupHarness("g"), GroupHarness("other")
    waiting.commit_in_transaction(7, {("t", 0): 5})
    told(waiting, index)
    other.stable("A")
    for record in of_type(other.outputs, HistoryRecord):
        index.add(encode_json(record))
    assert index.on_disk().total() == 1
    assert [each.producer_id for each in told(waiting, index).oldest] == [7]
