"""`watch`: the groups of a cluster whose own brokers coordinate them, in a browser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from group_coordinator.command_line.dashboard import Host, MemoryMib, Port, Token, dashboard_settings, show
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.import_log import TimeZone, zone
from group_coordinator.command_line.options import Settings, with_settings
from group_coordinator.command_line.replay import BrokerLogs
from group_coordinator.command_line.tables import say
from group_coordinator.dashboard import DEFAULT_PORT, RunningServer, Source, SourceError, start_server
from group_coordinator.observed.evidence import BOUNDED, Bounds

if TYPE_CHECKING:
    from group_coordinator.watch.source import WatchSource

_SETTINGS = ("bootstrap_servers", "kafka", "offsets_retention_minutes")
_CLIENT_ID = "group-coordinator-watch"

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
    lines. With --state it survives a restart, and what the cluster has compacted away meanwhile is still known.

    Examples:

        group-coordinator watch --bootstrap-servers prod:9092
        group-coordinator watch --bootstrap-servers prod:9092 --broker-log '/var/log/kafka/server.log*' --follow
    """
    from group_coordinator.watch.source import WatchSource  # kafka-python takes its time to import

    config = settings.config
    properties = {"client.id": _CLIENT_ID, **config.client_properties}
    bounds = Bounds(
        records_per_group_max=BOUNDED.records_per_group_max, lines_per_group_max=BOUNDED.lines_per_group_max
    )
    source = WatchSource(
        properties,
        broker_log or (),
        time_zone=zone(time_zone),
        follow=follow,
        bounds=bounds if every_commit else BOUNDED,
        state=state,
    )
    serve = partial(start_server, host=host, port=port, token=token, settings=dashboard_settings(config, memory_mib))
    try:
        show(lambda: _start(serve, source, properties))
    except SourceError as problem:
        raise CommandError(str(problem)) from problem


def _start(
    serve: Callable[[Source], RunningServer], source: WatchSource, properties: Mapping[str, str]
) -> RunningServer:
    """Where the offsets topic may not be read, groups are polled. Raises SourceError."""
    from group_coordinator.watch.polling import PollSource
    from group_coordinator.watch.source import TopicRefusedError

    try:
        return serve(source)
    except TopicRefusedError as refusal:
        say(f"{refusal} Groups are polled instead.", error=True)
        return serve(PollSource(properties, str(refusal)))
