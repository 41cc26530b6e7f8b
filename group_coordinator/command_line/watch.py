"""`watch`: the groups of a cluster whose own brokers coordinate them, in a browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from group_coordinator.command_line.dashboard import Host, MemoryMib, Port, Token, dashboard_settings, show
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.history_tables import TablesFormat, TablesFormatOption
from group_coordinator.command_line.import_log import TimeZone, zone
from group_coordinator.command_line.options import Settings, with_settings
from group_coordinator.command_line.output_options import Format, FormatOption, OutOption, ReportOption, TablesOption
from group_coordinator.command_line.replay import BrokerLogs
from group_coordinator.command_line.tables import print_line
from group_coordinator.command_line.watch_outputs import WantedOutputs, open_outputs
from group_coordinator.dashboard import DEFAULT_PORT, RunningServer, Source, SourceError, start_server
from group_coordinator.observed.evidence import BOUNDED
from streaming.config import StreamingConfig

if TYPE_CHECKING:
    from group_coordinator.watch.source import WatchSource
    from group_coordinator.watch.writing import Output

_SETTINGS = (
    "bootstrap_servers", "kafka", "offsets_retention_minutes", "metrics_port", "metrics_host", "metrics_groups",
)  # fmt: skip
_CLIENT_ID = "group-coordinator-watch"
_ALL_COMMITS = replace(BOUNDED, commits_max=None)

_Follow = Annotated[bool, typer.Option("--follow", help="Read brokers' logs as they grow, through rotations.")]
_EveryCommit = Annotated[
    bool, typer.Option("--every-commit", help="Keep all commits, not the last of each partition and minute.")
]
_State = Annotated[
    Path | None,
    typer.Option("--state", metavar="DIR", help="Keep there what is known, and go on from it after a restart."),
]


@with_settings(*_SETTINGS)
def watch(
    settings: Settings,
    broker_log: BrokerLogs = None,
    follow: _Follow = False,
    time_zone: TimeZone = "UTC",
    every_commit: _EveryCommit = False,
    state: _State = None,
    out: OutOption = None,
    kind: FormatOption = Format.jsonl,
    tables: TablesOption = None,
    tables_format: TablesFormatOption = TablesFormat.delta,
    report: ReportOption = None,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    token: Token = None,
    memory_mib: MemoryMib = 512,
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
        group-coordinator watch --bootstrap-servers prod:9092 --state state/ --tables tables/ --tables-format parquet
    """
    from group_coordinator.watch.source import WatchSource  # kafka-python takes its time to import

    config = settings.config
    properties = {"client.id": _CLIENT_ID, **config.client_properties}
    wanted = WantedOutputs(out=out, kind=kind, tables=tables, tables_kind=tables_format, report=report)
    outputs = open_outputs(wanted, config.topic_settings.topics, config.bootstrap_servers)
    source = WatchSource(
        properties,
        broker_log or (),
        time_zone=zone(time_zone),
        follow=follow,
        bounds=_ALL_COMMITS if every_commit else BOUNDED,
        state=state,
    )
    serve = partial(start_server, host=host, port=port, token=token, settings=dashboard_settings(config, memory_mib))
    _show(lambda: _start(serve, source, properties, outputs), config)


def _with_metrics(server: RunningServer, config: StreamingConfig, stack: ExitStack) -> RunningServer:
    """Open the endpoint with the metrics, where one is wanted. Raises OSError."""
    from group_coordinator.watch.metrics import watch_endpoint

    if config.metrics_port:
        host, port, top = config.metrics_host, config.metrics_port, config.metrics_groups
        try:
            endpoint = stack.enter_context(watch_endpoint(server.source, server.index, host, port, top))
        except BaseException:
            server.stop()
            raise
        print_line(f"Metrics and health: {endpoint.url}/metrics, /health/live, /health/ready.")
    return server


def _show(start: Callable[[], RunningServer], config: StreamingConfig) -> None:
    try:
        with ExitStack() as stack:
            show(lambda: _with_metrics(start(), config, stack))
    except SourceError as problem:
        raise CommandError(str(problem)) from problem


def _start(
    serve: Callable[[Source], RunningServer],
    source: WatchSource,
    properties: Mapping[str, str],
    outputs: Sequence[Output],
) -> RunningServer:
    """Where the offsets topic may not be read, groups are polled. Raises SourceError."""
    from group_coordinator.watch.polling import PollSource
    from group_coordinator.watch.source import TopicRefusedError
    from group_coordinator.watch.writing import WrittenSource

    try:
        return serve(WrittenSource(source, outputs))
    except TopicRefusedError as refusal:
        print_line(f"{refusal} Groups are polled instead.", error=True)
        return serve(WrittenSource(PollSource(properties, str(refusal)), outputs))
