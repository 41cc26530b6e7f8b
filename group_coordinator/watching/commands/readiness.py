"""`readiness`: which classic groups can go over to the consumer protocol (KIP-848), and what must change first."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import tzinfo
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from group_coordinator.command_line import doubts
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.log_options import BrokerLogs, TimeZone, zone
from group_coordinator.command_line.options import CONNECTION, ReaderOptions, with_settings
from group_coordinator.command_line.output_options import JsonLinesOption
from group_coordinator.command_line.tables import aligned, print_line, print_lines
from group_coordinator.ground.kafka_topics.errors import NoSuchTopicError
from group_coordinator.ground.monitoring.printable import printable
from group_coordinator.ground.settings.connection import ReaderSettings
from group_coordinator.watching.commands.observed_source import read_files
from group_coordinator.watching.commands.one_look import read_brokers_groups
from group_coordinator.watching.commands.published_groups import read_history, read_snapshots
from group_coordinator.watching.dashboard.readiness import (
    NOT_SEEN,
    VERDICTS,
    BrokerSettings,
    broker_settings,
    cost_of,
    readiness_of,
)
from group_coordinator.watching.history.published_generation import published_generation
from group_coordinator.watching.narrative import words
from group_coordinator.watching.observed.observer import Observer
from group_coordinator.watching.observed.stored_groups import stored_generations
from group_coordinator.watching.tables.fold import rows_of_group
from group_coordinator.watching.tables.readiness_row import Cost, Readiness
from schemas.events import encode_json
from schemas.history import History

_Dumps = Annotated[
    list[Path] | None,
    typer.Argument(metavar="DUMP...", help="Dumps of an offsets topic. [default: the live cluster]"),
]
_Group = Annotated[str | None, typer.Option("--group", metavar="ID", help="This group alone.")]


class _Told(Struct, frozen=True, kw_only=True):
    """The judged groups of a source."""

    groups: tuple[Readiness, ...]
    settings: BrokerSettings
    doubts: Sequence[str] = ()


@with_settings(*CONNECTION, of=ReaderSettings)
def readiness(
    settings: ReaderOptions,
    dumps: _Dumps = None,
    group: _Group = None,
    broker_log: BrokerLogs = None,
    time_zone: TimeZone = "UTC",
    as_json: JsonLinesOption = False,
) -> None:
    """Which classic groups can go over to the consumer protocol (KIP-848)? Go, change something first, or wait.

    For each it says what makes brokers refuse to convert it while it lives, what its members must give up, and what
    rebalances of the classic protocol have cost it as far back as its history goes. A dump of the offsets topic, with
    brokers' logs, is judged as the live cluster is; groups of our own coordinator are judged, too.

    Examples:

        group-coordinator readiness --bootstrap-servers prod:9092
        group-coordinator readiness --bootstrap-servers prod:9092 --group payments --broker-log 'server.log*'
        group-coordinator readiness prod.offsets.jsonl.gz --broker-log 'server.log*' --json
    """
    log_zone = zone(time_zone)
    sources = (
        [_of_dumps(dumps, broker_log or (), log_zone)]
        if dumps
        else list(_live(settings.config, broker_log or (), log_zone))
    )
    groups = [each for told in sources for each in told.groups if group in (None, each.group_id)]
    if group is not None and not groups:
        raise CommandError(f"There is no classic group '{printable(group)}'.")
    groups.sort(key=lambda each: (VERDICTS.index(each.verdict), -each.cost.without_owner_ms, each.group_id))
    if as_json:
        print_lines(encode_json(each).decode() for each in groups)
        return
    print_lines(doubts.lines([doubt for told in sources for doubt in told.doubts]))
    print_lines(_lines(groups))
    for told in sources:
        print_line(_bounds(told.settings))
    print_line(NOT_SEEN)


def _of_dumps(dumps: Sequence[Path], broker_logs: Sequence[str], log_zone: tzinfo) -> _Told:
    dump, log = read_files(dumps, broker_logs, log_zone)
    observer = Observer(log.topic_names)
    observer.add_records(dump.entries())
    observer.add_lines(log.lines)
    until_ms = max((entry.timestamp_ms for entry in dump.places.values()), default=0)
    brokers = broker_settings(log.settings, "brokers' logs")
    return _Told(
        groups=tuple(judged(observer, brokers, until_ms)), settings=brokers, doubts=(*dump.doubts(), *log.doubts())
    )


def _live(config: ReaderSettings, broker_logs: Sequence[str], log_zone: tzinfo) -> Iterator[_Told]:
    """Yield what is known of the groups of our own coordinator, where it has its topics there, and of the brokers'."""
    now_ms = time.time_ns() // 1_000_000
    with suppress(NoSuchTopicError):
        yield _Told(groups=tuple(_published(config, now_ms)), settings=BrokerSettings())
    brokers = read_brokers_groups(config.client_properties, broker_logs, log_zone)
    settings = (
        broker_settings(brokers.settings, "brokers")
        if brokers.settings
        else broker_settings(brokers.logged_settings, "brokers' logs")
    )
    yield _Told(groups=tuple(judged(brokers.observer, settings, now_ms)), settings=settings, doubts=brokers.doubts)


def judged(observer: Observer, settings: BrokerSettings, until_ms: int) -> Iterator[Readiness]:
    """Yield the judgement of each classic group of a watched cluster. `until_ms`: its history ends there."""
    for group_id in observer.group_ids():
        kept = observer.kept_of(group_id)
        stored = stored_generations(kept.facts)
        if stored is not None:
            yield readiness_of(group_id, stored, settings, _cost(kept.follow()[1], until_ms))


def _cost(history: Sequence[History], until_ms: int) -> Cost:
    return cost_of(history, rows_of_group(history), until_ms)


def _published(config: ReaderSettings, now_ms: int) -> Iterator[Readiness]:
    stored = {each.group_id: known for each in read_snapshots(config) if (known := published_generation(None, each))}
    histories: dict[str, list[History]] = {group_id: [] for group_id in stored}
    for record in read_history(config) if stored else ():
        if record.group_id in histories:
            histories[record.group_id].append(record)
    for group_id, known in stored.items():
        yield readiness_of(group_id, known, BrokerSettings(), _cost(histories[group_id], now_ms))


def _lines(groups: Iterable[Readiness]) -> Iterator[str]:
    header = ("GROUP", "VERDICT", "ASSIGNOR", "#MEMBERS", "STATIC", "REBALANCES", "WITHOUT OWNER", "SINCE (UTC)")
    yield from aligned(header, [_row(each) for each in groups])
    for each in groups:
        yield ""
        yield f"{each.group_id}: {each.verdict}"
        yield from (f"  {sentence}" for sentence in (*each.reasons, *each.remarks))
    yield ""


def _row(each: Readiness) -> tuple[object, ...]:
    cost = each.cost
    without = words.duration(cost.without_owner_ms) + (" or more" if cost.not_known_ms else "")
    since = "-" if cost.since_ms is None else f"{words.day(cost.since_ms)} {words.clock(cost.since_ms)}"
    return (
        each.group_id, each.verdict, each.assignor or "-", each.members, each.static_members, cost.rebalances, without,
        since,
    )  # fmt: skip


def _bounds(settings: BrokerSettings) -> str:
    least, most = words.duration(settings.session_timeout_min_ms), words.duration(settings.session_timeout_max_ms)
    return (
        f"By {settings.source}: session timeouts of {least} to {most}, migration policy {settings.migration_policy}. "
        "WITHOUT OWNER is summed over partitions."
    )
