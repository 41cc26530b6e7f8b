"""The queries as metrics: from the progress that Spark reports of each batch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.health import Health
from group_coordinator.ground.monitoring.metrics import Value
from group_coordinator.ground.monitoring.registry import Metrics
from streaming.clock import TickerStatus

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
