"""`replay`: a recorded log of events through the same core again."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import tzinfo
from functools import partial
from heapq import merge
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import Struct

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.log_options import BrokerLogs, TimeZone, zone
from group_coordinator.command_line.options import OPERATIONS, with_settings
from group_coordinator.command_line.output_options import (
    OutOption,
    ReportOption,
    TablesFormat,
    TablesFormatOption,
    TablesOption,
)
from group_coordinator.command_line.progress import Advance, count_progress
from group_coordinator.command_line.replay_output import history_outputs
from group_coordinator.command_line.signals import was_interrupted
from group_coordinator.command_line.tables import print_line
from group_coordinator.command_line.times import parse_moment_ms, shown_zone
from group_coordinator.coordinating.commands import history_tables
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.coordinating.commands.spark_jvm import (
    end_jvm,
    java_cause,
    quiet_start,
    require_spark,
    without_values,
)
from group_coordinator.ground.kafka_topics.reader import partition_count
from group_coordinator.ground.settings.topic_names import Topics
from group_coordinator.proving.commands.broker_log_report import given_settings
from group_coordinator.proving.commands.replay_source import (
    ReplaySource,
    replay_source,
    require_sources,
    watched_source,
    write_events,
)
from group_coordinator.proving.recordings.broker_settings import RULES
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.watching.commands.observed_source import is_dump
from group_coordinator.watching.commands.served_page import new_index
from group_coordinator.watching.commands.summary import Summary
from group_coordinator.watching.dashboard.report import report_of_index
from group_coordinator.watching.narrative import words
from group_coordinator.watching.tables.destination import require_writable, write_history
from schemas.history import History, decode_history
from schemas.output_records import OutputRecord
from streaming.config import StreamingConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from schemas.output_records import OutputRecord



Group = tuple[bytes | None, list[OutputRecord]]
"""The group's key, and its outputs."""


def with_told(groups: Iterable[Group], told: Iterable[History], topic: str) -> Iterator[Group]:
    """Return the outputs of groups that were coordinated again, and the history of those that were not; all in the
    order of their keys."""
    records = ((record.key, record) for record in history_outputs(told, topic))
    others = [(key, [record for _, record in of_group]) for key, of_group in groupby(records, itemgetter(0))]
    others.sort(key=_by_key)
    yield from merge(groups, others, key=_by_key)


def _by_key(group: Group) -> tuple[bool, bytes]:
    return group[0] is not None, group[0] or b""


def with_told_rows(outputs: DataFrame, told: Iterable[History], topic: str) -> DataFrame:
    """Return rows of `OUTPUT_SCHEMA` with the history of groups that were not coordinated again."""
    from streaming.rows import OUTPUT_SCHEMA, output_columns  # its packages come with Spark

    columns = output_columns([(record.key, [record]) for record in history_outputs(told, topic)])
    return outputs.union(outputs.sparkSession.createDataFrame(list(zip(*columns, strict=True)), OUTPUT_SCHEMA))


_PROGRESS_EVERY = 500
_PYTHON_CAUSE = re.compile(r"^[\w.]+(?:Error|Exception): .+$", re.MULTILINE)


TopicNames = Annotated[
    Path | None, typer.Option(metavar="FILE.json", help="Names of topics by their ids, where a dump has ids alone.")
]


class _Outputs(Struct, frozen=True, kw_only=True):
    """The outputs that were asked for."""

    out: Path | None
    tables: str | None
    tables_kind: TablesFormat
    report: Path | None


_Sources = Annotated[
    list[str], typer.Argument(metavar="FILE|TOPIC...", help="Files of events, request logs or dumps, or one topic.")
]
_InProcess = Annotated[
    bool,
    typer.Option(
        "--in-process", help="Without Spark: quick for logs that fit into memory; the outputs are the same."
    ),
]
_Until = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Let the clock go on after the log's end until then: 2026-11-21T14:00+01:00."
    ),
]
_Utc = Annotated[bool, typer.Option("--utc", help="Print times in UTC. [default: the local time zone]")]


@with_settings(but=OPERATIONS, of=StreamingConfig)
def replay(
    settings: Settings,
    sources: _Sources,
    out: OutOption = None,
    in_process: _InProcess = False,
    tables: TablesOption = None,
    tables_format: TablesFormatOption = TablesFormat.delta,
    report: ReportOption = None,
    until: _Until = None,
    utc: _Utc = False,
    time_zone: TimeZone = "UTC",
    broker_log: BrokerLogs = None,
    topic_names: TopicNames = None,
) -> None:
    """Run a recorded log of group events through the coordinator again: what was decided, when, and why.

    The log is files of events (.jsonl, .jsonl.gz, .parquet), brokers' request logs (any other file), or an
    events topic. The same log with the same settings gives the same bytes.

    Request logs are followed: what is told is what the brokers did, with the settings that their answers show. Where a
    flag (`--group-max-size` ...) contradicts them, the summary begins with it. Other settings: *What if* (dashboard).

    A dump of a cluster's `__consumer_offsets` (NAME.offsets.jsonl) tells what happened there; with its brokers' server
    logs (`--broker-log`) also why. Nothing is coordinated again, without Spark. Beside request logs they complete them.

    Examples:

        group-coordinator replay prod.offsets.jsonl.gz --broker-log 'server.log*' --report incident.html
        group-coordinator replay broker-*/kafka-request.log* --broker-log 'broker-*/server.log' --in-process
        group-coordinator replay events.jsonl.gz --out replayed/
        group-coordinator explain --group billing --from replayed/
        group-coordinator replay kafka-request.log.gz --in-process --tables tables/ --report incident.html
        group-coordinator replay coordinator.events --bootstrap-servers broker:9092 --out replayed/
    """
    require_sources(sources, settings.config.client_properties, in_process=in_process)
    if tables is not None and (in_process or any(map(is_dump, sources))):
        require_writable(tables, tables_format.value)
    zone_shown = shown_zone(utc=utc)
    watched = watched_source(sources, broker_log or (), topic_names, zone(time_zone), zone_shown)
    if watched is None:
        require_spark(java=not in_process)
    outputs = _Outputs(out=out, tables=tables, tables_kind=tables_format, report=report)
    job = _Job(settings, outputs, 0 if until is None else parse_moment_ms("--until", until))
    began_s = time.monotonic()
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="group-coordinator-replay-")))
        source = watched or replay_source(
            sources, broker_log or (), scratch, out, zone(time_zone), given_settings(settings), zone_shown
        )
        job.prepare(source)
        if source.history is not None:
            job.take_history(source.history)
        elif in_process:
            job.run_in_process(source)
        else:
            job.run_on_spark(source, scratch)
        job.note_source(source)
    if report is not None:
        job.write_report(report, ", ".join(sources))
    _tell(job, source, outputs, zone_shown, began_s)


def _tell(job: _Job, source: ReplaySource, outputs: _Outputs, zone_shown: tzinfo, began_s: float) -> None:
    """The summary, and where everything lies."""
    for line in job.summary.lines(zone_shown):
        print_line(line)
    print_line()
    for line in source.remarks:
        print_line(line)
    print_line(f"{job.written()} in {words.duration(int((time.monotonic() - began_s) * 1000))}.")
    if outputs.report is not None:
        print_line(f"Look at it: {outputs.report}")
    if outputs.tables is not None:
        print_line(f"Tables ({outputs.tables_kind.value}): {outputs.tables}")
    if outputs.out is not None:
        print_line(f"Ask why: group-coordinator explain --from {outputs.out} --group GROUP")
        print_line(f"See it:  group-coordinator dashboard --from {outputs.out}")
    job.insist_on_something()


class _Job:
    """One replay: outputs go where they were asked for, and into the summary."""

    def __init__(self, settings: Settings, outputs: _Outputs, until_ms: int) -> None:
        self.summary = Summary()
        self._settings = settings
        self._config: StreamingConfig = settings.config
        self._outputs = outputs
        self._out = outputs.out
        self._until_ms = until_ms
        self._counts: dict[str, int] = {}
        self._history_topic = self._config.topics.history
        self._index = None if outputs.report is None else new_index(settings.config)
        self._for_tables: list[History] | None = None
        """The history, where this process makes the tables."""

    def run_in_process(self, source: ReplaySource) -> None:
        from streaming.event_log import read_records
        from streaming.replay import replay_in_process

        with count_progress("groups") as advance, told_by_replay(self._config.spark):
            events = read_records(source.files) if source.followed is None else EventsImport(source.followed)
            groups = replay_in_process(events, self._config, until_ms=self._until_ms)
            self._take_with_tables(_counted(with_told(groups, source.told_by_records, self._history_topic), advance))

    def take_history(self, history: Iterable[History]) -> None:
        """Take the history of a watched cluster, where nothing is left to decide."""
        self._take_with_tables(history_outputs(history, self._history_topic))

    def _take_with_tables(self, records: Iterable[OutputRecord]) -> None:
        self._for_tables = None if self._outputs.tables is None else []
        self._take(records)
        if self._outputs.tables is not None:
            write_history(self._for_tables or (), self._outputs.tables, self._outputs.tables_kind.value)

    def run_on_spark(self, source: ReplaySource, scratch: Path) -> None:
        from streaming.packed_outputs import output_records
        from streaming.replay import replay_batch
        from streaming.session import open_session

        if source.topic is not None and self._settings.sources["shards"] == "default":
            shards = partition_count(self._config.client_properties, source.topic)
            self._config = self._config.changed(shards=shards)
        if self._outputs.tables is not None:
            self._config = history_tables.for_tables(self._config, self._outputs.tables_kind)
        with quiet_start(self._config.spark):
            spark = open_session(self._config)
        try:
            with told_by_replay(self._config.spark), count_progress("outputs") as advance:
                records = self._records(spark, source, scratch)
                outputs = replay_batch(records, self._config, until_ms=self._until_ms)
                if source.told_by_records:
                    outputs = with_told_rows(outputs, source.told_by_records, self._history_topic)
                if self._outputs.tables is not None:
                    outputs = outputs.persist()
                    history_tables.write_with_spark(
                        outputs, self._config, self._outputs.tables, self._outputs.tables_kind
                    )
                self._take(_counted_outputs(output_records(outputs), advance))
        finally:
            spark.stop()
            end_jvm()

    def prepare(self, source: ReplaySource) -> None:
        """Take the settings that the log was coordinated with; say what is doubtful at the top of summary and
        report."""
        rules = source.settings.get(RULES, self._config.rules_at_first)
        self._config = self._config.changed(**{**source.settings, "rules_at_first": rules})
        self.summary.doubts = source.doubts
        if self._index is not None:
            self._index.doubts, self._index.watched = source.doubts, source.watched

    def note_source(self, source: ReplaySource) -> None:
        """Write beside the outputs what was replayed, so that it can be replayed again."""
        if self._out is not None:
            source.write_note(self._out, self._config.group)

    def write_report(self, path: Path, title: str) -> None:
        """Write the dashboard's pages into one file."""
        assert self._index is not None
        path.write_text(report_of_index(self._index, title), encoding="utf-8")

    def insist_on_something(self) -> None:
        """Raise CommandError if no event could be read."""
        if not self._counts:
            raise CommandError("Nothing was replayed: there is no request in it.")
        if self._counts.keys() == {"dead-letters"}:
            raise CommandError(
                "Nothing was replayed: every record is a dead letter. Are these events? (A dump of "
                "__consumer_offsets is called NAME.offsets.jsonl.)"
            )

    def written(self) -> str:
        """Return the result, in words."""
        counts = ", ".join(f"{number} {name.replace('-', ' ')}" for name, number in sorted(self._counts.items()))
        destination = f", written to {self._out}/" if self._out else ""
        return f"Replayed {words.count(len(self.summary.groups), 'group')}: {counts or 'no outputs'}{destination},"

    def _records(self, spark: SparkSession, source: ReplaySource, scratch: Path) -> DataFrame:
        from streaming.event_log import records_of_files, records_of_topic

        if source.topic is not None:
            return records_of_topic(spark, self._config, source.topic)
        if source.followed is None:
            return records_of_files(spark, source.files)
        file = scratch / "events.jsonl"
        with file.open("wb") as lines:
            write_events(source.followed, lines)
        return records_of_files(spark, [file])

    def _take(self, records: Iterable[OutputRecord]) -> None:
        from group_coordinator.ground.output_files import write_files

        note = partial(self._note, self._config.topics)
        if self._out is not None:
            write_files(records, self._config.topics, self._out, note)
        else:
            for record in records:
                note(record)

    def _note(self, topics: Topics, record: OutputRecord) -> None:
        name = record.topic.removeprefix(f"{self._config.topic_prefix}.")
        self._counts[name] = self._counts.get(name, 0) + 1
        if record.topic == topics.history and record.value is not None:
            decoded = decode_history(record.value)
            self.summary.add(decoded)
            if self._for_tables is not None:
                self._for_tables.append(decoded)
            if self._index is not None:
                self._index.add_record(decoded, record.value)
        elif record.topic == topics.dead_letters and self._index is not None:
            self._index.add_dead_letter(record.key, record.value, record.headers, 0)


# -------------------------------------------------------------------------------------------- progress and failures


@contextmanager
def told_by_replay(settings: Mapping[str, str]) -> Iterator[None]:
    """Tell what is wrong with a log, or with Spark, in a line, without the values of these settings of Spark."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    from streaming.event_log import EventLogError

    try:
        yield
    except EventLogError as problem:
        raise CommandError(str(problem)) from problem
    except PySparkException as problem:
        causes = _PYTHON_CAUSE.findall(str(problem))
        cause = causes[-1] if causes else str(problem).splitlines()[0]
        raise CommandError(without_values(cause, settings)) from problem
    except Py4JError as problem:
        if was_interrupted():
            # The clean-up met a connection to the JVM that was cut in the middle of an answer.
            raise KeyboardInterrupt from problem
        raise CommandError(f"Spark has failed: {java_cause(problem, settings)}") from problem


def _counted(
    groups: Iterable[tuple[bytes | None, list[OutputRecord]]], advance: Advance
) -> Iterator[OutputRecord]:
    for number, (_, records) in enumerate(groups, start=1):
        advance(number, 0)
        yield from records


def _counted_outputs(records: Iterable[OutputRecord], advance: Advance) -> Iterator[OutputRecord]:
    for number, record in enumerate(records, start=1):
        if not number % _PROGRESS_EVERY:
            advance(number, 0)
        yield record
