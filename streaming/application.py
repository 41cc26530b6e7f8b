"""The long-running app: topics, Spark session, one query, one ticker and one watcher of topics for each shard, and
their end.

Nothing is restarted silently: when a query fails the app stops everything and raises the cause. Whoever runs the app
restarts it; the checkpoint brings it back to where it was.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from group_coordinator.ground.kafka_topics.clients import new_admin_client
from streaming.answered_ahead import AnsweredClocks, begin_progress
from streaming.checkpoints import REMEDY, checkpoint_of, require_checkpoints
from streaming.config import StreamingConfig
from streaming.executors import ExecutorsAwaited
from streaming.job import coordinate_stream, start_query
from streaming.log_identity import note_new_checkpoints, require_same_log
from streaming.log_rules import is_unknown_rules
from streaming.progress_topic import ProgressPublisher
from streaming.published_subscriptions import PublishedSubscriptions
from streaming.query_failures import cause_of
from streaming.rules_records import begin_new_logs, look_up_changes, rules_of_shard
from streaming.session import SMALL_BATCHES, TICKS_GO_ON, open_session, prepare_session
from streaming.shard_state import read_shard_state
from streaming.source import events_stream
from streaming.stopping import stop_after_batches, stop_between_batches
from streaming.stored_group import StateInPieces
from streaming.ticker import Ticker
from streaming.topic_watcher import TopicWatcher
from streaming.topics import TopicError, TopicReport, check_topics, ensure_topics
from streaming.topics_kept import TopicsKept
from streaming.tuning.hadoop import tune_hadoop
from streaming.tuning.heap import Heap
from streaming.watcher import ShardProgress, Watcher

__all__ = ["Application", "QueryFailed", "ShardProgress", "SparkLost"]

_log = logging.getLogger(__name__)
POLL_INTERVAL_S = 0.1
POLLS_PER_TRIGGER = 4
"""Where batches come rarely, there is less to look for."""
COMPRESSED_SOURCE_OPTIONS = {"kafka.max.poll.records": "100"}
"""Of a log whose batches may hold far more than they take: all records of a poll lie in the heap."""

CompanionQuery = Callable[[SparkSession, TopicReport], StreamingQuery]
"""Starts a further query in the coordinator's session. It reads what the coordinator writes; it is stopped with it."""


class QueryFailed(RuntimeError):
    """A query ended by itself. The message is the cause: the Python traceback where there is one."""

    def __init__(self, query: str, cause: str) -> None:
        """`query`: a name of the query, for people."""
        super().__init__(f"The query of {query} failed.\n{cause}")


class SparkLost(RuntimeError):
    """Spark's JVM is gone: killed, or out of memory. What it had begun is repeated at the next start."""

    def __init__(self) -> None:
        super().__init__(
            "Spark's JVM has ended or does not answer (killed? out of memory?). Start again: it goes on from the "
            "checkpoint."
        )


class Application:
    """One process of the coordinator."""

    def __init__(
        self,
        config: StreamingConfig,
        *,
        on_start: Callable[[TopicReport], None] | None = None,
        on_progress: Callable[[ShardProgress], None] | None = None,
        watcher: Watcher | None = None,
        spark: SparkSession | None = None,
        rebuild: bool = False,
        companion: CompanionQuery | None = None,
    ) -> None:
        """`on_start` is called once everything runs, `on_progress` after each batch, both in the thread of `run`.
        The `watcher` is told more.

        A `spark` session that is handed in is used and left running. `rebuild`: where the checkpoint of a coordinator
        that has run is lost, begin at the beginning of the events topic instead of refusing to start.
        """
        self._config = config
        self._on_start = on_start or (lambda report: None)
        self._on_progress = on_progress or (lambda progress: None)
        self._watcher = watcher or Watcher()
        self._spark = spark
        self._rebuild = rebuild
        self._companion = companion
        self._session: SparkSession | None = None
        self._shards: list[_Shard] = []
        self._stop_following: Callable[[], None] = lambda: None
        self.progress_publisher: ProgressPublisher | None = None
        """Tells responders how far the queries are, while they run; None: no responders are wanted."""

    def run(self, stop: threading.Event) -> None:
        """Coordinate until `stop` is set, then end after the running batch.

        Raises TopicError, JarsError, JavaError or CheckpointError before the start, and QueryFailed or SparkLost;
        TopicError also when partitions were added to the events topic.
        """
        admin = new_admin_client(self._config.client_properties)
        check_topics(admin, self._config.topic_settings)  # what is wrong with them is said before Spark starts
        spark = self._spark
        if spark is None:
            spark = open_session(self._config)
        self._session = spark
        prepare_session(spark, self._config, {**SMALL_BATCHES, **(TICKS_GO_ON if self._config.ticker else {})})
        try:
            try:
                require_same_log(spark, self._config, self._config.shards_here)
                self._coordinate(spark, ensure_topics(admin, self._config.topic_settings), stop)
            finally:
                if self._spark is None:
                    spark.stop()
        except (Py4JNetworkError, ConnectionError) as problem:
            raise SparkLost from problem

    def _coordinate(self, spark: SparkSession, report: TopicReport, stop: threading.Event) -> None:
        shards = self._shards
        companion: StreamingQuery | None = None
        config = self._config
        topics_kept = TopicsKept(config.client_properties, report)
        try:
            if config.tuning_hadoop:
                tune_hadoop(spark)
            require_checkpoints(spark, self._config, report, rebuild=self._rebuild)
            note_new_checkpoints(spark, config)
            begin_new_logs(config)
            self._watcher.topics_found(report)
            self.progress_publisher = begin_progress(spark, self._config, report, rebuild=self._rebuild)
            subscriptions = _subscriptions(config, report)
            for number in config.shards_here:
                on_tick = partial(self._watcher.tick_written, number)
                shards.append(_Shard(spark, config, report, number, on_tick, subscriptions))
            self._follow_responders(report)
            companion = self._start_companion(spark, report)
            topics_kept.start()
            self._on_start(report)
            executors = ExecutorsAwaited(spark)
            heap = Heap(spark, is_on=config.tuning_heap)
            interval_s = max(POLL_INTERVAL_S, config.trigger_interval_ms / 1_000 / POLLS_PER_TRIGGER)
            while not stop.wait(min(interval_s, 1.0)):
                executors.look()
                for progress in (progress for shard in shards for progress in shard.poll()):
                    heap.batch_ended(progress)
                    self._batch_ended(progress)
                for shard in shards:
                    if shard.ticker is not None:
                        self._watcher.ticker_reported(shard.number, shard.ticker.status)
                self._watcher.polled()
                topics_kept.insist()
                heap.polled()
                if companion is not None and not companion.isActive:
                    raise QueryFailed(f"the {companion.name}", cause_of(companion))
        except (TopicError, Py4JNetworkError, ConnectionError):
            raise
        except Exception:
            topics_kept.insist_after_failure()
            raise
        finally:
            self._end(topics_kept, companion)

    def _end(self, topics_kept: TopicsKept, companion: StreamingQuery | None) -> None:
        topics_kept.stop()
        self._stop_following()
        for shard in self._shards:
            shard.stop_writing()
        if topics_kept.deleted is None:
            stop_after_batches([shard.query for shard in self._shards])
        else:  # the running batch waits for what does not come any more
            for shard in self._shards:
                shard.query.stop()
        if companion is not None:
            stop_between_batches(companion)
        if self.progress_publisher is not None:
            self.progress_publisher.close()

    def _batch_ended(self, progress: ShardProgress) -> None:
        self._watcher.batch_ended(progress)
        if self.progress_publisher is not None:
            self.progress_publisher.batch_ended(progress)
        self._on_progress(progress)

    def _follow_responders(self, report: TopicReport) -> None:
        """Have the tickers told how far responders have answered."""
        publisher, properties = self.progress_publisher, self._config.client_properties
        if publisher is not None:
            clocks = AnsweredClocks(properties, report.topics.progress, publisher.core_hashes, self._note_answered)
            clocks.start()
            self._stop_following = clocks.stop

    def _note_answered(self, shard: int, clock_ms: int) -> None:
        for running in self._shards:
            if running.number == shard and running.ticker is not None:
                running.ticker.handled(clock_ms)

    def read_state(self, shard: int) -> StateInPieces:
        """Return the state of a shard after its last committed batch, while the application runs; in any thread. Raises
        CheckpointError and PySparkException."""
        assert self._session is not None
        return read_shard_state(self._session, self._config, shard)

    def _start_companion(self, spark: SparkSession, report: TopicReport) -> StreamingQuery | None:
        """The query gets a pool of its own: with `spark.scheduler.mode=FAIR` it cannot take all cores from the
        coordinator."""
        if self._companion is None:
            return None
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", "beside")
        try:
            return self._companion(spark, report)
        finally:
            spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]


class _Shard:
    """One shard at work: its query, its ticker and its watcher of topics."""

    def __init__(
        self,
        spark: SparkSession,
        config: StreamingConfig,
        report: TopicReport,
        number: int,
        on_tick: Callable[[], None],
        subscriptions: PublishedSubscriptions,
    ) -> None:
        self.number = number
        self._spark, self._config, self._report = spark, config, report
        self._rule_changes = rules_of_shard(spark, config, number)
        self.query: StreamingQuery = self._start_query()
        self._topic = report.topics.events
        self._seen: tuple[int, str] | None = None
        self.ticker: Ticker | None = None
        if config.ticker:
            self.ticker = Ticker.of(config, number, on_tick=on_tick)
            self.ticker.start()
        self._topic_watcher: TopicWatcher | None = None
        if config.ticker and config.topic_watch_interval_ms:
            self._topic_watcher = _topic_watcher(config, report, number, subscriptions)
            self._topic_watcher.start()

    def _start_query(self) -> StreamingQuery:
        config, report, number, changes = self._config, self._report, self.number, self._rule_changes
        source_options = config.source_options | (COMPRESSED_SOURCE_OPTIONS if report.compressed_events else {})
        events = events_stream(
            self._spark, report.topics.events, number, source_options, config.max_events_per_batch,
            tick_ahead_max_ms=config.group.tick_ahead_bound_ms, known_changes=[change.offset for change in changes],
        )  # fmt: skip
        operator = config.operator_config(report.partitions, number, is_live=True, rule_changes=changes)
        return start_query(
            coordinate_stream(events, operator),
            f"{config.topic_prefix}-shard-{number}",
            checkpoint_of(config, number),
            config.sink_options,
            trigger_interval_ms=config.trigger_interval_ms,
        )

    def poll(self) -> list[ShardProgress]:
        """Return the batches since the last call and tell the ticker of them. Raises QueryFailed, and the error that
        ended the ticker."""
        if not self.query.isActive:
            self._go_on_by_other_rules()
        if self.ticker is not None:
            self.ticker.require_alive()
        if self._topic_watcher is not None:
            self._topic_watcher.require_alive()
        last = self.query.lastProgress
        if last is None or (last["batchId"], last["timestamp"]) == self._seen:
            return []
        unseen = self._unseen(last)
        self._seen = last["batchId"], last["timestamp"]
        batches = [_progress(self.number, self._topic, progress) for progress in unseen if _of_a_batch(progress)]
        if not batches:
            return []
        if self.ticker is not None:
            self.ticker.handled(batches[-1].clock_ms)
        end_offset = batches[-1].end_offset
        if self._topic_watcher is not None and end_offset is not None:
            self._topic_watcher.handled(end_offset)
        return batches

    def _go_on_by_other_rules(self) -> None:
        """Start the query anew if it has ended because the log changes its rules. Raises QueryFailed."""
        cause, known = self._cause(), self._rule_changes
        if is_unknown_rules(cause):
            self._rule_changes = look_up_changes(self._spark, self._config, self.number)
        if self._rule_changes == known:
            raise QueryFailed(f"shard {self.number}", cause)
        change = self._rule_changes[-1]
        _log.info(
            "From offset %d on shard %d is decided by the rules of Kafka %s: its query begins anew.",
            change.offset, self.number, change.rules,
        )  # fmt: skip
        self.query = self._start_query()

    def _cause(self) -> str:
        """Return why the query failed. Before its first batch has ended the cause may be a damaged checkpoint, which
        Spark's message seldom says."""
        cause = cause_of(self.query)
        if self._seen is None and _OF_STATE.search(cause):
            return f"{cause}\nIf the checkpoint is damaged: {REMEDY}"
        return cause

    def _unseen(self, last: Any) -> list[Any]:
        """The reports since the last one that was seen.

        Spark keeps a hundred, which are many to fetch where one is new.
        """
        last_seen = -1 if self._seen is None else self._seen[0]
        if self._seen is not None and last["batchId"] <= last_seen + 1:
            return [last]
        return [
            progress for progress in self.query.recentProgress if last_seen < progress["batchId"] <= last["batchId"]
        ] or [last]

    def stop_writing(self) -> None:
        """Write no more events for this shard: neither ticks nor deletions of topics."""
        for writer in (self._topic_watcher, self.ticker):
            if writer is not None:
                writer.stop()


_OF_STATE = re.compile(
    r"STATE_STORE|state ?store|RocksDB|\.changelog|\.zip|Checksum|EOFException|log file", re.IGNORECASE
)
_NO_STATE: Mapping[str, Any] = {"numRowsTotal": 0, "memoryUsedBytes": 0, "customMetrics": {}}


def _subscriptions(config: StreamingConfig, report: TopicReport) -> PublishedSubscriptions:
    topic = report.topics.assignments
    return PublishedSubscriptions(
        topic, report.partitions[topic], config.shards, config.shards_here, config.client_properties,
        report.topics.progress,
    )  # fmt: skip


def _topic_watcher(
    config: StreamingConfig, report: TopicReport, shard: int, subscriptions: PublishedSubscriptions
) -> TopicWatcher:
    return TopicWatcher(
        report.topics,
        shard,
        config.shards,
        report.partitions[report.topics.offsets],
        config.client_properties,
        subscriptions,
        interval_ms=config.topic_watch_interval_ms,
        event_bytes_max=config.event_max_bytes // 2,
    )


def _of_a_batch(report: Any) -> bool:
    """Return whether a report is of a batch: Spark also reports that there was none, at once and then every 10 s."""
    return "addBatch" in report["durationMs"]


def _progress(shard: int, topic: str, last: Any) -> ShardProgress:
    state = last["stateOperators"][0] if last["stateOperators"] else _NO_STATE
    watermark = last["eventTime"].get("watermark")
    clock_ms = 0 if watermark is None else int(datetime.fromisoformat(watermark).timestamp() * 1_000 + 0.5)
    rate = float(last["processedRowsPerSecond"] or 0.0)
    return ShardProgress(
        shard=shard,
        batch_id=int(last["batchId"]),
        batch_ms=int(last["durationMs"].get("triggerExecution", 0)),
        phases_ms=last["durationMs"],
        events=int(last["numInputRows"]),
        events_per_second=rate if rate == rate and rate != float("inf") else 0.0,
        start_offset=_offset(last["sources"][0]["startOffset"], topic, shard),
        end_offset=_offset(last["sources"][0]["endOffset"], topic, shard),
        groups=int(state["numRowsTotal"]),
        state_memory_bytes=int(state["memoryUsedBytes"]),
        state_disk_bytes=int(state["customMetrics"].get("rocksdbSstFileSize", 0)),
        clock_ms=clock_ms,
        clock_lag_ms=max(0, time.time_ns() // 1_000_000 - clock_ms) if clock_ms else 0,
    )


def _offset(offset: Any, topic: str, partition: int) -> int | None:
    """A place in the events, as Spark reports it."""
    offsets = json.loads(offset) if isinstance(offset, str) else offset
    return None if not offsets else int(offsets[topic][str(partition)])
