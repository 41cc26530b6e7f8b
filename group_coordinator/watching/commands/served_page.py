"""The pages of the dashboard, as commands serve them: where they listen, what they show, until they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.options import DASHBOARD_TOKEN_VARIABLE
from group_coordinator.command_line.signals import stop_requested
from group_coordinator.command_line.tables import print_line
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.server import RunningServer
from group_coordinator.watching.dashboard.settings import DashboardSettings, HealthSettings
from schemas.group_settings import RetentionSettings
from schemas.settings import PORT_MAX

RECORDS_MIB = 512
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


def new_index(config: RetentionSettings, memory_mib: int = RECORDS_MIB) -> Index:
    """Return an empty index; its settings follow from the coordinator's."""
    return Index(DashboardSettings(memory_max_bytes=memory_mib * _MIB, health=health_settings(config)))


def health_settings(config: RetentionSettings) -> HealthSettings:
    """Return the thresholds of the verdicts that follow from the coordinator's settings."""
    return HealthSettings(offsets_retention_ms=config.offsets_retention_minutes * 60_000)
