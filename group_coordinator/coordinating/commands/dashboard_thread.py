"""The dashboard in a thread of the coordinator's process. What it shows is read from the topics there, too."""

from __future__ import annotations

import os

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import DASHBOARD_TOKEN_VARIABLE
from group_coordinator.ground.kafka_topics.follower import TopicFollower
from group_coordinator.proving.commands import what_if_player
from group_coordinator.watching.commands.served_page import RECORDS_MIB, new_index
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.kafka_source import source_of_coordinator
from group_coordinator.watching.dashboard.readiness import BrokerSettings
from group_coordinator.watching.dashboard.server import DEFAULT_PORT, RunningServer, start_server
from group_coordinator.watching.dashboard.sources import SourceError
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


def index_of_dashboard(address: str | None, config: StreamingConfig) -> Index | None:
    """Return the index of a dashboard at this address; None: none is wanted. Raises CommandError."""
    if address is None:
        return None
    host_and_port(address)
    return index_of_coordinator(config)


def index_of_coordinator(config: StreamingConfig, memory_mib: int = RECORDS_MIB) -> Index:
    """Return an empty index that knows the coordinator's settings."""
    index = new_index(config, memory_mib)
    index.broker_settings[""] = BrokerSettings(
        migration_policy=config.group_consumer_migration_policy.lower(),
        size_max=config.group_consumer_max_size,
        session_timeout_ms=config.group_consumer_session_timeout_ms,
        session_timeout_min_ms=config.group_consumer_min_session_timeout_ms,
        session_timeout_max_ms=config.group_consumer_max_session_timeout_ms,
        source="settings given here",
    )
    return index


def start_dashboard(
    config: StreamingConfig, address: str | None, index: Index | None = None, follower: TopicFollower | None = None
) -> RunningServer:
    """Start it; the topics must be there. `address` None: the usual one, or where that is taken, a free port.

    `follower`: gives history to `index` already; None: the dashboard reads it. Raises CommandError.
    """
    index = index_of_coordinator(config) if index is None else index
    host, port = host_and_port(address or DEFAULT_ADDRESS)
    try:
        return _start(config, host, port, index, follower)
    except SourceError as problem:
        if address is not None or not str(problem).startswith("Cannot listen"):
            raise CommandError(f"The dashboard: {problem}") from problem
    try:
        return _start(config, host, 0, index, follower)
    except SourceError as problem:
        raise CommandError(f"The dashboard: {problem}") from problem


def _start(
    config: StreamingConfig, host: str, port: int, index: Index, follower: TopicFollower | None
) -> RunningServer:
    return start_server(
        source_of_coordinator(config, follower),
        host,
        port,
        os.environ.get(DASHBOARD_TOKEN_VARIABLE),
        index=index,
        what_if=what_if_player.of_topics(config),
    )
