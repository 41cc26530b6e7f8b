"""Watchers observe the app: metrics, health, displays."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from streaming.clock import TickerStatus
from streaming.topics import TopicReport


class ShardProgress(Struct, frozen=True, kw_only=True):
    """One batch of one shard."""

    shard: int
    batch_id: int
    batch_ms: int
    """How long it took."""
    phases_ms: Mapping[str, int]
    """The same by Spark's phases; `triggerExecution` is the whole."""
    events: int
    """How many it took in, ticks included."""
    events_per_second: float
    start_offset: int | None
    """The batch begins there in the events topic; None: at the beginning of the log."""
    end_offset: int | None
    """Up to where the events topic is handled now."""
    groups: int
    """Groups in state."""
    state_memory_bytes: int
    state_disk_bytes: int
    """Size of RocksDB's files; 0 before it has written any."""
    clock_ms: int
    """The shard's time: Spark's watermark. 0: no tick was seen yet."""
    clock_lag_ms: int
    """How far that is behind wall time."""


class Watcher:
    """The app calls a method for each event; each does nothing until it is overridden, and must be quick."""

    def topics_found(self, report: TopicReport) -> None:
        """Called when the topics are as they must be, before any query runs."""

    def polled(self) -> None:
        """Called when the application has looked at its queries, several times a second."""

    def batch_ended(self, progress: ShardProgress) -> None:
        """Called once for every batch of a shard that has ended."""

    def ticker_reported(self, shard: int, status: TickerStatus) -> None:
        """Called with each new status of a shard's ticker, several times a second."""

    def tick_written(self, shard: int) -> None:
        """Called in the ticker's thread when Kafka has taken a tick."""
