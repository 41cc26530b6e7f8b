"""Before a query starts: its checkpoint can be written, and it is not one that got lost.

A query that finds no checkpoint begins at the beginning of the events topic. That is right for a new coordinator; where
the outputs are already written somebody has to say so (`rebuild`). Paths are those of any file system that Spark knows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from streaming.config import StreamingConfig
from streaming.events_tail import POLL_TIMEOUT_S, last_tick_ms, open_reader
from streaming.topics import TopicReport, admin_client

_PROBE = b"group-coordinator " * 256
"""Larger than what a full file system may still take in passing."""
_BUCKETS_NOTE = "group_buckets"
"""A file with the number that the checkpoint was made with."""
RETRY_INTERVAL_S = 0.1
_NOT_YET = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.UNKNOWN_TOPIC_OR_PART)


class CheckpointError(RuntimeError):
    """A checkpoint cannot be used as it is. The message names the remedy."""


def checkpoint_of(config: StreamingConfig, shard: int) -> str:
    """Where the checkpoint of a shard lies."""
    return f"{config.checkpoint.rstrip('/')}/shard-{shard}"


def require_checkpoints(spark: SparkSession, config: StreamingConfig, report: TopicReport, *, rebuild: bool) -> None:
    """Check the checkpoints of the shards of this process. Raises CheckpointError.

    `rebuild`: a checkpoint that is lost is made anew from the beginning of the events topic; one that is there is used
    all the same.
    """
    lost = []
    for shard in config.shards_here:
        directory = _Directory(spark, checkpoint_of(config, shard))
        directory.require_writable()
        if not directory.has_batches() and _has_run(config, report, shard):
            lost.append(shard)
    if lost and not rebuild:
        where = ", ".join(checkpoint_of(config, shard) for shard in lost)
        raise CheckpointError(
            f"There is no checkpoint in {where}, but the output topics of {config.topic_prefix} hold records, so this "
            "coordinator has run before: name the directory that it had by --checkpoint or, if the checkpoint is lost, "
            "start once with --rebuild, which decides all events anew from the beginning of the events topic."
        )
    for shard in lost:
        _require_whole_log(config, report.topics.events, shard)
    for shard in config.shards_here:
        _Directory(spark, checkpoint_of(config, shard)).require_buckets(config.group_buckets)


class _Directory:
    """A directory of a file system that Spark knows."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._path = path
        context: Any = spark.sparkContext
        hadoop = context._jvm.org.apache.hadoop.fs
        try:
            self._directory = hadoop.Path(path)
            self._file_system = self._directory.getFileSystem(context._jsc.hadoopConfiguration())
        except Py4JJavaError as problem:
            raise CheckpointError(f"The checkpoint directory {path} cannot be reached: {_cause(problem)}.") from problem
        self._child: Callable[[str], Any] = lambda name: hadoop.Path(self._directory, name)

    def require_writable(self) -> None:
        """Raises CheckpointError when nothing can be written: a wrong path, no permission, a full disk."""
        probe = self._child(".probe")
        try:
            self._file_system.mkdirs(self._directory)
            stream = self._file_system.create(probe)
            try:
                stream.write(_PROBE)
            finally:
                stream.close()
            self._file_system.delete(probe, False)
        except Py4JJavaError as problem:
            raise CheckpointError(f"The checkpoint directory {self._path} cannot be written: {_cause(problem)}.") from problem

    def require_buckets(self, group_buckets: int) -> None:
        """Raises CheckpointError when the groups lie in another number of buckets: Spark would not find them, and say nothing."""
        note = self._child(_BUCKETS_NOTE)
        if not self.has_batches():
            stream = self._file_system.create(note, True)
            stream.writeBytes(f"{group_buckets}\n")
            stream.close()
            return
        kept = 0
        if self._file_system.exists(note):
            stream = self._file_system.open(note)
            kept = int(stream.readLine())
            stream.close()
        if kept != group_buckets:
            raise CheckpointError(
                f"group_buckets is {group_buckets}, but the checkpoint {self._path} was made with {kept}: set it to {kept}, or "
                "name a new directory by --checkpoint and start once with --rebuild."
            )

    def has_batches(self) -> bool:
        """Whether a query has begun a batch with it. Without one, Spark would start from the beginning."""
        offsets = self._child("offsets")
        if not self._file_system.exists(offsets):
            return False
        return any(status.getPath().getName().isdecimal() for status in self._file_system.listStatus(offsets))


def _cause(problem: Py4JJavaError) -> str:
    """The innermost message of a Java exception."""
    exception = problem.java_exception
    while exception.getCause() is not None:
        exception = exception.getCause()
    return str(exception.getMessage() or exception.getClass().getSimpleName()).rstrip(".")


def _has_run(config: StreamingConfig, report: TopicReport, shard: int) -> bool:
    """Whether this shard has ever written outputs.

    The output topics are those of all shards; of several, one that has run has left its ticks in its partition.
    """
    if not _hold_records(config, {name: report.partitions[name] for name in report.topics.outputs if name not in report.created}):
        return False
    return config.shards == 1 or _has_ticks(config, report.topics.events, shard)


def _hold_records(config: StreamingConfig, partitions: Mapping[str, int]) -> bool:
    """Whether any record was ever written to these topics, deleted ones included."""
    latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
    ends = {TopicPartition(topic, number): latest for topic, count in partitions.items() for number in range(count)}
    admin = admin_client(config.bootstrap_servers, config.client_properties)
    deadline = time.monotonic() + POLL_TIMEOUT_S
    while ends:
        try:
            futures = admin.list_offsets(ends, request_timeout=POLL_TIMEOUT_S)
            return any(future.result().offset > 0 for future in futures.values())
        except KafkaException as problem:
            # A broker that has just started, or a topic that somebody has just made.
            if problem.args[0].code() not in _NOT_YET or time.monotonic() >= deadline:
                raise
            time.sleep(RETRY_INTERVAL_S)
    return False


def _has_ticks(config: StreamingConfig, topic: str, partition: int) -> bool:
    with open_reader(config.client_properties) as consumer:
        return last_tick_ms(consumer, topic, partition, config.group.tick_ahead_bound_ms) is not None


def _require_whole_log(config: StreamingConfig, topic: str, partition: int) -> None:
    with open_reader(config.client_properties) as consumer:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=POLL_TIMEOUT_S)
    if low > 0:
        raise CheckpointError(
            f"The lost checkpoint of shard {partition} cannot be rebuilt: {topic}, partition {partition}, begins at offset "
            f"{low}, so the events that made the groups are deleted. Save the committed offsets by `group-coordinator "
            "offsets export`, start under a new --topic-prefix and bring them back by `group-coordinator offsets import`."
        )
