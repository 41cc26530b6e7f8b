"""A command that looks once at the brokers' groups keeps what finds no room in memory on disk, and tells the same."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from datetime import UTC
from types import SimpleNamespace
from typing import Any

import pytest

from group_coordinator.watching.commands import one_look
from group_coordinator.watching.observed.offsets_log import raw_line
from group_coordinator.watching.watch import offsets_topic
from schemas.kafka.record_batches import RawRecord
from tests.watching.observed.recorded import CLUSTERS

DUMP = gzip.decompress((CLUSTERS / "three-brokers.offsets.jsonl.gz").read_bytes())
RECORDS = [raw_line(line) for line in DUMP.splitlines()]


class Reader:
    """A topic that has the records of a dump."""

    def __init__(self, _: Mapping[str, str]) -> None: ...
    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None: ...

    def bounds(self) -> dict[int, tuple[int, int]]:
        last = {number: record.offset + 1 for number, record in RECORDS}
        return {number: (0, last.get(number, 0)) for number in range(50)}

    def read(self, bounds: Mapping[int, tuple[int, int]]) -> Iterator[tuple[int, RawRecord]]:
        return ((number, record) for number, record in RECORDS if number in bounds)


@pytest.fixture(autouse=True)
def cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = SimpleNamespace(cluster_id=None)
    admin = SimpleNamespace(list_topics=lambda **_: metadata)
    monkeypatch.setattr(offsets_topic, "OffsetsTopicReader", Reader)
    monkeypatch.setattr(one_look, "new_admin_client", lambda _: admin)
    for name in ("topic_names", "broker_values"):
        monkeypatch.setattr(one_look, name, lambda *_: {})


def read(**options: Any) -> one_look.BrokersGroups:
    return one_look.read_brokers_groups({"bootstrap.servers": "none:1"}, (), UTC, **options)


def test_what_finds_no_room_lies_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read()
    assert whole.observer.on_disk == 0
    monkeypatch.setattr(one_look, "_MEMORY_BYTES", 10_000)
    bounded = read()
    assert bounded.observer.on_disk > 0
    assert list(bounded.history()) == list(whole.history()) != []
    assert bounded.source == f"__consumer_offsets ({len(RECORDS)} records)"


def test_of_one_group_its_partition_is_read() -> None:
    whole = read()
    for group_id in whole.observer.group_ids():
        alone = read(group_id=group_id)
        assert group_id in alone.observer.group_ids()
        assert list(alone.history(group_id)) == list(whole.history(group_id))
        assert alone.settings == {}
