"""`dashboard`: what happened in every group, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from group_coordinator.command_line import what_if_player
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import CONNECTION, DASHBOARD_TOKEN_VARIABLE, Settings, with_settings
from group_coordinator.command_line.signals import stop_requested
from group_coordinator.command_line.tables import print_line
from group_coordinator.dashboard import (
    DEFAULT_PORT,
    DashboardSettings,
    HealthSettings,
    KafkaSource,
    ReplaySource,
    RunningServer,
    Source,
    SourceError,
    TopicNames,
    start_server,
)
from group_coordinator.dashboard.index import Index
from group_coordinator.kafka_topics.follower import TopicFollower
from schemas.settings import PORT_MAX
from streaming.config import StreamingConfig

_SETTINGS = (*CONNECTION, "offsets_retention_minutes")
_MIB = 1024 * 1024
_POLL_S = 0.2

Host = Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen. Anything but this machine needs a token.")]
Port = Annotated[int, typer.Option(metavar="PORT", min=0, max=PORT_MAX, help="0: a free one.")]
Token = Annotated[
    str | None,
    typer.Option(
        metavar="TOKEN",
        envvar=DASHBOARD_TOKEN_VARIABLE,
        help="Whoever looks must have it. [default: none on this machine, elsewhere a new one]",
    ),
]
_RecordsMib = Annotated[
    int, typer.Option(metavar="MIB", min=16, help="Of the records that are kept; older ones are beyond its window.")
]


@with_settings(*_SETTINGS)
def dashboard(
    settings: Settings,
    directory: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="What a replay wrote. [default: the live topics]")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    token: Token = None,
    memory_mib: _RecordsMib = 512,
) -> None:
    """Show the groups in a browser: who owned what when, why each rebalance happened, who was waited for.

    It reads the history topic (or what a replay wrote) and polls the ends of the groups' partitions. It never asks the
    coordinator anything, joins no group and writes nothing: run as many as you like.

    Examples:

        group-coordinator dashboard
        group-coordinator dashboard --from replayed/
        group-coordinator dashboard --host 0.0.0.0 --port 8450
    """
    config = settings.config
    source = ReplaySource(directory) if directory is not None else live_source(config)
    play = what_if_player.of_topics(config) if directory is None else what_if_player.of_directory(directory, config)
    try:
        show(
            lambda: start_server(
                source, host, port, token, index=new_index(config, memory_mib), what_if=play
            )
        )
    except SourceError as problem:
        raise CommandError(str(problem), WRONG_USE if directory is not None else 1) from problem


def show(start: Callable[[], RunningServer], is_over: Callable[[], bool] = lambda: False) -> None:
    """Start a server, say where it is, and wait until it shall end. `is_over`: it has nothing to show any more.

    Raises CommandError, SourceError.
    """
    with stop_requested() as stop, start() as server:
        print_line(f"The dashboard: {server.address}")
        print_line("Ctrl-C ends it.")
        while server.is_running and not stop.wait(_POLL_S) and not is_over():
            pass
    if not stop.is_set() and not is_over():
        raise CommandError("The dashboard's server has ended by itself.")
    print_line("Stopped.")


def live_source(config: StreamingConfig, follower: TopicFollower | None = None) -> Source:
    """Return the topics of a coordinator. `follower`: as of `KafkaSource`."""
    topics = config.topic_settings.topics
    names = TopicNames(history=topics.history, dead_letters=topics.dead_letters, events=topics.events)
    return KafkaSource(config.client_properties, names, follower=follower)


def new_index(config: StreamingConfig, memory_mib: int = 512) -> Index:
    """Return an empty index; its settings follow from the coordinator's."""
    return Index(DashboardSettings(memory_max_bytes=memory_mib * _MIB, health=health_settings(config)))


def health_settings(config: StreamingConfig) -> HealthSettings:
    """Return the thresholds of the verdicts that follow from the coordinator's settings."""
    return HealthSettings(offsets_retention_ms=config.offsets_retention_minutes * 60_000)
