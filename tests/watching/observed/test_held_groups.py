"""An observer whose groups lie on disk tells what one tells that has them all in memory."""

from __future__ import annotations

from io import BytesIO
from random import Random

import pytest
from msgspec.structs import replace

from group_coordinator.watching.broker_logs.broker_lines import BrokerLine, MemberIdGiven
from group_coordinator.watching.observed.evidence import ALL, BOUNDED, Bounds
from group_coordinator.watching.observed.held_groups import LATER_MAX
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.state import encode_state, restore_state
from schemas.history import OffsetsCommitted
from tests.watching.observed.commits import commit
from tests.watching.observed.pieces import add, mixed, pieces

BOUNDS = {"all": ALL, "bounded": BOUNDED, "tight": Bounds(commits_max=20, records_per_group=9, lines_per_group=11)}
MEMORY_BYTES = {"one group": 0, "some groups": 60_000}


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("memory_bytes", MEMORY_BYTES.values(), ids=MEMORY_BYTES)
@pytest.mark.parametrize("name", ["three-brokers", "transactions", "consumer-protocol", "migration", "share-streams"])
def test_groups_on_disk(name: str, memory_bytes: int, bounds: Bounds) -> None:
    random = Random(name)
    in_memory, on_disk = Observer(bounds=bounds), Observer(bounds=replace(bounds, memory_bytes=memory_bytes))
    told: dict[str, list[object]] = {}
    for piece in pieces(mixed(name, random), random):
        add(in_memory, piece)
        add(on_disk, piece)
        if random.random() < 0.3:
            list(in_memory.take())
            for update in on_disk.take():
                before = told.get(update.group_id, [])
                kept = before if update.unchanged is None else before[: update.unchanged]
                told[update.group_id] = [*kept, *update.history]
    assert on_disk.on_disk > 0
    assert len(on_disk) == len(in_memory)
    assert on_disk.group_ids() == in_memory.group_ids()
    for group_id in in_memory.group_ids():
        assert on_disk.kept_of(group_id).follow()[1] == in_memory.kept_of(group_id).follow()[1]
    assert list(on_disk.whole()) == list(in_memory.whole())
    restored = Observer(bounds=bounds)
    restore_state(restored, BytesIO(b"".join(encode_state(on_disk, "c"))), "c")
    assert list(restored.whole()) == list(in_memory.whole())


def test_any_number_of_groups() -> None:
    observer = Observer(bounds=replace(BOUNDED, memory_bytes=200_000))
    for number in range(2_000):
        observer.add_records([commit(number, 5, group_id=f"group-{number}")])
        if number % 100 == 99:
            assert len(list(observer.take())) == 100
    assert len(observer) == 2_000
    assert observer.on_disk > 1_900
    observer.add_records([commit(2_000, 6, group_id="group-0")])
    (update,) = observer.take()
    (record,) = update.history  # of commits of one minute the last is kept
    assert isinstance(record, OffsetsCommitted)
    assert record.offsets[0].offset == 6


def test_ids_are_chosen_by_clients_and_count() -> None:
    observer = Observer(bounds=replace(BOUNDED, memory_bytes=3_000_000))
    for number in range(200):
        group_id = f"{number:05d}".ljust(30_000, "g")
        event = MemberIdGiven(group_id=group_id, member_id="m" * 30_000)
        observer.add_records([commit(number, 5, group_id=group_id)])
        observer.add_lines(
            [BrokerLine(time_ms=number, broker=1, partition=None, file="server.log", number=number, event=event)]
        )
        list(observer.take())
    assert len(observer) == 200
    assert len(observer) - observer.on_disk < 3_000_000 / 60_000


def test_commits_do_not_bring_each_group_back() -> None:
    """A group that comes back costs as much as hundreds of commits."""
    observer, groups = Observer(bounds=replace(BOUNDED, memory_bytes=200_000)), 200
    for number in range(groups):
        observer.add_records([commit(number, 5, group_id=f"group-{number}")])
    list(observer.take())
    on_disk, offset = observer.on_disk, groups
    for offset in range(groups, 3 * groups):
        observer.add_records([commit(offset, offset, group_id=f"group-{offset % groups}")])
    assert observer.on_disk >= on_disk
    assert len(list(observer.take())) < groups // 2
    assert observer.on_disk > on_disk - 10
    waiting = f"group-{groups - 100}"
    observer.want([waiting, "nobody"])
    told = {update.group_id: update.history[-1] for update in observer.take()}
    assert len(told) < 10
    record = told[waiting]
    assert isinstance(record, OffsetsCommitted)
    assert record.offsets[0].offset == 3 * groups - 100
    for more in range(1, LATER_MAX + 1):
        observer.add_records([commit(offset + more, more, group_id="group-1")])
    assert "group-1" in {update.group_id for update in observer.take()}
