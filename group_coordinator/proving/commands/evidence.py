"""What lies beside brokers' request logs: a dump of their offsets topic and their server logs. It completes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from pathlib import Path

from msgspec import Struct

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.proving.recordings.broker_settings import Setting
from group_coordinator.proving.recordings.coordinator_log import CoordinatorLogs, read_coordinator_logs
from group_coordinator.proving.recordings.following import Following, follow, moments_us
from group_coordinator.proving.recordings.kafka_request_log import RequestLog
from group_coordinator.proving.recordings.offsets_log import OffsetsLog, read_offsets_log
from group_coordinator.watching.commands.observed_source import files_of
from group_coordinator.watching.dashboard.watched import WatchedSource
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.offsets_log import OFFSETS_TOPIC


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
        return follow(log, settings, self.dump.by_group, self.broker_logs, self.dump.markers)


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
