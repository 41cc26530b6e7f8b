"""`mcp`: answers for an assistant, by the Model Context Protocol."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.log_options import BrokerLogs, TimeZone, zone
from group_coordinator.command_line.options import Resolved, with_settings
from group_coordinator.command_line.output_options import WrittenDirectory
from group_coordinator.command_line.signals import stop_requested
from group_coordinator.command_line.tables import print_line
from group_coordinator.ground.http_server.access import Access, App
from group_coordinator.ground.http_server.server import HttpServer, ServerError, listen_guarded
from group_coordinator.watching.broker_logs.text_files import STANDARD_INPUT
from group_coordinator.watching.commands.served_page import Host, Token, health_settings
from group_coordinator.watching.commands.watch_settings import NAMES, WatchSettings
from group_coordinator.watching.commands.watch_sources import WatchOptions, evidence_bounds, watch_index, watch_source
from group_coordinator.watching.commands.whose_groups import Brokers, are_own
from group_coordinator.watching.dashboard.documents import Documents
from group_coordinator.watching.dashboard.kafka_source import source_of_coordinator
from group_coordinator.watching.dashboard.sources import ReplaySource, Source, SourceError
from schemas.settings import PORT_MAX

_CONNECTIONS_MAX = 64
_METHODS = ("GET", "POST", "DELETE")
"""What the protocol's HTTP transport uses: every question is a POST, and none changes anything."""
_MEMORY_MIB = 512
_NAMES = tuple(name for name in NAMES if not name.startswith(("metrics", "webhook")))
_Port = Annotated[
    int | None,
    typer.Option(metavar="PORT", min=0, max=PORT_MAX, help="Serve HTTP at /mcp. [default: standard input and output]"),
]


@with_settings(*_NAMES, of=WatchSettings)
def mcp(
    settings: Resolved[WatchSettings],
    directory: WrittenDirectory = None,
    broker_log: BrokerLogs = None,
    time_zone: TimeZone = "UTC",
    brokers: Brokers = False,
    host: Host = "127.0.0.1",
    port: _Port = None,
    token: Token = None,
) -> None:
    """Let an assistant ask about groups: why one rebalanced, who owned what when, offsets, lag, verdicts. Read only.

    It is a server of the Model Context Protocol over what `watch` knows of a cluster, over our own coordinator's
    history, or over what a replay wrote. It needs the extra `mcp`, or the package of that name: pip install mcp.

    Examples:

        group-coordinator mcp --bootstrap-servers prod:9092
        group-coordinator mcp --from incident/
        group-coordinator mcp --bootstrap-servers prod:9092 --port 8460
    """
    try:
        from group_coordinator.watching.commands.assistant_tools import assistant_server
    except ImportError as problem:
        raise CommandError(f"This needs the extra mcp ({problem.name} is missing): install the package mcp.") from None
    if port is None and STANDARD_INPUT in (broker_log or ()):
        raise CommandError("--broker-log -: standard input is the assistant's. Serve HTTP (--port).", WRONG_USE)
    config = settings.config
    source = ReplaySource(directory) if directory is not None else _live(config, broker_log or [], time_zone, brokers)
    index = watch_index(_MEMORY_MIB, health_settings(config))
    try:
        source.start(index)
    except SourceError as problem:
        raise CommandError(str(problem), WRONG_USE if directory is not None else 1) from problem
    documents = Documents(index, (lambda: time.time_ns() // 1_000_000) if source.is_live else None)
    server = assistant_server(documents, source.name, source.progress)
    try:
        if port is None:
            server.run()
        else:
            _serve(server.streamable_http_app(), host, port, token)
    finally:
        source.stop()


def _live(config: WatchSettings, broker_logs: list[str], time_zone: str, brokers: bool) -> Source:
    """Our own coordinator's history where its topic is there; else the brokers' groups."""
    if are_own(config, brokers=brokers or bool(broker_logs or config.cluster)):
        return source_of_coordinator(config)
    bounds = evidence_bounds(_MEMORY_MIB, len(config.clusters), every_commit=False)
    options = WatchOptions(time_zone=zone(time_zone), follow=True, bounds=bounds, state=None)
    return watch_source(config.clusters, broker_logs, options)


def _serve(app: App, host: str, port: int, token: str | None) -> None:
    """Serve until it shall end."""
    try:
        listening, token = listen_guarded(host, port, token)
    except ServerError as problem:
        raise CommandError(str(problem)) from problem
    with (
        stop_requested() as stop,
        HttpServer(guarded(app, token), listening, name="mcp", connections_max=_CONNECTIONS_MAX) as http,
    ):
        print_line(f"For assistants: {http.url}/mcp" + (f", with Authorization: Bearer {token}" if token else ""))
        while http.is_running and not stop.wait(0.2):
            pass


def guarded(app: App, token: str | None) -> App:
    """Return the application behind its check of who may ask."""
    return Access(app, name="mcp", token=token, local_only=token is None, methods=_METHODS)
