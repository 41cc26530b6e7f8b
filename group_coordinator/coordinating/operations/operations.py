"""One object has the endpoint, its metrics, and the thread that reads the topics that it counts."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from group_coordinator.coordinating.operations.group_log import GroupLog
from group_coordinator.coordinating.operations.shards import Shards
from group_coordinator.coordinating.operations.topics_reader import HistoryListener, TopicsReader
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.ground.monitoring import metrics as m
from group_coordinator.ground.monitoring.health import Health, Responders, reasons_not_ready
from group_coordinator.ground.monitoring.metrics import Value
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.ground.monitoring.server import operations_server
from group_coordinator.watching.group_metrics.group_table import GroupTable
from group_coordinator.watching.group_metrics.tally import Tally
from schemas.java_hash import group_partition
from streaming.clock import TickerStatus
from streaming.config import StreamingConfig
from streaming.topics import TopicReport
from streaming.watcher import ShardProgress, Watcher


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
        self.url: str | None = None
        """Where the endpoint listens; None: there is none."""
        self.follower: TopicFollower | None = None
        """Reads the topics, once they are there."""
        self.responders: Responders = dict
        """What is to be said of the shards' responders."""

    def __enter__(self) -> Self:
        """Raises OSError where the endpoint cannot listen, or the health file cannot be written."""
        file = Path(self._config.health_file) if self._config.health_file else None
        if file is not None and not os.access(file if file.exists() else file.parent, os.W_OK):
            raise OSError(f"The health file {file} cannot be written: name another one by health_file.")
        port = self._config.metrics_port
        if port:
            self.metrics.gauges_from(self.shards.values)
            self.metrics.gauges_from(self._groups.values)
            self.metrics.gauges_from(lambda: [Value(m.READY, (), 0.0 if reasons_not_ready(self.health) else 1.0)])
            server = operations_server(
                self._config.metrics_host, port, self.metrics.registry, self.health, lambda: self.responders(),
                self.health.degraded,
            )  # fmt: skip
            self.url = self._stack.enter_context(server).url
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
            for_metrics=bool(self._config.metrics_port),
            listener=self._listener,
        )
        reader.start(report.partitions)
        self._stack.callback(reader.stop)
        self.follower = reader.follower
        self.shards.end_offset_of = reader.end_offset
        self.metrics.gauges_from(reader.values)

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
