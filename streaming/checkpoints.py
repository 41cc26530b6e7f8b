"""Before a query starts, its checkpoint must be writable, and it must not be one that got lost.

A query that finds no checkpoint begins at the beginning of the events topic. That is right for a new coordinator; where
the outputs are already written somebody has to say so (`rebuild`). Paths are those of any file system that Spark knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from coordinator_state import RuleChange
from streaming.config import StreamingConfig
from streaming.events_tail import last_tick_ms, open_reader
from streaming.stored_group import CommittedBatch
from streaming.topics import TopicReport

_PROBE = b"group-coordinator " * 256
"""Larger than what a full file system may still take in passing."""
_BUCKETS_NOTE = "group_buckets"
"""A file with the number that the checkpoint was made with."""
REMEDY = (
    "Use a copy of the checkpoint, or name a new directory by --checkpoint and start once with --rebuild, which "
    "decides all events anew from the beginning of the events topic (docs/recovery.md)."
)
"""Of a checkpoint that is damaged."""
_TOPICS_NOTE = "topic_ids"
"""A file with the ids of the topics that the checkpoint was made with, by their names."""
_RULES_NOTE = "kafka_rules"
"""A file with the changes of the log's rules that the query knows of."""
_FAILURES = (Py4JJavaError, PySparkException)
"""PySpark makes exceptions of its own of some of Java's."""
_VERSION = re.compile(r"v\d+")
_Noted = TypeVar("_Noted")


class CheckpointError(RuntimeError):
    """A checkpoint cannot be used as it is. The message names the remedy."""


def checkpoint_of(config: StreamingConfig, shard: int) -> str:
    """Return the directory of a shard's checkpoint."""
    return f"{config.checkpoint.rstrip('/')}/shard-{shard}"


def require_checkpoints(spark: SparkSession, config: StreamingConfig, report: TopicReport, *, rebuild: bool) -> None:
    """Check the checkpoints of the shards of this process. Raises CheckpointError.

    `rebuild`: a checkpoint that is not there is made anew from the beginning of the events topic; one that is there is
    used all the same.
    """
    directories = {shard: Directory(spark, checkpoint_of(config, shard)) for shard in config.shards_here}
    for directory in directories.values():
        directory.require_writable()
        directory.require_whole()
    empty = [shard for shard, directory in directories.items() if not directory.has_batches()]
    if rebuild:
        for shard in empty:
            if log_begin := _log_begin(config, report, shard):
                raise CheckpointError(no_rebuild(shard, report.topics.events, log_begin))
    elif lost := [shard for shard in empty if _has_run(config, report, shard)]:
        where = ", ".join(checkpoint_of(config, shard) for shard in lost)
        raise CheckpointError(
            f"There is no checkpoint in {where}, but the output topics of {config.topic_prefix} hold records, so this "
            "coordinator has run before: name the directory that it had by --checkpoint or, if the checkpoint is lost, "
            "start once with --rebuild, which decides all events anew from the beginning of the events topic."
        )
    for shard, directory in directories.items():
        if shard not in empty and (buckets := directory.buckets()) != config.group_buckets:
            raise CheckpointError(
                f"group_buckets is {config.group_buckets}, but the checkpoint {directory.path} was made with "
                f"{buckets}. "
                f"{move_remedy(buckets, shard, report.topics.events, _log_begin(config, report, shard))}"
            )
    for shard in empty:
        directories[shard].note_buckets(config.group_buckets)


def no_rebuild(shard: int, events: str, log_begin: int) -> str:
    """Return why a shard cannot be rebuilt, and what to do. `log_begin` is the first offset of its partition."""
    return (
        f"The groups of shard {shard} cannot be rebuilt: {events}, partition {shard}, begins at offset {log_begin}, so "
        "the events that made the groups are deleted. Save the committed offsets by `group-coordinator offsets "
        "export`, start under a new --topic-prefix and bring them back by `group-coordinator offsets import` "
        "(docs/recovery.md)."
    )


def move_remedy(buckets: int, shard: int, events: str, log_begin: int) -> str:
    """Return what to do if a checkpoint has another number of buckets than the setting."""
    if log_begin:
        return f"Set it to {buckets}. {no_rebuild(shard, events, log_begin)}"
    return (
        f"Set it to {buckets}. Or move the groups: name a new directory by --checkpoint and start once with --rebuild, "
        "which decides all events anew from the beginning of the events topic (docs/recovery.md)."
    )


def committed_batch(spark: SparkSession, config: StreamingConfig, shard: int) -> CommittedBatch | None:
    """Return the last committed batch of a shard; None if no batch is committed. Raises CheckpointError."""
    directory = Directory(spark, checkpoint_of(config, shard))
    try:
        return directory.committed_batch(config.topics.events, shard)
    except (*_FAILURES, ValueError, KeyError) as problem:
        raise CheckpointError(
            f"The checkpoint {directory.path} cannot be read: {type(problem).__name__}: {_cause(problem)}. {REMEDY}"
        ) from problem


def require_same_buckets(spark: SparkSession, config: StreamingConfig, shard: int) -> None:
    """Raise CheckpointError if a shard's checkpoint was made with another number of buckets: its groups could not be
    read."""
    directory = Directory(spark, checkpoint_of(config, shard))
    if (buckets := directory.buckets()) != config.group_buckets:
        raise CheckpointError(
            f"group_buckets is {config.group_buckets}, but the checkpoint {directory.path} was made with {buckets}: "
            f"set it to {buckets}."
        )


class Directory:
    """A directory of a file system that Spark knows."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        self.path = path
        context: Any = spark.sparkContext
        hadoop = context._jvm.org.apache.hadoop.fs
        try:
            self._directory = hadoop.Path(path)
            self._file_system = self._directory.getFileSystem(context._jsc.hadoopConfiguration())
        except _FAILURES as problem:
            raise CheckpointError(f"The checkpoint directory {path} cannot be reached: {_cause(problem)}.") from problem
        self._child: Callable[[str], Any] = lambda name: hadoop.Path(self._directory, name)

    def require_writable(self) -> None:
        """Raise CheckpointError if nothing can be written: a wrong path, no permission, a full disk."""
        probe = self._child(".probe")
        try:
            self._file_system.mkdirs(self._directory)
            stream = self._file_system.create(probe)
            try:
                stream.write(_PROBE)
            finally:
                stream.close()
            self._file_system.delete(probe, False)
        except _FAILURES as problem:
            raise CheckpointError(
                f"The checkpoint directory {self.path} cannot be written: {_cause(problem)}."
            ) from problem

    def note_buckets(self, group_buckets: int) -> None:
        """Write down the number that the checkpoint is made with: with another one Spark would find no group."""
        self._note(_BUCKETS_NOTE, str(group_buckets))

    def buckets(self) -> int:
        """Return the number of buckets that the checkpoint was made with. Raises CheckpointError."""
        return self._noted(
            _BUCKETS_NOTE, Annotated[int, msgspec.Meta(ge=0)], 0, "the number that group_buckets was when the "
            "checkpoint was made. Write the number into it (0 unless you had set another one). Or:"
        )  # fmt: skip

    def note_topic_ids(self, topic_ids: Mapping[str, str]) -> None:
        """Write down the ids of the topics that the checkpoint is of."""
        self._note(_TOPICS_NOTE, json.dumps(topic_ids))

    def topic_ids(self) -> dict[str, str]:
        """Return the ids of the topics that the checkpoint was made with; none where it does not tell. Raises
        CheckpointError."""
        return self._noted(
            _TOPICS_NOTE, dict[str, str], {}, "the ids of the topics that the checkpoint was made with. If they have "
            "not been deleted since, remove the file. Or:"
        )  # fmt: skip

    def note_rule_changes(self, changes: Sequence[RuleChange]) -> None:
        """Write down the changes of the log's rules. No batch is committed that has one which is not noted."""
        self._note(_RULES_NOTE, json.dumps(changes))

    def rule_changes(self) -> tuple[RuleChange, ...]:
        """Return the changes of the log's rules that the checkpoint knows of. Raises CheckpointError."""
        changes = "the changes of the rules by which the log was decided."
        return self._noted(_RULES_NOTE, tuple[RuleChange, ...], (), changes)

    def _note(self, name: str, text: str) -> None:
        stream = self._file_system.create(self._child(name), True)
        stream.writeBytes(f"{text}\n")
        stream.close()

    def _noted(self, name: str, kind: Any, absent: _Noted, meaning: str) -> _Noted:
        """Read a note; `absent`: there is none. `meaning`: what it has, and what to do. Raises CheckpointError."""
        note = self._child(name)
        if not self._file_system.exists(note):
            return absent
        try:
            noted: _Noted = msgspec.json.decode("".join(self._lines(note)), type=kind)
        except msgspec.DecodeError:
            raise CheckpointError(f"The file {note} is damaged: it has {meaning} {REMEDY}") from None
        return noted

    def planned_end(self, events: str, shard: int) -> int | None:
        """Return the offset up to which the last batch that was begun reads; None if no note tells."""
        batches = self._batches("offsets")
        try:
            return int(json.loads(self._lines(batches[max(batches)])[2])[events][str(shard)])
        except (ValueError, KeyError, IndexError, TypeError):
            return None

    def has_batches(self) -> bool:
        """Return whether a query has begun a batch with this checkpoint. If not, Spark would start from the beginning.
        """
        return bool(self._batches("offsets"))

    def require_whole(self) -> None:
        """Raise CheckpointError if Spark's notes of the last batch cannot be read, as after a power cut. Damage of the
        state itself shows only in the query."""
        files = [batches[max(batches)] for name in ("offsets", "commits") if (batches := self._batches(name))]
        if self._file_system.exists(self._child("metadata")):
            files.append(self._child("metadata"))
        for file in files:
            try:
                lines = self._lines(file)
            except _FAILURES as problem:
                raise CheckpointError(
                    f"The file {file} of the checkpoint cannot be read: {_cause(problem)}. {REMEDY}"
                ) from problem
            if not _is_note(lines):
                raise CheckpointError(
                    f"The file {file} of the checkpoint is damaged{'' if lines else ': it is empty'}. {REMEDY}"
                )

    def committed_batch(self, events: str, shard: int) -> CommittedBatch | None:
        """Return the last batch that is committed. Raises `_FAILURES`, ValueError and KeyError."""
        return self._last_batch("commits", events, shard)

    def begun_batch(self, events: str, shard: int) -> CommittedBatch | None:
        """Return the last batch that was begun, in the form of one that is committed. Raises `_FAILURES`, ValueError
        and KeyError."""
        return self._last_batch("offsets", events, shard)

    def _last_batch(self, log: str, events: str, shard: int) -> CommittedBatch | None:
        batches, offsets = self._batches(log), self._batches("offsets")
        if not batches:
            return None
        batch_id = max(batches)
        _, about, end = self._lines(offsets[batch_id])
        start = None if batch_id == 0 else json.loads(self._lines(offsets[batch_id - 1])[2])[events][str(shard)]
        return CommittedBatch(
            batch_id, start, json.loads(end)[events][str(shard)], json.loads(about)["batchWatermarkMs"]
        )

    def _batches(self, name: str) -> dict[int, Any]:
        """The notes of batches in one of Spark's logs, by the batch's number."""
        directory = self._child(name)
        if not self._file_system.exists(directory):
            return {}
        paths = (status.getPath() for status in self._file_system.listStatus(directory))
        return {int(path.getName()): path for path in paths if path.getName().isdecimal()}

    def _lines(self, file: Any) -> list[str]:
        """The lines of a small file. Raises `_FAILURES`."""
        stream = self._file_system.open(file)
        try:
            return bytes(stream.readAllBytes()).decode(errors="replace").splitlines()
        finally:
            stream.close()


def _is_note(lines: list[str]) -> bool:
    """Return whether a line is one of Spark's: a version, or none, and then JSON; a dash is a source without an offset.
    """
    notes = lines[1:] if lines and _VERSION.fullmatch(lines[0]) else lines
    try:
        return bool(notes) and all(note == "-" or json.loads(note) is not None for note in notes)
    except ValueError:
        return False


def _cause(problem: Exception) -> str:
    """The innermost message of a Java exception."""
    if not isinstance(problem, Py4JJavaError):
        return str(problem).splitlines()[0].rstrip(".")
    exception = problem.java_exception
    while exception.getCause() is not None:
        exception = exception.getCause()
    return str(exception.getMessage() or exception.getClass().getSimpleName()).rstrip(".")


def _has_run(config: StreamingConfig, report: TopicReport, shard: int) -> bool:
    """Return whether this shard has ever written outputs.

    The output topics are those of all shards; of several, one that has run has left its ticks in its partition. Answers
    are no sign: a responder may have given them before the query's first batch. Where there are no other outputs there
    has never been a group.
    """
    names = [name for name in report.topics.outputs if name not in (*report.created, report.topics.responses)]
    if not _hold_records(config, {name: report.partitions[name] for name in names}):
        return False
    return config.shards == 1 or _has_ticks(config, report.topics.events, shard)


def _hold_records(config: StreamingConfig, partitions: Mapping[str, int]) -> bool:
    """Return whether these topics have ever had a record, deleted ones included."""
    places = [(topic, number) for topic, count in partitions.items() for number in range(count)]
    with open_reader(config.client_properties) as reader:
        return any(reader.bounds_when_led(*place).end > 0 for place in places)


def _has_ticks(config: StreamingConfig, topic: str, partition: int) -> bool:
    with open_reader(config.client_properties) as reader:
        return last_tick_ms(reader, topic, partition, config.group.tick_ahead_bound_ms) is not None


def _log_begin(config: StreamingConfig, report: TopicReport, shard: int) -> int:
    """The first offset of the shard's events: beyond 0, the events before it are deleted."""
    with open_reader(config.client_properties) as reader:
        return reader.bounds_when_led(report.topics.events, shard).begin
