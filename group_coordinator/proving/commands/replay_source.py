"""A replay reads files of events, one topic, or the request log of a broker, which is followed."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from typing import BinaryIO

from confluent_kafka import KafkaException
from msgspec import Struct
from msgspec.structs import replace

from coordinator_state import GroupConfig
from group_coordinator.command_line import doubts
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.progress import bytes_progress
from group_coordinator.command_line.tables import print_line
from group_coordinator.coordinating.commands.spark_jvm import require_spark
from group_coordinator.ground.kafka_topics.clients import new_admin_client
from group_coordinator.proving.commands import broker_log_report
from group_coordinator.proving.commands.best_source import told_by_records
from group_coordinator.proving.commands.import_log import DeadLetters, Evidence, nothing_to_tell, read_evidence
from group_coordinator.proving.commands.what_if_player import EVENTS_FILE, ReplayedLog
from group_coordinator.proving.recordings.broker_settings import RULES, Setting
from group_coordinator.proving.recordings.events_import import EventsImport
from group_coordinator.proving.recordings.following import Following
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.log_doubts import doubts_of
from group_coordinator.watching.commands.observed_source import is_dump, observed_source
from group_coordinator.watching.dashboard.notes import Note
from group_coordinator.watching.dashboard.watched import Watched, WatchedSource
from group_coordinator.watching.narrative import words
from schemas.history import History
from schemas.records_file import encode_record

_EVENT_SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".parquet")
_TIMEOUT_S = 15.0
_CONNECT_TIMEOUT_S = 3.0
_FILE_SUFFIXES = (*_EVENT_SUFFIXES, ".log", ".gz")


class ReplaySource(Struct, frozen=True, kw_only=True):
    """The log to replay: files of events, one topic, or request logs that were followed."""

    files: tuple[Path, ...] = ()
    topic: str | None = None
    followed: Following | None = None
    """Request logs in place of files and topic: their events are replayed."""
    lasting_files: tuple[str, ...] = ()
    """Where the events will be found later."""
    doubts: tuple[str, ...] = ()
    """Why what they tell may not be what happened."""
    settings: Mapping[str, Setting] = {}
    """Settings that the log was coordinated with, where it says so."""
    remarks: tuple[str, ...] = ()
    """What there is to say of how the log was read."""
    history: tuple[History, ...] | None = None
    """Of a watched cluster: nothing is coordinated again, this is what happened. None: there are events to replay."""
    watched: tuple[Watched, ...] = ()
    """From which sources that is known, where another coordinator decided."""
    told_by_records: tuple[History, ...] = ()
    """Of groups that records tell better than the events, which do not have them then."""

    def write_note(self, directory: Path, group: GroupConfig) -> None:
        """Say beside the outputs what was replayed, for those who want to play it again. Raises OSError."""
        if self.history is not None:
            Note(doubts=self.doubts, watched=self.watched).write(directory)
        else:
            ReplayedLog(
                files=self.lasting_files, topic=self.topic, group=group, doubts=self.doubts, watched=self.watched
            ).write(directory)


def replay_source(
    names: list[str],
    broker_logs: Sequence[str],
    scratch: Path,
    out: Path | None,
    time_zone: tzinfo,
    flags: Mapping[str, Setting],
    shown_zone: tzinfo,
) -> ReplaySource:
    """Return the events of what is to be replayed. `flags` has the broker's settings that flags name. Raises
    CommandError."""
    paths = [Path(name) for name in names]
    if _may_be_topic(names):
        return ReplaySource(topic=names[0], settings={name: flags[name] for name in flags if name == RULES})
    dumps = [path for path in paths if is_dump(path.name)]
    logs = [path for path in paths if path not in dumps]
    are_events = {path.name.endswith(_EVENT_SUFFIXES) for path in logs}
    if are_events == {True}:
        if dumps or broker_logs:
            raise CommandError("Brokers' logs go with a dump of an offsets topic, or with request logs.", WRONG_USE)
        return _of_events(paths, flags)
    if are_events == {True, False}:
        raise CommandError(
            "Files of events (.jsonl, .parquet) and request logs cannot be replayed together.", WRONG_USE
        )
    request_logs = _RequestLogs(logs, dumps, broker_logs, time_zone)
    return request_logs.source(scratch, out, flags, shown_zone)


def require_sources(names: Sequence[str], properties: Mapping[str, str], *, in_process: bool) -> None:
    """Raise CommandError at once where a name is that of no file and of no topic: what reads them takes its time to
    start. Raise JavaError where a topic is named, and the JVM that reads it could not start."""
    if _may_be_topic(names):
        if in_process:
            raise CommandError(
                f"There is no file {names[0]}. (If it is a topic: Spark replays topics, without --in-process.)",
                WRONG_USE,
            )
        require_spark()  # which a broker need not be asked for
        require_topic(names[0], properties)
        return
    missing = [name for name in names if not Path(name).is_file()]
    if missing:
        also = " (and only one topic can be replayed at a time)" if len(names) > 1 else ""
        raise CommandError(f"{_no_file(missing[0])}{also}.")


def _no_file(name: str) -> str:
    path = Path(name)
    if path.is_symlink() and not path.exists():
        return f"{name} is no file: it is a link to {path.readlink()}, which is not there"
    return f"{name} is a directory, and no file" if path.is_dir() else f"There is no file {name}"


def require_topic(name: str, properties: Mapping[str, str]) -> None:
    """Raise CommandError where Kafka has no topic of this name, or does not answer."""
    servers = properties["bootstrap.servers"]
    neither = f"{_no_file(name)}, and if it is a topic: Kafka at {servers}"
    if not any(map(_listens, servers.split(","))):
        raise CommandError(f"{neither} does not answer.")
    try:
        topics = new_admin_client(properties).list_topics(timeout=_TIMEOUT_S).topics
    except KafkaException as problem:
        raise CommandError(f"{neither} does not answer: {problem.args[0].str()}.") from None
    if name not in topics:
        raise CommandError(f"{neither} has none of this name.")


def _listens(server: str) -> bool:
    """Whether somebody takes connections there; False at once where nobody does."""
    host, _, port = server.strip().rpartition(":")
    try:
        socket.create_connection((host.strip("[]").rpartition("//")[2], int(port)), _CONNECT_TIMEOUT_S).close()
    except ConnectionRefusedError:
        return False
    except (OSError, ValueError):
        return True  # the client knows better
    return True


def _may_be_topic(names: Sequence[str]) -> bool:
    return (
        len(names) == 1
        and not Path(names[0]).exists()
        and not Path(names[0]).is_symlink()
        and "/" not in names[0]
        and not names[0].endswith(_FILE_SUFFIXES)
    )


def watched_source(
    names: Sequence[str], broker_logs: Sequence[str], topic_names: Path | None, time_zone: tzinfo, shown_zone: tzinfo
) -> ReplaySource | None:
    """Return what dumps of an offsets topic and brokers' logs tell; None unless all files are dumps. Raises
    CommandError."""
    dumps = [Path(name) for name in names if is_dump(name)]
    if len(dumps) < len(names):
        if topic_names is not None:
            raise CommandError("--topic-names goes with a dump of an offsets topic alone.", WRONG_USE)
        return None
    observed = observed_source(dumps, broker_logs, topic_names, time_zone, shown_zone)
    return ReplaySource(
        history=observed.history, doubts=observed.doubts, remarks=observed.remarks, watched=(observed.watched,)
    )


def _of_events(paths: list[Path], flags: Mapping[str, Setting]) -> ReplaySource:
    settings = broker_log_report.kept_settings(paths)
    return ReplaySource(
        files=tuple(paths),
        lasting_files=tuple(str(path.absolute()) for path in paths),
        doubts=(*broker_log_report.other_settings(settings, flags), *doubts.kept(paths)),
        settings=settings | dict(flags),
    )


class _RequestLogs(Struct, frozen=True):
    """Request logs, and what lies beside them."""

    paths: list[Path]
    dumps: list[Path]
    broker_logs: Sequence[str]
    time_zone: tzinfo

    def source(
        self, scratch: Path, out: Path | None, flags: Mapping[str, Setting], shown_zone: tzinfo
    ) -> ReplaySource:
        """Follow them. All their events are kept beside the outputs. Raises CommandError."""
        letters = DeadLetters((out or scratch) / "damaged-lines.jsonl")
        evidence = read_evidence(self.dumps, self.broker_logs, self.time_zone)
        with bytes_progress("reading the request log") as advance:
            log = RequestLog(
                self.paths,
                time_zone=self.time_zone,
                dead_letter=letters.add,
                progress=advance,
                moments_us=evidence.moments_us,
            )
            log.read()
        following = evidence.follow(log, flags)
        compacted_ms = {} if evidence.dump is None else evidence.dump.compacted_until_ms
        told = told_by_records(log, following, self.dumps, self.broker_logs, self.time_zone, compacted_ms)
        if not following.is_anything_known and not told:
            raise CommandError(nothing_to_tell(log, self.paths))
        if letters.count:
            see_letters = f": see {letters.path}" if out is not None else ""
            damaged = words.count(letters.count, "damaged line")
            print_line(f"{damaged} of the request log left out{see_letters}", error=True)
        told_ids = {record.group_id for record in told}
        if out is not None:
            out.mkdir(parents=True, exist_ok=True)
            with gzip.GzipFile(out / EVENTS_FILE, "wb", compresslevel=1, mtime=0) as compressed:
                write_events(following, compressed)
        coordinated_again = [group for group in following.groups if group.group_id not in told_ids]
        return ReplaySource(
            followed=replace(following, groups=coordinated_again),
            lasting_files=(EVENTS_FILE,),
            doubts=(
                *doubts_of(log), *evidence.doubts, *broker_log_report.doubts(following, shown_zone, frozenset(told_ids))
            ),
            settings=following.settings.all(),
            remarks=(broker_log_report.agreement(following), *broker_log_report.told_by_records(told_ids)),
            watched=(_watched(log, evidence),),
            told_by_records=told,
        )  # fmt: skip


def write_events(following: Following, file: BinaryIO | gzip.GzipFile) -> None:
    """Write the events of request logs that were followed, as lines."""
    file.writelines(encode_record(record) + b"\n" for record in EventsImport(following))


def _watched(log: RequestLog, evidence: Evidence) -> Watched:
    """From which files it is known."""
    names = words.listed([path.name for path in log.paths])
    last_ms = None if log.end_us is None else log.end_us // 1000
    detail = f"{names}; {words.count(log.counts.lines, 'line')}"
    requests = WatchedSource(kind="request_log", name="request logs", detail=detail, to_ms=last_ms, last_ms=last_ms)
    return Watched(cluster=names, sources=(requests, *evidence.sources))
