"""Lag as gauges, of a recorded cluster: the offsets are those that its admin client was told, under every name."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.ground.kafka_topics.bounds import Bounds
from group_coordinator.ground.monitoring.metrics import Metric
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.ground.settings.loading import ConfigError
from group_coordinator.watching.commands.watch_settings import WatchSettings
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.history.view import RemovedOffsets
from group_coordinator.watching.watch.foreign_names import METRICS_OF, NAMES
from group_coordinator.watching.watch.lag_metrics import LagSeries, lag_series, lag_values
from schemas.events import encode_json
from schemas.history import OffsetsCommitted
from tests.watching.observed.recorded import observed, polls

RECORDING = "lifecycle-3.4"
BEHIND = 7
"""So many messages the group that is furthest in a partition is behind."""
LATER_MS = 1_000

KMINION = {
    "kminion_kafka_consumer_group_info": {"coordinator_id", "group_id", "protocol", "protocol_type", "state"},
    "kminion_kafka_consumer_group_members": {"group_id"},
    "kminion_kafka_consumer_group_empty_members": {"group_id"},
    "kminion_kafka_consumer_group_topic_members": {"group_id", "topic_name"},
    "kminion_kafka_consumer_group_topic_assigned_partitions": {"group_id", "topic_name"},
    "kminion_kafka_consumer_group_topic_offset_sum": {"group_id", "topic_name"},
    "kminion_kafka_consumer_group_topic_lag": {"group_id", "topic_name"},
    "kminion_kafka_consumer_group_topic_partition_lag": {"group_id", "partition_id", "topic_name"},
    "kminion_kafka_topic_partition_low_water_mark": {"partition_id", "topic_name"},
    "kminion_kafka_topic_partition_high_water_mark": {"partition_id", "topic_name"},
}
"""As KMinion's list of exported metrics has them."""
_PARTITION = {"cluster_name", "group", "topic", "partition", "member_host", "consumer_id", "client_id"}
LAG_EXPORTER = {
    "kafka_consumergroup_group_offset": _PARTITION,
    "kafka_consumergroup_group_lag": _PARTITION,
    "kafka_consumergroup_group_lag_seconds": _PARTITION,
    "kafka_consumergroup_group_max_lag": {"cluster_name", "group"},
    "kafka_consumergroup_group_max_lag_seconds": {"cluster_name", "group"},
    "kafka_consumergroup_group_sum_lag": {"cluster_name", "group"},
    "kafka_consumergroup_group_topic_sum_lag": {"cluster_name", "group", "topic"},
    "kafka_partition_latest_offset": {"cluster_name", "topic", "partition"},
    "kafka_partition_earliest_offset": {"cluster_name", "topic", "partition"},
}
"""As Kafka Lag Exporter's README and its Metrics.scala list them."""
BURROW = {
    "burrow_kafka_consumer_lag_total": {"cluster", "consumer_group"},
    "burrow_kafka_consumer_status": {"cluster", "consumer_group"},
    "burrow_kafka_consumer_current_offset": {"cluster", "consumer_group", "topic", "partition"},
    "burrow_kafka_consumer_partition_lag": {"cluster", "consumer_group", "topic", "partition"},
    "burrow_kafka_topic_partition_offset": {"cluster", "topic", "partition"},
}
"""As Burrow's core/internal/httpserver/prometheus.go registers them."""
PUBLISHED = {"kminion": KMINION, "kafka-lag-exporter": LAG_EXPORTER, "burrow": BURROW}

Offsets = dict[str, dict[tuple[str, int], int]]
"""Group -> partition -> committed offset."""
Samples = dict[str, list[tuple[dict[str, str], float]]]


@pytest.fixture(scope="module")
def truth() -> Offsets:
    """What the admin client was told last, of groups whose offsets nothing changed since."""
    changed_ms: dict[str, int] = {}
    for record in observed(RECORDING, with_logs=True).history:
        if isinstance(record, OffsetsCommitted | RemovedOffsets):
            changed_ms[record.group_id] = record.timestamp_ms
    last = {poll.group_id: poll for poll in polls(RECORDING)}
    offsets = {
        group_id: {(place.rpartition("-")[0], int(place.rpartition("-")[2])): offset for place, offset in each.items()}
        for group_id, poll in last.items()
        if (each := poll.group.get("offsets")) and changed_ms.get(group_id, 0) < poll.at_ms
    }
    assert len(offsets) > 2
    return offsets


def ends_of(truth: Offsets) -> dict[tuple[str, int], int]:
    """The groups read the same partitions, some further than others."""
    ends: dict[tuple[str, int], int] = {}
    for of_group in truth.values():
        for place, offset in of_group.items():
            ends[place] = max(ends.get(place, 0), offset + BEHIND)
    return ends


def lags_of(truth: Offsets, group_id: str) -> dict[tuple[str, int], int]:
    ends = ends_of(truth)
    return {place: ends[place] - offset for place, offset in truth[group_id].items()}


@pytest.fixture
def index(truth: Offsets) -> Index:
    made = Index()
    for record in observed(RECORDING, with_logs=True).history:
        if record.group_id in truth:
            made.add_record(record, encode_json(record))
    bounds = {place: Bounds(0, end) for place, end in ends_of(truth).items()}
    made.poll_ends(made.last_ms + LATER_MS, bounds)
    return made


def scraped(index: Index, series: LagSeries) -> Samples:
    """Go through the text that Prometheus reads: it has no series twice."""
    now_ms = index.last_ms + 2 * LATER_MS
    metrics = Metrics(())
    metrics.values_from(lambda: lag_values(index, index.rows(now_ms), now_ms, series))
    found: Samples = {}
    seen: Counter[tuple[str, frozenset[tuple[str, str]]]] = Counter()
    for name, labels, value in _parsed(metrics.registry):
        seen[name, frozenset(labels.items())] += 1
        found.setdefault(name, []).append((labels, value))
    assert set(seen.values()) == {1}
    return found


def _parsed(registry: CollectorRegistry) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in text_string_to_metric_families(generate_latest(registry).decode()):
        for sample in family.samples:
            if not sample.name.startswith("process_"):
                yield sample.name, sample.labels, sample.value


def known_groups(index: Index, truth: Offsets) -> set[str]:
    """Those that have the offsets still: a group that was deleted after the last poll has none."""
    rows = {row.group_id: row for row in index.rows(index.last_ms)}
    return {group_id for group_id in truth if group_id in rows and rows[group_id].lag is not None}


def test_lag_of_each_partition_by_a_switch(index: Index, truth: Offsets) -> None:
    name = "group_coordinator_group_partition_lag_messages"
    assert name not in scraped(index, LagSeries(groups_max=100))
    found = scraped(index, LagSeries(groups_max=100, partitions=True))
    groups = known_groups(index, truth)
    assert len(groups) > 2
    lags = {(each["group"], each["topic"], int(each["partition"])): lag for each, lag in found[name]}
    assert lags == {
        (group_id, *place): lag for group_id in groups for place, lag in lags_of(truth, group_id).items()
    }
    for labels, lag in found["group_coordinator_group_lag_messages"]:
        of_partitions = lags_of(truth, labels["group"]).items()
        assert lag == sum(each for place, each in of_partitions if place[0] == labels["topic"])


def test_groups_by_a_pattern_and_a_bound_that_says_what_it_left_out(
    index: Index, truth: Offsets
) -> None:
    groups = sorted(known_groups(index, truth))
    chosen = LagSeries(groups_max=0, pattern=re.compile(re.escape(groups[0])))
    found = scraped(index, chosen)
    assert {labels["group"] for labels, _ in found["group_coordinator_group_lag_messages"]} == {groups[0]}
    assert found["group_coordinator_groups_without_lag_series"] == [({}, len(groups) - 1)]
    assert found["group_coordinator_lag_series_left_out"] == [({}, 0)]
    everything = LagSeries(groups_max=0, pattern=re.compile(".*"), partitions=True)
    families = ("group_lag_", "group_partition_lag_", "group_last_commit_")
    all_series = [
        labels
        for name, samples in scraped(index, everything).items()
        if name.removeprefix("group_coordinator_").startswith(families)
        for labels, _ in samples
    ]
    bounded = LagSeries(groups_max=0, pattern=re.compile(".*"), partitions=True, series_max=len(all_series) - 1)
    found = scraped(index, bounded)
    (left_out,) = {labels["group"] for labels in all_series} - {
        labels["group"] for labels, _ in found["group_coordinator_group_lag_messages"]
    }
    assert found["group_coordinator_groups_without_lag_series"] == [({}, 1)]
    assert found["group_coordinator_lag_series_left_out"] == [
        ({}, sum(labels["group"] == left_out for labels in all_series))
    ]


@pytest.mark.parametrize("names", list(PUBLISHED))
def test_names_and_labels_are_the_published_ones(names: str, index: Index) -> None:
    declared = {metric.name: set(metric.labels) for metric in METRICS_OF[names]}
    assert declared == PUBLISHED[names]
    found = scraped(index, LagSeries(groups_max=100, names=NAMES[names], cluster="prod:9092"))
    foreign = {name: samples for name, samples in found.items() if not name.startswith("group_coordinator_")}
    assert foreign.keys() == declared.keys()
    for name, samples in foreign.items():
        assert {frozenset(labels) for labels, _ in samples} == {frozenset(declared[name])}


def test_values_under_other_names(index: Index, truth: Offsets) -> None:
    groups = known_groups(index, truth)
    kminion, exporter, burrow = (
        scraped(index, LagSeries(groups_max=100, names=NAMES[names], cluster="prod:9092")) for names in PUBLISHED
    )
    sums = {each: sum(lags_of(truth, each).values()) for each in groups}
    assert {labels["consumer_group"]: lag for labels, lag in burrow["burrow_kafka_consumer_lag_total"]} == sums
    assert {labels["group"]: lag for labels, lag in exporter["kafka_consumergroup_group_sum_lag"]} == sums
    largest = {each: max(lags_of(truth, each).values()) for each in groups}
    assert {labels["group"]: lag for labels, lag in exporter["kafka_consumergroup_group_max_lag"]} == largest
    assert {labels["cluster_name"] for labels, _ in exporter["kafka_partition_latest_offset"]} == {"prod:9092"}
    by_group: Counter[str] = Counter()
    for labels, lag in kminion["kminion_kafka_consumer_group_topic_lag"]:
        by_group[labels["group_id"]] += int(lag)
    assert by_group == sums
    offsets = {
        (labels["group_id"], labels["topic_name"]): offset
        for labels, offset in kminion["kminion_kafka_consumer_group_topic_offset_sum"]
    }
    for (group_id, topic), offset in offsets.items():
        assert offset == sum(each for place, each in truth[group_id].items() if place[0] == topic)
    assert {labels["group_id"] for labels, _ in kminion["kminion_kafka_consumer_group_info"]} == groups


def test_settings_choose(index: Index) -> None:
    chosen = lag_series(WatchSettings(metrics_names="burrow", metrics_groups_pattern="a.*", metrics_groups=3), "c")
    assert (chosen.groups_max, chosen.names, chosen.cluster) == (3, NAMES["burrow"], "c")
    assert lag_series(WatchSettings(), "c") == LagSeries(groups_max=20, cluster="c")
    with pytest.raises(ConfigError, match="metrics_groups_pattern is no regular expression"):
        WatchSettings(metrics_groups_pattern="(")


def test_no_metric_is_declared_twice() -> None:
    declared: list[Metric] = [metric for metrics in METRICS_OF.values() for metric in metrics]
    assert len({metric.name for metric in declared}) == len(declared)
