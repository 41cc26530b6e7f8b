"""An index that is kept up to date knows what one that was told all at once knows."""

from __future__ import annotations

from random import Random

import pytest

from group_coordinator.dashboard.index import Index
from group_coordinator.observed.evidence import ALL, BOUNDED, Bounds
from group_coordinator.observed.observer import Observer
from group_coordinator.watch.index_updater import IndexUpdater
from schemas.events import encode_json
from tests.observed.pieces import add, mixed, pieces
from tests.observed.recorded import entries

NOW_MS = 1_795_371_200_000


@pytest.mark.parametrize("bounds", [ALL, BOUNDED], ids=["all", "bounded"])
@pytest.mark.parametrize("name", ["three-brokers", "transactions", "migration"])
def test_told_in_pieces(name: str, bounds: Bounds) -> None:
    random = Random(name)
    observer, index = Observer(bounds=bounds), Index()
    updater = IndexUpdater(index)
    for piece in pieces(mixed(name, random), random):
        add(observer, piece)
        if random.random() < 0.3:
            updater.apply(observer.take())
    updater.apply(observer.take())
    if bounds is ALL:
        whole = Index()
        for record in observer.whole():
            whole.add_record(record, encode_json(record))
        assert index.rows(NOW_MS) == whole.rows(NOW_MS)
        for group_id in index.group_ids():
            updated, expected = index.kept(group_id), whole.kept(group_id)
            assert updated is not None
            assert expected is not None
            assert (updated.life, updated.commits) == (expected.life, expected.commits)
        assert index.kept_bytes == whole.kept_bytes


def test_what_goes_on_is_added() -> None:
    """A group that is followed anew and tells the same, and more, is not replaced: its feed has each record once."""
    name = "old-3.9"
    observer, index = Observer(bounds=ALL), Index()
    updater = IndexUpdater(index)
    for entry in entries(name):
        observer.add_records([entry])
        updater.apply(observer.take())
    whole = list(observer.whole())
    assert len(list(index.feed())) == index.records
    assert index.records <= len(whole) + 5  # a line or a record may change what was told; here hardly any does
