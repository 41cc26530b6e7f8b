"""What is told in the end follows from the evidence alone, in whatever order and pieces it came."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from random import Random

import pytest

from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.evidence import ALL, Bounds
from group_coordinator.watching.observed.observer import GroupUpdate, Observer
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.rows import Commit
from schemas.history import History, OffsetsCommitted
from tests.watching.observed.commits import commit, marker
from tests.watching.observed.pieces import add, mixed, pieces
from tests.watching.observed.recorded import entries, lines

NAMES = [
    "connect", "consumer-protocol", "migration", "migration-refused", "old-2.8", "old-3.9", "share-streams",
    "three-brokers", "transactions",
]  # fmt: skip


class Teller:
    """What somebody knows who takes what is new, again and again."""

    def __init__(self) -> None:
        self.known: dict[str, list[History]] = {}

    def take(self, updates: Iterable[GroupUpdate]) -> None:
        for update in updates:
            known = self.known.setdefault(update.group_id, [])
            known[len(known) if update.unchanged is None else update.unchanged :] = update.history

    @property
    def history(self) -> list[History]:
        return [record for group_id in sorted(self.known) for record in self.known[group_id]]


BOUNDS = {
    "all": ALL,
    "points": Bounds(commits_max=1_000_000),
    "shares": Bounds(commits_max=20),
    "tight": Bounds(commits_max=1, records_per_group=7, lines_per_group=11),
}


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("name", NAMES)
def test_any_order_and_pieces(name: str, bounds: Bounds) -> None:
    observed = observe(entries(name), lines(name), {}, bounds)
    random = Random(name)
    observer, teller = Observer(bounds=bounds), Teller()
    for piece in pieces(mixed(name, random), random):
        add(observer, piece)
        if random.random() < 0.2:
            teller.take(observer.take())
    teller.take(observer.take())
    if bounds is ALL:
        assert teller.history == observed.history
    assert list(observer.whole()) == observed.history
    assert observer.skews == observed.skews
    assert observer.open_transactions() == observed.open_transactions


def test_what_comes_again_is_passed_over() -> None:
    name = "transactions"
    observer = Observer(bounds=ALL)
    for _ in range(2):
        observer.add_records(entries(name))
        observer.add_lines(lines(name))
    assert list(observer.whole()) == observe(entries(name), lines(name), {}).history
    list(observer.take())
    observer.add_lines(lines(name))
    assert list(observer.take()) == []


@pytest.mark.parametrize("name", NAMES)
def test_points_are_the_last_commits_of_minutes(name: str) -> None:
    """Of each partition and minute the last commit is kept, and where one went back, the ones about it."""
    every = commits(observe(entries(name), lines(name), {}).history)
    points = commits(observe(entries(name), lines(name), {}, Bounds(commits_max=1_000_000)).history)
    last = {minute(row): point(row) for row in every}
    back = {minute(row) for row in every if row.rewind}
    kept = set(map(point, points))
    assert [point(row) for row in points] == [point(row) for row in every if point(row) in kept]
    assert set(last.values()) <= kept
    assert {minute(row) for row in points if point(row) != last[minute(row)]} <= back
    assert {minute(row) for row in points if row.rewind} >= back


def minute(row: Commit) -> tuple[object, ...]:
    return row.group_id, row.topic, row.partition, row.committed_ms // 60_000


def commits(history: Iterable[History]) -> list[Commit]:
    return [row for row in fold(history) if isinstance(row, Commit)]


def point(row: Commit) -> tuple[object, ...]:
    return row.group_id, row.topic, row.partition, row.committed_ms, row.offset


def test_a_commit_after_all_else_is_told_alone() -> None:
    observer = Observer(bounds=ALL)
    observer.add_records([commit(0, 5)])
    (first,) = observer.take()
    observer.add_records([commit(1, 6), commit(2, 7, 42)])
    (second,) = observer.take()
    observer.add_records([marker(3, "COMMIT", 42)])
    (last,) = observer.take()
    assert [update.unchanged for update in (first, second, last)] == [0, None, None]
    committed = [
        record.offsets[0].offset for record in (*second.history, *last.history) if isinstance(record, OffsetsCommitted)
    ]
    assert committed == [6, 7]
    assert [record.seq for record in (*first.history, *second.history, *last.history)] == [1, 2, 3, 4]


def test_commits_take_the_memory_of_their_points() -> None:
    """A thousand commits of one partition within a second are one."""
    observer = Observer()
    for place in range(1_000):
        observer.add_records([commit(place, place)])
        if place % 10 == 0:
            list(observer.take())
    (only,) = observer.whole()
    assert isinstance(only, OffsetsCommitted)
    assert only.offsets[0].offset == 999


def test_groups_that_are_not_taken_wait() -> None:
    """A watcher tells what it can in a short time, and the rest later."""
    observer, teller = Observer(bounds=ALL), Teller()
    observer.add_records(entries("three-brokers"))
    while observer_has_more(observer, teller):
        pass
    assert teller.history == observe(entries("three-brokers"), (), {}).history


def observer_has_more(observer: Observer, teller: Teller) -> bool:
    histories = list(islice(observer.take(), 1))
    teller.take(histories)
    return bool(histories)
