"""A watcher's metrics have the names that the coordinator's own groups have."""

from __future__ import annotations

import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from datetime import UTC
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.ground.monitoring.metrics import METRICS
from group_coordinator.ground.monitoring.server import operations_server
from group_coordinator.watching.commands.observed_source import observed_source
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.sources import EndedSource
from group_coordinator.watching.dashboard.watched import Watched, WatchedSource
from group_coordinator.watching.watch.conditions import Condition, Conditions
from group_coordinator.watching.watch.lag_metrics import LagSeries
from group_coordinator.watching.watch.metrics import WatchedGroups, WatchProbes, watch_metrics
from group_coordinator.watching.watch.writing import GroupHistory
from schemas.events import encode_json
from schemas.history import History, RebalanceStarted
from tests.watching.observed.recorded import CLUSTERS


class Recorded(EndedSource):
    name = "recorded"
    caught_up = is_whole = False
    changes = 0

    def start(self, index: Index) -> None:
        """Start nothing: nothing is fed here."""

    def conditions(self) -> Conditions:
        return {"": Condition(state="watched" if self.caught_up else "being_read")}

    def histories(self) -> Iterator[GroupHistory]:
        return iter(())

    def progress(self) -> dict[str, Any]:
        return {"caught_up": self.caught_up, "detail": "is being read"}


@pytest.fixture(scope="module")
def history() -> tuple[History, ...]:
    logs = sorted(str(path) for path in CLUSTERS.glob("three-brokers.*server.log.gz"))
    return observed_source([CLUSTERS / "three-brokers.offsets.jsonl.gz"], logs, None, UTC, UTC).history


def later(record: History, by_ms: int) -> History:
    """Return the record as if it had happened so much later."""
    return msgspec.structs.replace(record, timestamp_ms=record.timestamp_ms + by_ms)


def samples(url: str) -> Iterator[tuple[str, dict[str, str], float]]:
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        for family in text_string_to_metric_families(answer.read().decode()):
            for sample in family.samples:
                yield sample.name, sample.labels, sample.value


def test_what_has_been_is_not_counted_and_what_comes_is(history: tuple[History, ...]) -> None:
    index, source = Index(), Recorded()
    index.watched = (
        Watched(cluster="c", sources=(WatchedSource(kind="broker_log", name="log of broker 1", to_ms=1_000),)),
    )
    for record in history:
        index.add_record(record, encode_json(record))
    moved = time.time_ns() // 1_000_000 + 60_000 - history[0].timestamp_ms
    metrics = watch_metrics(source, index, LagSeries(groups_max=20))
    with operations_server("127.0.0.1", 0, metrics.registry, WatchProbes(source)) as server:
        values = {(name, *labels.values()): value for name, labels, value in samples(server.url)}
        assert values["group_coordinator_ready",] == 0
        assert values["group_coordinator_groups", "Stable", "classic"] == 10
        assert values["group_coordinator_members", "classic"] == 19
        assert values["group_coordinator_rebalances_total", "member_expired"] == 0
        assert values["group_coordinator_watched_source_age_seconds", "log of broker 1"] > 1_000_000
        source.caught_up = True
        groups: dict[str, list[tuple[History, bytes]]] = {}
        for record in history:
            new = later(record, moved)
            groups.setdefault(record.group_id, []).append((new, encode_json(new)))
        for group_id, records in groups.items():
            index.replace_group(group_id, records)
        values = {(name, *labels.values()): value for name, labels, value in samples(server.url)}
    assert values["group_coordinator_ready",] == 1
    assert values["group_coordinator_watched_clusters", "watched"] == 1
    assert values["group_coordinator_watched_clusters", "failed"] == 0
    triggers = Counter(record.trigger for record in history if isinstance(record, RebalanceStarted))
    assert triggers["member_expired"] > 0
    for trigger, number in triggers.items():
        assert values["group_coordinator_rebalances_total", trigger] == number
    assert values["group_coordinator_group_rebalances_recently", "", "search"] == 4
    assert values["group_coordinator_group_expiries_recently", "", "mixed"] == 1
    names = {name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count") for name, *_ in values}
    own_names = {name for name in names if name.startswith("group_coordinator_") and not name.endswith("_created")}
    assert own_names <= {metric.name for metric in METRICS}


def test_how_long_a_group_is_in_its_rebalance(history: tuple[History, ...]) -> None:
    index = Index()
    starts = [record for record in history if record.group_id == "mixed" and isinstance(record, RebalanceStarted)]
    started = starts[-1]
    for record in history:
        if record.group_id == "mixed" and record.seq <= started.seq:
            index.add_record(record, encode_json(record))
    groups = WatchedGroups(index, LagSeries(groups_max=5), lambda: started.timestamp_ms + 400_000)
    values = {(value.metric.name, *value.labels): value.value for value in groups.values()}
    assert values["group_coordinator_group_rebalancing_seconds", "", "mixed", "PreparingRebalance"] == 400
