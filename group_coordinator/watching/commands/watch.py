"""`watch`: the groups of a cluster whose own brokers coordinate them, in a browser."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.log_options import BrokerLogs, TimeZone, zone
from group_coordinator.command_line.options import Resolved, with_settings
from group_coordinator.command_line.output_options import (
    OutOption,
    ReportOption,
    TablesFormat,
    TablesFormatOption,
    TablesOption,
)
from group_coordinator.command_line.tables import print_line, print_lines
from group_coordinator.ground.system.allocator import give_free_memory_back
from group_coordinator.watching.commands.served_page import Host, Port, Token, health_settings, show
from group_coordinator.watching.commands.watch_outputs import OutputOptions, open_outputs
from group_coordinator.watching.commands.watch_settings import NAMES, WatchSettings
from group_coordinator.watching.commands.watch_sources import WatchOptions, evidence_bounds, watch_index, watch_source
from group_coordinator.watching.dashboard.server import DEFAULT_PORT, RunningServer, start_server
from group_coordinator.watching.dashboard.sources import Source, SourceError

if TYPE_CHECKING:
    from group_coordinator.ground.monitoring.metrics import Value
    from group_coordinator.watching.dashboard.index import Index
    from group_coordinator.watching.watch.writing import HistorySource, Output

_Follow = Annotated[bool, typer.Option("--follow", help="Read brokers' logs as they grow, through rotations.")]
_EveryCommit = Annotated[
    bool, typer.Option("--every-commit", help="Keep all commits, not the last of each partition and minute.")
]
_State = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="Keep there what is known, and go on from it after a restart."),
]
_MemoryMib = Annotated[
    int,
    typer.Option(metavar="MIB", min=64, help="Of all groups; those beyond it lie on disk, and the page says how many."),
]


@with_settings(*NAMES, of=WatchSettings)
def watch(
    settings: Resolved[WatchSettings],
    broker_log: BrokerLogs = None,
    follow: _Follow = False,
    time_zone: TimeZone = "UTC",
    every_commit: _EveryCommit = False,
    state: _State = None,
    out: OutOption = None,
    tables: TablesOption = None,
    tables_format: TablesFormatOption = TablesFormat.delta,
    report: ReportOption = None,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    token: Token = None,
    memory_mib: _MemoryMib = 512,
) -> None:
    """Show the groups of any Kafka cluster: from its offsets topic, and from its brokers' logs where they are given.

    It reads only: it joins no group, commits nothing and creates nothing. It needs the rights to read and describe the
    topic `__consumer_offsets`, and to describe topics. Brokers' logs tell why each rebalance of a classic group began;
    without them its end is told, the members that came and went, and what moved.

    Where the topic may not be read (managed clusters), groups are polled: ownership and offsets are those of each poll.

    What is kept has a bound: of commits the last of each partition and minute, of each group the newest records and
    lines. With --state it survives a restart. It is written every minute and at the end (--out, --tables, --report).

    Examples:

        group-coordinator watch --bootstrap-servers prod:9092
        group-coordinator watch --bootstrap-servers prod:9092 --broker-log '/var/log/kafka/server.log*' --follow
        kubectl logs -f kafka-0 | group-coordinator watch --bootstrap-servers prod:9092 --broker-log -
        group-coordinator watch --bootstrap-servers prod:9092 --state state/ --tables tables/ --tables-format parquet
        group-coordinator watch --cluster prod=prod:9092 --cluster test=test:9092 --broker-log 'prod=logs/server.log*'
    """
    config = settings.config
    if config.cluster and settings.sources["bootstrap_servers"] == "flag":
        raise CommandError("Choose one of --cluster and --bootstrap-servers.", WRONG_USE)
    give_free_memory_back()
    bounds = evidence_bounds(memory_mib, len(config.clusters), every_commit=every_commit)
    watch_options = WatchOptions(time_zone=zone(time_zone), follow=follow, bounds=bounds, state=state)
    source = watch_source(config.clusters, broker_log or (), watch_options)
    output_options = OutputOptions(out=out, tables=tables, tables_kind=tables_format, report=report)
    outputs = open_outputs(output_options, config.topics, source.name, has_clusters=bool(config.cluster))
    index = watch_index(memory_mib, replace(health_settings(config), stalled_after_ms=config.stalled_after_ms))
    serve = partial(start_server, host=host, port=port, token=token, index=index)
    _show(partial(_start, serve, source, outputs, config), source)


def _show(start: Callable[[ExitStack], RunningServer], source: HistorySource) -> None:
    """Show until it shall end, or until a defect has ended the watching of the last cluster. Raises CommandError."""
    from group_coordinator.watching.watch.conditions import failures

    try:
        with ExitStack() as stack:
            show(lambda: start(stack), lambda: len(failures(source.conditions())) == len(source.conditions()))
    except SourceError as problem:
        raise CommandError(str(problem)) from problem
    failed = failures(source.conditions())
    if failed:
        raise CommandError("\n".join(failed))


def _start(
    serve: Callable[[Source], RunningServer],
    source: HistorySource,
    outputs: Sequence[Output],
    config: WatchSettings,
    stack: ExitStack,
) -> RunningServer:
    """Start the page, and the endpoint with the metrics where one is wanted. Raises SourceError, OSError."""
    from group_coordinator.watching.watch.writing import WrittenSource

    server = serve(WrittenSource(source, outputs))
    more: Callable[[], Iterable[Value]] = tuple
    if config.webhook:
        from group_coordinator.watching.watch.webhook import Webhook

        webhook = Webhook(
            config.webhook, config.webhook_format, source.name,
            rows=lambda: server.index.rows(time.time_ns() // 1_000_000),
            is_ready=lambda: bool(source.progress()["caught_up"]),
        )  # fmt: skip
        more = stack.enter_context(webhook).values
        print_line(f"Verdicts are posted to {webhook.host}.")
    if config.publishes_metrics:
        try:
            _tell_metrics(source, server.index, config, more, stack)
        except BaseException:
            server.stop()
            raise
    return server


def _tell_metrics(
    source: HistorySource,
    index: Index,
    config: WatchSettings,
    more: Callable[[], Iterable[Value]],
    stack: ExitStack,
) -> None:
    """Start the endpoint with the metrics, and their posts, where they are wanted. Raises OSError."""
    from group_coordinator.ground.monitoring.server import published_metrics
    from group_coordinator.watching.watch.lag_metrics import lag_series
    from group_coordinator.watching.watch.metrics import WatchProbes, watch_metrics

    metrics = watch_metrics(source, index, lag_series(config, source.name), more)
    published = published_metrics(config, metrics.registry, WatchProbes(source), source.name)
    print_lines(stack.enter_context(published))
