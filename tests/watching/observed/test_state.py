"""An observer that goes on after a restart tells what one tells that was never ended."""

from __future__ import annotations

from io import BytesIO
from random import Random

import msgspec
import pytest

from group_coordinator.watching.broker_logs import broker_lines
from group_coordinator.watching.observed.evidence import ALL, Bounds
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.state import StateError, encode_state, restore_state
from tests.watching.observed.commits import commit
from tests.watching.observed.pieces import add, mixed, pieces

BOUNDS = {
    "all": ALL,
    "points": Bounds(commits_max=1_000_000),
    "tight": Bounds(commits_max=20, records_per_group=9, lines_per_group=11),
}

NAMES_RESTARTED = ["three-brokers", "failover-3.7", "transactions", "consumer-protocol", "migration", "share-streams"]


@pytest.mark.parametrize("bounds", BOUNDS.values(), ids=BOUNDS)
@pytest.mark.parametrize("name", NAMES_RESTARTED)
def test_restarts_in_the_midst(name: str, bounds: Bounds) -> None:
    random = Random(name)
    undisturbed, observer = Observer(bounds=bounds), Observer(bounds=bounds)
    for piece in pieces(mixed(name, random), random):
        add(undisturbed, piece)
        add(observer, piece)
        if random.random() < 0.3:
            list(observer.take())
        if random.random() < 0.2:
            data = b"".join(encode_state(observer, "c"))
            observer = Observer(bounds=bounds)
            restore_state(observer, BytesIO(data), "c")
    assert list(observer.whole()) == list(undisturbed.whole())
    assert observer.open_transactions() == undisturbed.open_transactions()
    assert observer.next_offsets() == undisturbed.next_offsets()


def test_what_is_no_state_is_refused() -> None:
    observer = Observer()
    observer.add_records([commit(0, 5)])
    data = b"".join(encode_state(observer, "c"))
    with pytest.raises(StateError, match="of cluster c"):
        restore_state(Observer(), BytesIO(data), "another")
    for damaged in (data[:-3], data[:3], b""):
        knows_nothing = Observer()
        with pytest.raises(StateError, match="damaged"):
            restore_state(knows_nothing, BytesIO(damaged), "c")
        assert len(knows_nothing) == 0
    head = msgspec.msgpack.encode({"format": 7})
    for other in (head, len(head).to_bytes(4) + head):  # format 1 had no length before it
        with pytest.raises(StateError, match="format 7"):
            restore_state(Observer(), BytesIO(other), "c")


def test_every_line_can_be_kept() -> None:
    kinds = set(broker_lines.OfGroup.__subclasses__())
    assert kinds == set(broker_lines.LineEvent.__args__)
