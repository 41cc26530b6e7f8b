"""`import`: recordings of other systems as events, in a file."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from group_coordinator.command_line import doubts
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.log_options import TimeZone, zone
from group_coordinator.command_line.options import with_settings
from group_coordinator.command_line.progress import bytes_progress
from group_coordinator.command_line.tables import print_line
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.ground.output_files import whole_file
from group_coordinator.proving.commands import broker_log_report
from group_coordinator.proving.recordings.broker_settings import Setting
from group_coordinator.proving.recordings.coordinator_log import CoordinatorLogs, read_coordinator_logs
from group_coordinator.proving.recordings.events_import import EventsImport, ImportCounts
from group_coordinator.proving.recordings.following import Following, follow, moments_us
from group_coordinator.proving.recordings.kafka_request_log import DeadLetter, LogCounts, RequestLog
from group_coordinator.proving.recordings.log_doubts import doubts_of
from group_coordinator.proving.recordings.offsets_log import OffsetsLog, read_offsets_log
from group_coordinator.watching.commands.observed_source import files_of
from group_coordinator.watching.dashboard.watched import WatchedSource
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC
from schemas.events import encode_json
from schemas.records_file import encode_record
from streaming.config import StreamingConfig

_Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Request logs, plain or gzip, in any order.")]
_Out = Annotated[
    Path, typer.Option("--out", metavar="FILE", help="Write events into this file (JSONL; gzip if it ends in .gz).")
]
_DeadLetters = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Damaged lines, with the reason. [default: beside the output]")
]
_Offsets = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A dump of __consumer_offsets (JSONL) that completes the logs.")
]
_BrokerLogs = Annotated[
    list[str] | None,
    typer.Option("--broker-log", metavar="FILE", help="A broker's server.log, or a pattern of files; repeated."),
]


@with_settings("shards", of=StreamingConfig)
def kafka_request_log(
    settings: Settings,
    files: _Files,
    out: _Out,
    dead_letters: _DeadLetters = None,
    offsets: _Offsets = None,
    broker_log: _BrokerLogs = None,
    time_zone: TimeZone = "UTC",
) -> None:
    """Kafka brokers' request logs (their DEBUG lines `Completed request:`) as events that can be replayed.

    Give it all files of all brokers: requests are put in the order of their arrival. Other lines are counted and
    skipped; the requests of groups are held in memory. A tick before each request carries the broker's time, what a
    broker decided otherwise than this coordinator would is in the events, and its settings lie beside the file.

    Examples:

        group-coordinator import kafka-request-log kafka-request.log* --out events.jsonl.gz
        group-coordinator replay events.jsonl.gz --out replayed/
    """
    letters = DeadLetters(dead_letters or Path(f"{out}.dead-letters.jsonl"))
    evidence = read_evidence([] if offsets is None else [offsets], broker_log or (), zone(time_zone))
    log = _read(files, zone(time_zone), letters, evidence.moments_us)
    if not log.counts.group_requests:
        raise CommandError(nothing_to_tell(log, files))
    following = evidence.follow(log, {})
    all_doubts = (*doubts_of(log), *evidence.doubts, *broker_log_report.doubts(following, UTC))
    if not following.is_anything_known:
        raise CommandError(nothing_to_tell(log, files))
    events = EventsImport(following, shard_count=settings.config.shards)
    with whole_file(out) as write:
        for record in events:
            write(encode_record(record) + b"\n")
    broker_log_report.keep_settings(out, following.settings.all())
    doubts.keep(out, all_doubts)
    for line in doubts.lines(all_doubts):
        print_line(line)
    _say_counts(log.counts, letters, events.counts, out)
    print_line(broker_log_report.agreement(following))


def _read(files: Sequence[Path], time_zone: tzinfo, letters: DeadLetters, moments_us: Sequence[int]) -> RequestLog:
    with bytes_progress("reading") as advance:
        log = RequestLog(
            files, time_zone=time_zone, dead_letter=letters.add, progress=advance, moments_us=moments_us
        )
        log.read()
    return log


def _say_counts(counts: LogCounts, letters: DeadLetters, wrote: ImportCounts, written_to: Path) -> None:
    print_line(
        f"Read {words.count(counts.lines, 'line')}: {words.count(counts.group_requests, 'group request')}, "
        f"{words.count(counts.other_requests, 'other request')}, {words.count(counts.other_lines, 'other line')}, "
        f"{counts.damaged_lines} damaged" + (f" (see {letters.path})." if letters.count else ".")
    )
    print_line(
        f"Wrote {words.count(wrote.events, 'event')} of {words.count(wrote.groups, 'group')} and "
        f"{words.count(wrote.ticks, 'tick')} to {written_to}."
    )


def nothing_to_tell(log: RequestLog, files: list[Path]) -> str:
    """Return why a log makes no events, in a sentence or some."""
    counts = log.counts
    lines, damaged = words.count(counts.lines, "line"), counts.damaged_lines
    if not counts.group_requests:
        reason = f"no group requests in {lines}" + (f", {damaged} of which cannot be read" if damaged else "")
        reason += ". Is it a broker's request log at DEBUG?"
    else:
        reason = f"none of {words.count(counts.group_requests, 'group request')} in {lines} can be told."
    return " ".join((f"{', '.join(map(str, files))}: {reason}", *doubts_of(log)))


class DeadLetters:
    """Damaged lines, in a file that is made with the first of them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0

    def add(self, letter: DeadLetter) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab" if self.count else "wb") as file:
            file.write(encode_json(letter) + b"\n")
        self.count += 1


class Evidence(Struct, frozen=True):
    """It is compared with what the request logs tell."""

    dump: OffsetsLog | None
    broker_logs: CoordinatorLogs | None
    sources: tuple[WatchedSource, ...] = ()
    """The files that it was read from."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """Why the dump may not tell what happened."""
        of_dump = () if self.dump is None else self.dump.doubts()
        return (*of_dump, *(() if self.broker_logs is None else self.broker_logs.doubts))

    @property
    def moments_us(self) -> list[int]:
        """When something happened by it, in order."""
        return moments_us(self.dump, self.broker_logs)

    def follow(self, log: RequestLog, settings: Mapping[str, Setting]) -> Following:
        """Follow request logs with it."""
        if self.dump is None:
            return follow(log, settings, None, self.broker_logs)
        dump = self.dump
        return follow(log, settings, dump.by_group, self.broker_logs, dump.markers, dump.compacted_until_ms)


def read_evidence(dumps: Sequence[Path], broker_logs: Sequence[str], time_zone: tzinfo) -> Evidence:
    """Read brokers' logs. `broker_logs` are names or patterns of files. Raises CommandError."""
    if len(dumps) > 1:
        raise CommandError("Request logs go with one dump of the offsets topic.", WRONG_USE)
    try:
        logs = files_of(broker_logs)
        dump = read_offsets_log(dumps[0]) if dumps else None
        of_cluster = None if dump is None else dump.cluster_id
        return Evidence(
            dump,
            read_coordinator_logs(logs, time_zone, of_cluster) if broker_logs else None,
            tuple(_sources(dumps, logs)),
        )
    except (OSError, ValueError) as problem:
        raise CommandError(str(problem)) from problem


def _sources(dumps: Sequence[Path], broker_logs: Sequence[Path]) -> Iterator[WatchedSource]:
    if dumps:
        yield WatchedSource(kind="offsets_log", name=OFFSETS_TOPIC, detail=words.listed([path.name for path in dumps]))
    if broker_logs:
        names = words.listed([path.name for path in broker_logs])
        yield WatchedSource(kind="broker_log", name="brokers' logs", detail=names)
