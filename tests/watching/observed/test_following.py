"""A group that is followed from where nothing has changed tells what one tells that is followed from its beginning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import islice
from random import Random

import pytest
from msgspec.structs import replace

from benchmarks.watch_growth import ChurningGroup
from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, JoinPhaseEnded, MemberIdGiven
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed import following, observer
from group_coordinator.watching.observed.evidence import ALL, BOUNDED, Bounds
from group_coordinator.watching.observed.observer import GroupUpdate, Observer
from group_coordinator.watching.observed.offsets_log import LogRecord
from group_coordinator.watching.observed.state import encode_state, restore_state
from group_coordinator.watching.watch.index_updater import IndexUpdater
from schemas.events import encode_json
from schemas.history import History
from tests.watching.observed.pieces import Piece, add, mixed, pieces
from tests.watching.observed.recorded import entries, lines

NOW_MS = 1_795_371_200_000
NAMES = [
    "connect", "consumer-protocol", "migration", "migration-refused", "old-2.8", "old-3.9", "share-streams",
    "three-brokers", "transactions",
]  # fmt: skip
BOUNDS = {
    "all": ALL,
    "points": Bounds(commits_max=1_000_000),
    "tight": Bounds(commits_max=20, records_per_group=20, lines_per_group=30),
}


class Checked:
    """Somebody who takes what is new, and compares it each time with what the whole evidence tells."""

    def __init__(self) -> None:
        self.known: dict[str, list[History]] = {}
        self.resumed = 0
        """How many updates did not begin at the beginning."""

    def take(self, updates: Iterable[GroupUpdate]) -> None:
        for update in updates:
            known = self.known.setdefault(update.group_id, [])
            if update.unchanged is None:
                known += update.history
                continue
            assert update.unchanged <= len(known)
            known[update.unchanged :] = update.history
            self.resumed += update.unchanged > 0
            assert update.all_history is not None
            assert known == update.all_history()


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """States are kept of groups of any size, close to each other and to the end."""
    monkeypatch.setattr(observer, "FEWEST", 0)
    monkeypatch.setattr(following, "_TAIL", 3)
    monkeypatch.setattr(following, "_APART", 2)


def in_time(name: str) -> Iterator[Piece]:
    """Yield records and lines by their times, as a watcher reads them."""
    evidence: list[tuple[int, Piece]] = [(line.time_ms, line) for line in lines(name)]
    evidence += [(entry.timestamp_ms, entry) for entry in entries(name)]
    return (piece for _, piece in sorted(evidence, key=lambda timed: timed[0]))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("name", NAMES)
def test_recordings_as_they_grow(name: str, bounds: Bounds) -> None:
    watched, checked = Observer(bounds=bounds), Checked()
    random = Random(name)
    growing = in_time(name)
    while piece := list(islice(growing, random.randrange(1, 40))):
        # A log is read a little later than the topic, and its lines come in any order.
        random.shuffle(piece)
        piece.sort(key=lambda each: isinstance(each, BrokerLine) or each.offset)
        add(watched, [each for each in piece if not isinstance(each, BrokerLine)])
        add(watched, [each for each in piece if isinstance(each, BrokerLine)])
        checked.take(watched.take())
    assert checked.resumed > 10 or bounds is not ALL


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", ["consumer-protocol", "migration", "old-2.8", "three-brokers"])
def test_recordings_in_any_order(name: str) -> None:
    watched, checked, random = Observer(bounds=ALL), Checked(), Random(name)
    for piece in pieces(mixed(name, random), random):
        add(watched, piece)
        if random.random() < 0.3:
            checked.take(watched.take())


Change = tuple[Sequence[BrokerLine], LogRecord]


def disordered(changes: Sequence[Change], random: Random) -> Iterator[Sequence[Piece]]:
    """Yield the evidence of these changes: lines come late, some of them very late, and some twice."""
    late: list[BrokerLine] = []
    for lines_of_change, record in changes:
        late += lines_of_change
        now = [line for line in late if random.random() < 0.8]
        late = [line for line in late if line not in now]
        again = random.sample(now, min(len(now), random.choice([0, 0, 1])))
        yield [record, *random.sample(now, len(now)), *again] if random.random() < 0.5 else [*now, record]
    yield late


@pytest.mark.parametrize("seed", range(3))
def test_a_group_that_churns(seed: int) -> None:
    """As for hours: the oldest records and lines are dropped, and the watcher is started anew in the midst."""
    random, group = Random(seed), ChurningGroup(1)
    bounds = Bounds(commits_max=100, records_per_group=40, lines_per_group=110)
    changes = [group.rebalance() for _ in range(250)]
    watched, undisturbed, checked, resumed = Observer(bounds=bounds), Observer(bounds=bounds), Checked(), 0
    index = Index()
    updater = IndexUpdater(index)
    for piece in disordered(changes, random):
        add(watched, piece)
        add(undisturbed, piece)
        updates = list(watched.take())
        checked.take(updates)
        updater.apply(updates)
        if random.random() < 0.02:
            data = b"".join(encode_state(watched, "c"))
            resumed += checked.resumed
            watched, checked = Observer(bounds=bounds), Checked()
            restore_state(watched, BytesIO(data), "c")
    assert resumed + checked.resumed > 0
    at_once = Observer(bounds=bounds)
    at_once.add_records(record for _, record in changes)
    at_once.add_lines(line for lines_of_change, _ in changes for line in lines_of_change)
    whole = list(at_once.whole())
    assert list(watched.whole()) == list(undisturbed.whole()) == whole
    expected = Index()
    for record in whole:
        expected.add_record(record, encode_json(record))
    assert index.rows(NOW_MS) == expected.rows(NOW_MS)
    ours, theirs = index.group_records(group.group_id), expected.group_records(group.group_id)
    assert ours is not None
    assert theirs is not None
    assert (ours.life, ours.commits) == (theirs.life, theirs.commits)


@pytest.mark.usefixtures("always")
def test_a_record_that_comes_long_after_its_line() -> None:
    """The end of a join phase is told by its line, and who was in it by the record: what was told before changes."""
    group, watched, checked = ChurningGroup(1), Observer(bounds=ALL), Checked()
    for _ in range(2):
        before_lines, before = group.rebalance()
        watched.add_lines(before_lines)
        watched.add_records([before])
    lines_of_change, record = group.rebalance()
    later = lines_of_change[-1].time_ms + 1
    given = [
        BrokerLine(
            time_ms=later + number,
            broker=1,
            partition=1,
            file="server.log",
            number=5_000_000 + number,
            event=MemberIdGiven(group_id=group.group_id, member_id=f"given-{number}"),
        )
        for number in range(20)
    ]
    watched.add_lines(line for line in lines_of_change if isinstance(line.event, JoinPhaseEnded))
    for line in given:
        watched.add_lines([line])
        checked.take(watched.take())
    told = list(checked.known[group.group_id])
    watched.add_records([replace(record, timestamp_ms=later + 100)])
    checked.take(watched.take())
    assert checked.known[group.group_id][: len(told)] != told


def test_most_changes_of_a_group_that_churns_touch_its_end_alone() -> None:
    group, watched = ChurningGroup(1), Observer(bounds=BOUNDED)
    wholly = 0
    for number in range(900):
        change = group.rebalance()
        watched.add_lines(change[0])
        watched.add_records([change[1]])
        if number < 600:
            continue
        (update,) = watched.take()
        assert update.unchanged is not None
        if number > 600:
            wholly += update.unchanged == 0
    assert wholly < 30
