"""What a watched cluster left: dumps of its offsets topic and its brokers' logs, read from files and put together."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from datetime import tzinfo
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import Struct

from group_coordinator.command_line.errors import CommandError
from group_coordinator.watching.broker_logs.broker_log import BrokerLog
from group_coordinator.watching.broker_logs.text_files import INPUT_NAME, STANDARD_INPUT, named_files
from group_coordinator.watching.dashboard.watched import Watched
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.clock_skew import Skew
from group_coordinator.watching.observed.cluster import observe
from group_coordinator.watching.observed.doubts import doubts, lost_groups, unnamed_topics
from group_coordinator.watching.observed.offsets_log import Entry, OffsetsDump, read_raw
from group_coordinator.watching.watch.cluster_status import OFFSETS_LOG, Cluster, not_known, of_logs
from schemas.history import History
from schemas.kafka.json_form import JsonFormError, uuid_from_json
from schemas.wire import topic_id_text

DUMP_SUFFIXES = (".offsets.jsonl", ".offsets.jsonl.gz")


class ObservedSource(Struct, frozen=True, kw_only=True):
    """The history of a watched cluster."""

    history: tuple[History, ...]
    doubts: tuple[str, ...]
    """Why it may not be what happened, or not all of it."""
    remarks: tuple[str, ...]
    """What there is to say of how it was read."""
    watched: Watched


def is_dump(name: str) -> bool:
    """Return whether a file's name is that of a dump of an offsets topic."""
    return name.endswith(DUMP_SUFFIXES)


def observed_source(
    dumps: Sequence[Path], broker_logs: Sequence[str], topic_names: Path | None, time_zone: tzinfo, shown_zone: tzinfo
) -> ObservedSource:
    """Make a history of dumps and brokers' logs. `broker_logs` are names or patterns of files. Raises CommandError."""
    dump, log = read_files(dumps, broker_logs, time_zone)
    observed = observe(dump.entries(), log.lines, {**log.topic_names, **_names(topic_names)})
    if not observed.history:
        raise CommandError(f"{', '.join(map(str, dumps))}: there is no record of a group in it.")
    return ObservedSource(
        history=tuple(observed.history),
        doubts=(
            *dump.doubts(),
            *log.doubts(),
            *lost_groups(observed.history, _last_ms(dump), shown_zone),
            *doubts(observed.skews, observed.open_transactions, log.left_out, shown_zone),
            *unnamed_topics(observed.unnamed_topics),
        ),
        remarks=(_remark(dump, log),),
        watched=_watched(dumps, dump, log, observed.skews),
    )


def cluster_of(dump: OffsetsDump[Any]) -> str | None:
    """Return the id of the cluster that dumps are of; None where none tells. Raises CommandError where they are of
    several."""
    if len(dump.clusters) > 1:
        of_each = "; ".join(f"{path} is of cluster {cluster_id}" for cluster_id, path in dump.clusters.items())
        raise CommandError(f"These dumps are of several clusters: {of_each}. Give those of one.")
    return next(iter(dump.clusters), None)


def read_files(
    dumps: Sequence[Path], broker_logs: Sequence[str], time_zone: tzinfo
) -> tuple[OffsetsDump[Entry], BrokerLog]:
    """Read dumps and brokers' logs. Raises CommandError."""
    dump = OffsetsDump[Entry]()
    try:
        for path in dumps:
            dump.read_file(path, read_raw)
    except (OSError, ValueError) as problem:
        raise CommandError(str(problem)) from problem
    return dump, read_logs(broker_logs, time_zone, cluster_of(dump))


def read_logs(names: Sequence[str], time_zone: tzinfo, of_cluster: str | None) -> BrokerLog:
    """Read brokers' logs, that of standard input to its end; those of another cluster than this one are left out.
    Raises CommandError."""
    log = BrokerLog(time_zone)
    log.of_cluster = of_cluster
    try:
        for path in files_of([name for name in names if name != STANDARD_INPUT]):
            log.read_file(path)
        if STANDARD_INPUT in names:
            with TemporaryDirectory(prefix="group-coordinator-") as directory:
                path = Path(directory) / INPUT_NAME  # files are looked at before they are read
                with path.open("wb") as file:
                    shutil.copyfileobj(sys.stdin.buffer, file)
                log.read_file(path)
    except (OSError, ValueError) as problem:
        raise CommandError(str(problem)) from problem
    return log


def files_of(names: Sequence[str]) -> list[Path]:
    """Return the files that names, patterns and directories stand for, each once. Raises CommandError."""
    files: dict[Path, None] = {}
    for name in names:
        paths = named_files(name)
        if not paths:
            raise CommandError(f"{name} is no file.")
        files |= dict.fromkeys(Path(path).resolve() for path in paths)
    return list(files)


def _names(path: Path | None) -> Mapping[str, str]:
    """Topic id, as hexadecimal digits -> name."""
    if path is None:
        return {}
    try:
        names_by_id = msgspec.json.decode(path.read_bytes(), type=dict[str, str])
        return {_hexadecimal(topic_id): name for topic_id, name in names_by_id.items()}
    except (OSError, msgspec.DecodeError, JsonFormError) as problem:
        raise CommandError(f"{path}: {problem}; it should be a JSON object of topic ids and names.") from problem


def _hexadecimal(topic_id: str) -> str:
    """An id as Kafka prints it (22 characters), or with hyphens."""
    plain = topic_id.replace("-", "").lower()
    if len(plain) == 32 and all(digit in "0123456789abcdef" for digit in plain):
        return plain
    return (topic_id_text(uuid_from_json(topic_id)) or "").replace("-", "")


def _watched(
    dumps: Sequence[Path], dump: OffsetsDump[Entry], log: BrokerLog, skews: Mapping[int | None, Skew]
) -> Watched:
    """What was read."""
    name = words.listed([path.name for path in dumps])
    partitions = len({partition for partition, _ in dump.places})
    detail = f"{words.count(partitions, 'partition')}, {words.count(len(dump.places), 'record')}"
    offsets = OFFSETS_LOG(detail=f"{name}; {detail}", last_ms=_last_ms(dump))
    sources = (offsets, *of_logs(log.files, Cluster(servers=name), skews))
    return Watched(cluster=name, sources=sources, not_known=tuple(not_known(sources)))


def _last_ms(dump: OffsetsDump[Entry]) -> int:
    return max(entry.timestamp_ms for entry in dump.places.values())


def _remark(dump: OffsetsDump[Entry], log: BrokerLog) -> str:
    records = words.count(len(dump.places), "record")
    if not log.read:
        return f"Read {records} of the offsets topic. Brokers' logs (--broker-log) would tell why rebalances began."
    lines = words.count(len(log.lines), "line")
    return f"Read {records} of the offsets topic, and {lines} about groups of {log.read:,} in brokers' logs."
