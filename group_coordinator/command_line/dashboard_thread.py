"""The dashboard in a thread of the coordinator's process. It reads the topics there, too, never the coordinator."""

from __future__ import annotations

import os

from group_coordinator.command_line import what_if
from group_coordinator.command_line.dashboard import dashboard_settings, live_source
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import DASHBOARD_TOKEN_VARIABLE
from group_coordinator.dashboard import DEFAULT_PORT, RunningServer, SourceError, start_server
from streaming.config import StreamingConfig

DEFAULT_ADDRESS = f"127.0.0.1:{DEFAULT_PORT}"


def host_and_port(text: str) -> tuple[str, int]:
    """Parse `HOST:PORT`, `[::1]:PORT` or `:PORT` (this machine only). Raises CommandError."""
    host, _, port = text.rpartition(":")
    if not port.isdigit() or int(port) > 65_535:
        raise CommandError(
            f"{text!r} is no address: write HOST:PORT, for example {DEFAULT_ADDRESS} or 0.0.0.0:8450.", WRONG_USE
        )
    return host.strip("[]") or "127.0.0.1", int(port)


def start_dashboard(config: StreamingConfig, address: str | None) -> RunningServer:
    """Start it; the topics must be there. `address` None: the usual one, or where that is taken, a free port.

    Raises CommandError when it cannot start.
    """
    host, port = host_and_port(address or DEFAULT_ADDRESS)
    try:
        return _start(config, host, port)
    except SourceError as problem:
        if address is not None or not str(problem).startswith("Cannot listen"):
            raise CommandError(f"The dashboard: {problem}") from problem
    try:
        return _start(config, host, 0)
    except SourceError as problem:
        raise CommandError(f"The dashboard: {problem}") from problem


def _start(config: StreamingConfig, host: str, port: int) -> RunningServer:
    return start_server(
        live_source(config),
        host,
        port,
        os.environ.get(DASHBOARD_TOKEN_VARIABLE),
        settings=dashboard_settings(config),
        what_if=what_if.of_topics(config),
    )
