"""One object has the endpoint, its metrics, and the thread that reads the topics that it counts."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from group_coordinator.coordinating.operations.group_log import GroupLog
from group_coordinator.coordinating.operations.topics_reader import HistoryListener, TopicsReader
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.health import Health, Responders, reasons_not_ready
from group_coordinator.ground.monitoring.metrics import Value
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.ground.monitoring.server import published_metrics
from group_coordinator.watching.group_metrics.group_table import GroupTable
from group_coordinator.watching.group_metrics.tally import Tally
from schemas.java_hash import group_partition
from streaming.clock import TickerStatus
from streaming.config import StreamingConfig
from streaming.topics import TopicReport
from streaming.watcher import ShardProgress, Watcher

if TYPE_CHECKING:
    from streaming.watcher import ShardProgress


PHASES = frozenset(
    {
        "triggerExecution",
        "latestOffset",
        "getBatch",
        "queryPlanning",
        "walCommit",
        "addBatch",
        "commitOffsets",
        "commitBatch",
    }
)
"""Of Spark's micro-batch; those that a later Spark adds are left out until somebody says what they mean."""


class Shards:
    """The last batch of each shard, and what all batches were."""

    def __init__(self, shards: Iterable[int], metrics: Metrics, health: Health) -> None:
        self._last: dict[int, ShardProgress | None] = dict.fromkeys(shards)
        self._tickers = dict.fromkeys(self._last, TickerStatus())
        self._metrics, self._health = metrics, health
        self._lock = threading.Lock()
        self.end_offset_of: Callable[[int], int | None] = lambda shard: None
        """Where a shard's events end in Kafka."""
        for shard in map(str, self._last):
            metrics.begin(m.HANDLED, shard)
            metrics.begin(m.FOREIGN_TICKS, shard)
            for phase in sorted(PHASES):
                metrics.begin(m.BATCH_SECONDS, shard, phase)

    def batch_ended(self, progress: ShardProgress) -> None:
        """Count a batch."""
        shard = str(progress.shard)
        with self._lock:
            self._last[progress.shard] = progress
        for phase, phase_ms in progress.phases_ms.items():
            if phase in PHASES:
                self._metrics.observe(m.BATCH_SECONDS, phase_ms / 1_000, shard, phase)
        self._metrics.add(m.HANDLED, shard, by=progress.events)

    def ticker_reported(self, shard: int, status: TickerStatus) -> None:
        """Note what a ticker has measured."""
        with self._lock:
            before, self._tickers[shard] = self._tickers[shard], status
        if status.foreign_ticks > before.foreign_ticks:
            self._metrics.add(m.FOREIGN_TICKS, str(shard), by=status.foreign_ticks - before.foreign_ticks)

    def clock_ms(self, shard: int) -> int:
        """Return the shard's time; wall time before its first batch."""
        last = self._last.get(shard)
        return last.clock_ms if last is not None and last.clock_ms else _wall_ms()

    def values(self) -> Iterator[Value]:
        """Yield the gauges of the shards."""
        with self._lock:
            last_by_shard, tickers = dict(self._last), dict(self._tickers)
        for number, last in last_by_shard.items():
            shard = (str(number),)
            yield Value(m.SINCE_BATCH, shard, self._health.since_batch_s(number))
            yield Value(m.SINCE_TICK, shard, self._health.since_tick_s(number))
            yield Value(m.CLOCK_STANDSTILL, shard, tickers[number].standstill is not None)
            skew_ms = tickers[number].skew_ms
            if skew_ms is not None:
                yield Value(m.CLOCK_SKEW, shard, skew_ms / 1_000)
            if last is not None:
                yield from self._of_batch(last, shard)

    def _of_batch(self, last: ShardProgress, shard: tuple[str]) -> Iterator[Value]:
        yield Value(m.BATCH_ID, shard, last.batch_id)
        yield Value(m.STATE_GROUPS, shard, last.groups)
        yield Value(m.STATE_MEMORY, shard, last.state_memory_bytes)
        yield Value(m.STATE_DISK, shard, last.state_disk_bytes)
        if last.clock_ms:
            yield Value(m.WATERMARK_LAG, shard, max(0, _wall_ms() - last.clock_ms) / 1_000)
        end_offset = self.end_offset_of(last.shard)
        if end_offset is not None and last.end_offset is not None:
            yield Value(m.SOURCE_LAG, shard, max(0, end_offset - last.end_offset))


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class Operations(Watcher):
    """The watcher of an app that makes metrics, health and log lines of what it sees. A context manager."""

    def __init__(self, config: StreamingConfig, listener: HistoryListener | None = None) -> None:
        """`listener`: gets history, too, as it is read here."""
        self._config = config
        self._listener = listener
        self.metrics = Metrics()
        self.health = Health(
            config.shards_here, Path(config.health_file) if config.health_file else None,
            state_alarm_bytes=config.state_alarm_bytes,
        )  # fmt: skip
        self.shards = Shards(config.shards_here, self.metrics, self.health)
        self._groups = GroupTable(config.metrics_groups, self._clock_ms_of, time.monotonic)
        self._stack = ExitStack()
        self.published: list[str] = []
        """A sentence for each place that has the metrics."""
        self.follower: TopicFollower | None = None
        """Reads the topics, once they are there."""
        self.responders: Responders = dict
        """What is to be said of the shards' responders."""

    def __enter__(self) -> Self:
        """Raises OSError where the endpoint cannot listen, or the health file cannot be written."""
        file = Path(self._config.health_file) if self._config.health_file else None
        if file is not None and not os.access(file if file.exists() else file.parent, os.W_OK):
            raise OSError(f"The health file {file} cannot be written: name another one by health_file.")
        if self._config.publishes_metrics:
            self.metrics.values_from(self.shards.values)
            self.metrics.values_from(self._groups.values)
            self.metrics.values_from(lambda: [Value(m.READY, (), 0.0 if reasons_not_ready(self.health) else 1.0)])
            published = published_metrics(
                self._config, self.metrics.registry, self.health, self._config.topic_prefix, lambda: self.responders(),
                self.health.degraded,
            )  # fmt: skip
            self.published = self._stack.enter_context(published)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def topics_found(self, report: TopicReport) -> None:
        """Begin to read, before anything is written."""
        tally = Tally(self.metrics, self._groups, self._shard_of)
        topics, shards = report.topics, self._config.shards_here
        reader = TopicsReader(
            self._config.client_properties,
            topics,
            shards,
            tally,
            GroupLog(),
            for_metrics=self._config.publishes_metrics,
            listener=self._listener,
        )
        reader.start(report.partitions)
        self._stack.callback(reader.stop)
        self.follower = reader.follower
        self.shards.end_offset_of = reader.end_offset
        self.metrics.values_from(reader.values)

    def polled(self) -> None:
        self.health.polled()

    def batch_ended(self, progress: ShardProgress) -> None:
        self.shards.batch_ended(progress)
        self.health.batch_ended(progress.shard)
        self.health.decided(progress.shard, progress.clock_ms)
        self.health.state_takes(progress.shard, progress.state_disk_bytes)

    def ticker_reported(self, shard: int, status: TickerStatus) -> None:
        self.shards.ticker_reported(shard, status)
        self.health.stands_still(shard, status.standstill)
        if status.clock_ms is not None:
            self.health.clock_stands_at(shard, status.clock_ms)

    def tick_written(self, shard: int) -> None:
        self.health.tick_written(shard)

    def _shard_of(self, group_id: str) -> int | None:
        shard = self._any_shard_of(group_id)
        return shard if shard in self._config.shards_here else None

    def _any_shard_of(self, group_id: str) -> int:
        return 0 if self._config.shards == 1 else group_partition(group_id, self._config.shards)

    def _clock_ms_of(self, group_id: str) -> int:
        return self.shards.clock_ms(self._any_shard_of(group_id))
