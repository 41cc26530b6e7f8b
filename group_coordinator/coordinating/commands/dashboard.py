"""`dashboard`: the groups of a coordinator in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import CONNECTION, with_settings
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.coordinating.commands.dashboard_thread import index_of_coordinator
from group_coordinator.proving.commands import what_if_player
from group_coordinator.watching.commands.served_page import RECORDS_MIB, Host, Port, Token, show
from group_coordinator.watching.dashboard.kafka_source import source_of_coordinator
from group_coordinator.watching.dashboard.server import DEFAULT_PORT, start_server
from group_coordinator.watching.dashboard.sources import ReplaySource, SourceError
from streaming.config import StreamingConfig

_SETTINGS = (*CONNECTION, "offsets_retention_minutes")
_RecordsMib = Annotated[
    int, typer.Option(metavar="MIB", min=16, help="Of the records that are kept; older ones are beyond its window.")
]


@with_settings(*_SETTINGS, of=StreamingConfig)
def dashboard(
    settings: Settings,
    directory: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="What a replay wrote. [default: the live topics]")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = DEFAULT_PORT,
    token: Token = None,
    memory_mib: _RecordsMib = RECORDS_MIB,
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
    source = ReplaySource(directory) if directory is not None else source_of_coordinator(config)
    play = what_if_player.of_topics(config) if directory is None else what_if_player.of_directory(directory, config)
    try:
        show(
            lambda: start_server(
                source, host, port, token, index=index_of_coordinator(config, memory_mib), what_if=play
            )
        )
    except SourceError as problem:
        raise CommandError(str(problem), WRONG_USE if directory is not None else 1) from problem
