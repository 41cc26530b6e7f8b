"""Queries as metrics, and all of it together at one endpoint: every gauge has the labels that the catalogue says."""

from __future__ import annotations

import time
import urllib.request
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from group_coordinator.coordinating.operations.operations import PHASES, Operations
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.proving.embedded_kafka.broker import free_port
from streaming.clock import Standstill, TickerStatus
from streaming.config import StreamingConfig
from streaming.watcher import ShardProgress


def progress(shard: int, batch_id: int, events: int = 10, end_offset: int = 100) -> ShardProgress:
    return ShardProgress(
        shard=shard,
        batch_id=batch_id,
        batch_ms=400,
        phases_ms={"triggerExecution": 400, "addBatch": 300, "of a later Spark": 7},
        events=events,
        events_per_second=25.0,
        start_offset=0,
        end_offset=end_offset,
        groups=3,
        state_memory_bytes=1_000,
        state_disk_bytes=2_000,
        clock_ms=time.time_ns() // 1_000_000 - 5_000,
        clock_lag_ms=5_000,
    )


def scrape(operations: Operations) -> dict[str, dict[frozenset[tuple[str, str]], float]]:
    (sentence,) = operations.published
    url = sentence.removeprefix("Metrics and health: ").partition(",")[0]
    with urllib.request.urlopen(url, timeout=5) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    values_by_name: dict[str, dict[frozenset[tuple[str, str]], float]] = {}
    for sample in (sample for family in families for sample in family.samples):
        values_by_name.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
    return values_by_name


def test_batches_and_ticks_show_at_the_endpoint(tmp_path: Path) -> None:
    config = StreamingConfig(shards=2, metrics_port=free_port(), health_file=str(tmp_path / "health"))
    with Operations(config) as operations:
        first = scrape(operations)
        assert first[m.READY.name] == {frozenset(): 0.0}
        for metric in (metric for metric in m.METRICS if metric.kind == "counter" and metric.labels == ("shard",)):
            assert first[metric.name] == {frozenset({("shard", shard)}): 0.0 for shard in "01"}
        assert len(first[f"{m.BATCH_SECONDS.name}_count"]) == 2 * len(PHASES)
        operations.polled()
        for shard in (0, 1):
            operations.batch_ended(progress(shard, 6))
            operations.tick_written(shard)
        operations.batch_ended(progress(1, 7, events=5))
        scraped = scrape(operations)
    of_shard = frozenset({("shard", "1")})
    of_trigger = of_shard | {("phase", "triggerExecution")}
    assert scraped[m.READY.name] == {frozenset(): 1.0}
    assert scraped[f"{m.BATCH_SECONDS.name}_count"][of_trigger] == 2
    assert scraped[f"{m.BATCH_SECONDS.name}_sum"][of_trigger] == 0.8
    assert scraped[m.HANDLED.name][of_shard] == 15
    assert scraped[m.BATCH_ID.name][of_shard] == 7
    assert scraped[m.STATE_DISK.name][of_shard] == 2_000
    assert 5 <= scraped[m.WATERMARK_LAG.name][of_shard] < 10
    assert scraped[m.SINCE_TICK.name][of_shard] < 5
    assert {dict(labels)["phase"] for labels in scraped[f"{m.BATCH_SECONDS.name}_count"]} <= PHASES
    assert (tmp_path / "health").exists()
    for metric in m.METRICS:
        for labels in scraped.get(metric.name, {}):
            assert {name for name, _ in labels} == set(metric.labels), metric.name


def test_a_clock_that_stands_still_shows_and_is_not_ready() -> None:
    operations = Operations(StreamingConfig())
    operations.polled()
    operations.batch_ended(progress(0, 1))
    operations.ticker_reported(0, TickerStatus(skew_ms=20))
    assert operations.health.not_ready() == []
    operations.ticker_reported(0, TickerStatus(skew_ms=4_000, standstill=Standstill.WALL_AHEAD, foreign_ticks=2))
    operations.ticker_reported(0, TickerStatus(skew_ms=4_000, standstill=Standstill.WALL_AHEAD, foreign_ticks=3))
    assert operations.health.not_ready() == ["the clock of shard 0 stands still: wall_clock_ahead"]
    assert operations.health.not_live() == [], "a restart would not help"
    values = {value.metric: value.value for value in operations.shards.values()}
    assert (values[m.CLOCK_SKEW], values[m.CLOCK_STANDSTILL]) == (4.0, 1)
    assert operations.metrics.registry.get_sample_value(m.FOREIGN_TICKS.name, {"shard": "0"}) == 3
    operations.ticker_reported(0, TickerStatus(skew_ms=0, foreign_ticks=3))
    assert operations.health.not_ready() == []


def test_without_a_port_nothing_listens() -> None:
    with Operations(StreamingConfig()) as operations:
        assert operations.published == []
        operations.batch_ended(progress(0, 1))


def test_the_lag_of_the_source_is_what_is_written_and_not_yet_handled() -> None:
    operations = Operations(StreamingConfig())
    operations.batch_ended(progress(0, 1, end_offset=100))
    operations.shards.end_offset_of = {0: 130}.get
    values = {value.metric: value.value for value in operations.shards.values()}
    assert values[m.SOURCE_LAG] == 30
    operations.shards.end_offset_of = {0: 90}.get  # as of an older fetch
    assert {value.metric: value.value for value in operations.shards.values()}[m.SOURCE_LAG] == 0
