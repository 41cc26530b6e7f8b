"""An index that is kept up to date knows what one that was told all at once knows."""

from __future__ import annotations

from random import Random

import pytest

from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.observed.evidence import ALL, BOUNDED, Bounds
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.polled import Polls
from group_coordinator.watching.watch.index_updater import IndexUpdater
from schemas.events import encode_json
from tests.watching.observed.pieces import add, mixed, pieces
from tests.watching.observed.polls import polled_group, recorded_polls
from tests.watching.observed.recorded import entries

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
        at_once = Index()
        for record in observer.whole():
            at_once.add_record(record, encode_json(record))
        assert index.rows(NOW_MS) == at_once.rows(NOW_MS)
        for group_id in index.group_ids():
            updated, expected = index.group_records(group_id), at_once.group_records(group_id)
            assert updated is not None
            assert expected is not None
            assert (updated.life, updated.commits) == (expected.life, expected.commits)
        assert index.kept_bytes == at_once.kept_bytes


def test_what_goes_on_is_added() -> None:
    """A group that is followed anew and tells the same, and more, is not replaced: its feed has each record once."""
    name = "old-3.9"
    observer, index = Observer(bounds=ALL), Index()
    updater = IndexUpdater(index)
    for entry in entries(name):
        observer.add_records([entry])
        updater.apply(observer.take())
    all_records = list(observer.whole())
    assert len(list(index.feed())) == index.records
    assert index.records <= len(all_records) + 5  # a line or a record may change what was told; here hardly any does


def test_what_another_told_of_a_group_is_replaced() -> None:
    """Polls count generations themselves. The topic, once it can be read, has Kafka's."""
    name = "old-3.9"
    index, polls, expected = Index(), Polls(), Index()
    polled = IndexUpdater(index, "prod")
    for poll in recorded_polls(name):
        polled.apply(polls.take(poll["at_ms"], [polled_group(group) for group in poll["groups"]]))
    before = index.group_ids("prod")
    assert before
    versions = {group_id: version(index, group_id) for group_id in before}
    for told in (index, expected):
        observer, updater = Observer(bounds=ALL), IndexUpdater(told, "prod")
        observer.add_records(entries(name))
        updater.apply(observer.take())
    for group_id in expected.group_ids("prod"):
        told_records, expected_records = index.group_records(group_id), expected.group_records(group_id)
        assert told_records is not None
        assert expected_records is not None
        assert (told_records.life, told_records.commits) == (expected_records.life, expected_records.commits)
    assert all(version(index, group_id) > of_polls for group_id, of_polls in versions.items())


def version(index: Index, group_id: str) -> int:
    facts = index.facts(group_id)
    assert facts is not None
    return facts.version
