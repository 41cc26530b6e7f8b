"""`run`: the coordinator as a long-running app."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.status import Status

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.options import DryRun, with_settings
from group_coordinator.command_line.output_options import TablesFormat, TablesFormatOption
from group_coordinator.command_line.signals import stop_requested
from group_coordinator.command_line.tables import out, print_lines
from group_coordinator.coordinating.commands import history_tables
from group_coordinator.coordinating.commands.coordinator_options import Settings
from group_coordinator.coordinating.commands.coordinator_thread import CoordinatorThread
from group_coordinator.coordinating.commands.dashboard_thread import index_of_dashboard, start_dashboard
from group_coordinator.coordinating.commands.idle_spark import spark_where_idle
from group_coordinator.coordinating.commands.live_groups import LiveGroups, StatusLine, group_size
from group_coordinator.coordinating.commands.own_gateway import OwnGateway
from group_coordinator.coordinating.commands.own_responders import OwnResponders, for_responders
from group_coordinator.coordinating.commands.spark_jvm import require_spark
from group_coordinator.coordinating.operations.operations import Operations
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.narrative import words
from group_coordinator.watching.watch.lag_metrics import lag_gauges, lag_series
from schemas.settings import PORT_MAX
from streaming.config import StreamingConfig
from streaming.topics import TopicReport

WITHIN_S = 26.0
"""What has not ended by then is killed; the last part of it ends within a moment."""
KAFKA_S = 5.0
"""So much of it is kept for an embedded broker, which ends after all others."""
SPARK_S = 6.0
"""And so much for Spark, whose running batch may take minutes beside a flood."""


class Ending:
    """What ends one after the other shares the time: who takes long leaves less to the others."""

    def __init__(self, within_s: float = WITHIN_S, now_s: Callable[[], float] = time.monotonic) -> None:
        self._within_s, self._now_s = within_s, now_s
        self._by_s: float | None = None

    def begin(self) -> None:
        """Let the time run from now on."""
        if self._by_s is None:
            self._by_s = self._now_s() + self._within_s

    def left_s(self, kept_s: float = 0.0) -> float:
        """Return what is left of the time but for `kept_s`, which others need after this; 0 if nothing is. The time
        runs from the first call on, if it did not before."""
        self.begin()
        assert self._by_s is not None
        return max(0.0, self._by_s - kept_s - self._now_s())


LINE_INTERVAL_S = 10.0
_POLL_S = 0.25


_Embedded = Annotated[
    bool, typer.Option("--embedded", help="Start a Kafka broker of its own (one node, Java 17) and use it.")
]
_EmbeddedPort = Annotated[
    int | None,
    typer.Option(metavar="PORT", min=0, max=PORT_MAX, help="Port of the embedded broker. [default: a free one]"),
]
_EmbeddedData = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Data of the embedded broker, kept. [default: temporary, deleted at the end]"),
]
_Rebuild = Annotated[
    bool,
    typer.Option(
        "--rebuild", help="Where the checkpoint is lost, make it anew from the beginning of the events topic."
    ),
]
_Gateway = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Let Kafka clients in there, in this process: as `group-coordinator gateway` does.",
    ),
]
_GatewayConfigFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="Further settings of that gateway in TOML, by the names of `gateway --help`."
    ),
]
_Transactions = Annotated[
    bool, typer.Option("--transactions", help="Offer offsets in transactions there, and relay them in this process.")
]
_Dashboard = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT", help="Show the groups in a browser there: as `group-coordinator dashboard` does."
    ),
]
_Tables = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Keep the tables of history there (a directory or a URI), exactly once."),
]


_Responder = Annotated[
    bool | None,
    typer.Option(
        "--responder/--no-responder",
        help="Answer within milliseconds, ahead of the query: a process for each shard. Sets responders. [default: "
        "with --gateway]",
    ),
]


@with_settings(of=StreamingConfig)
def run(
    settings: Settings,
    embedded: _Embedded = False,
    embedded_port: _EmbeddedPort = None,
    embedded_data: _EmbeddedData = None,
    rebuild: _Rebuild = False,
    gateway: _Gateway = None,
    gateway_config_file: _GatewayConfigFile = None,
    transactions: _Transactions = False,
    responder: _Responder = None,
    dashboard: _Dashboard = None,
    tables: _Tables = None,
    tables_format: TablesFormatOption = TablesFormat.delta,
    dry_run: DryRun = False,
) -> None:
    """Run the coordinator until Ctrl-C or SIGTERM: group requests from the events topic in, decisions out.

    Topics that are absent are created, those that are present are checked. It stops after the running batch with exit
    code 0; a second Ctrl-C ends it at once. When a query fails the cause is printed and the exit code is 1: start it
    again, and it goes on where it was.

    Each setting is taken from its flag, else from the environment (`GROUP_COORDINATOR_BOOTSTRAP_SERVERS=...`), else
    from the file (`--config-file coordinator.toml`), else it has its default.

    Examples:

        group-coordinator run --embedded --gateway 127.0.0.1:9192 --dashboard 127.0.0.1:8450
        group-coordinator run --bootstrap-servers broker:9092 --checkpoint s3a://s/coordinator --tables s3a://s/tables
        group-coordinator run --config-file coordinator.toml --dry-run > resolved.toml
    """
    answers_ahead = gateway is not None if responder is None else responder
    settings = for_responders(settings) if answers_ahead else settings
    if dry_run:
        return print_lines(settings.lines())
    config = settings.config
    require_spark()
    own_gateway = OwnGateway(gateway, gateway_config_file, transactions=transactions)
    index = index_of_dashboard(dashboard, config)  # what is wrong with its address is said before anything is started
    output = CommandOutput(config.log_format, config.log_level)
    ending = Ending()
    with output.log_failures(), ExitStack() as stack:
        stop = stack.enter_context(stop_requested())
        if embedded:
            config = _embedded(config, settings, embedded_port, embedded_data, ending, stack, output)
        operations = _operations(config, index, stack, output)
        config, companion = history_tables.beside_the_coordinator(config, tables, tables_format)
        coordinator = CoordinatorThread(config, rebuild=rebuild, watcher=operations, companion=companion)
        responders = OwnResponders(config, coordinator, here=answers_ahead)
        output.write(f"Starting Spark for {config.bootstrap_servers} ...")
        report = coordinator.start(lambda: coordinator.ask_to_stop() if stop.is_set() else None)
        if report is not None:
            _introduce(report, config, output)
            _show_dashboard(config, dashboard, index, operations, stack, output)
            _introduce_tables(tables, tables_format, output)
            stack.callback(responders.stop)
            responders.start(report, operations, output)
            own_gateway.start(config, operations, output)
            stack.callback(own_gateway.stop)
            _watch(coordinator, config, lambda: stop.is_set() or own_gateway.has_ended, output, responders)
        _end(ending, KAFKA_S if embedded else 0.0, own_gateway, responders, coordinator, output)
    output.write("Stopped.")


def _end(
    ending: Ending, kept_s: float, own_gateway: OwnGateway, responders: OwnResponders, coordinator: CoordinatorThread,
    output: CommandOutput,
) -> None:
    """First who answers ends, then the query, once it has decided what was answered."""
    output.write("Stopping after the running batch; Ctrl-C ends at once.")
    ending.begin()
    own_gateway.stop()
    responders.end_answering(output, ending.left_s(kept_s + SPARK_S))
    if not coordinator.stop(ending.left_s(kept_s)):
        output.write("The running batch has not ended in time: the next start repeats it.")
    own_gateway.check()


def _embedded(
    config: StreamingConfig, settings: Settings, port: int | None, data: Path | None, ending: Ending,
    stack: ExitStack, output: CommandOutput,
) -> StreamingConfig:
    """Start a broker; its state is not another one's: a temporary broker has a checkpoint that ends with it."""
    output.write("Starting an embedded Kafka broker ...")
    kafka = stack.enter_context(EmbeddedKafka(data, port=port))
    stack.callback(lambda: kafka.stop(ending.left_s()))
    output.write(f"Apache Kafka answers at {kafka.bootstrap_servers}; data in {kafka.data_directory}.")
    changes: dict[str, object] = {"bootstrap_servers": kafka.bootstrap_servers}
    if settings.sources["checkpoint"] == "default":
        changes["checkpoint"] = str(kafka.data_directory / "checkpoint")
    return config.changed(**changes)


def _operations(config: StreamingConfig, index: Index | None, stack: ExitStack, output: CommandOutput) -> Operations:
    operations = stack.enter_context(Operations(config, index))
    if index is not None:
        operations.metrics.values_from(partial(lag_gauges, index, lag_series(config, config.bootstrap_servers)))
    for sentence in operations.published:
        output.write(sentence)
    return operations


def _show_dashboard(
    config: StreamingConfig, listen: str | None, index: Index | None, operations: Operations, stack: ExitStack,
    output: CommandOutput,
) -> None:
    if listen is not None:
        server = stack.enter_context(start_dashboard(config, listen, index, operations.follower))
        output.write(f"The dashboard: {server.address}")


def _introduce_tables(directory: str | None, tables_format: TablesFormat, output: CommandOutput) -> None:
    if directory is not None:
        output.write(history_tables.introduction(directory, tables_format))


def _introduce(report: TopicReport, config: StreamingConfig, output: CommandOutput) -> None:
    if output.is_json:
        output.write(
            "The coordinator runs.",
            shards=config.shards_here,
            checkpoint=config.checkpoint,
            topics=dict(report.partitions),
            topics_created=report.created,
            warnings=report.warnings,
        )
    else:
        for line in _introduction(report, config):
            output.write(line)


def _introduction(report: TopicReport, config: StreamingConfig) -> Iterator[str]:
    topics, server = report.topics, config.bootstrap_servers
    for warning in report.warnings:
        yield f"Warning: {warning}"
    yield (
        f"The coordinator runs: {words.count(config.shards, 'shard')}, here "
        f"{', '.join(map(str, config.shards_here))}; checkpoint {config.checkpoint}."
    )
    yield "Topics:"
    purposes = {
        topics.events: "requests in",
        topics.responses: "answers out",
        topics.assignments: "the groups as they are (compacted)",
        topics.offsets: "as __consumer_offsets (compacted)",
        topics.history: "everything that happened, with its cause",
        topics.dead_letters: "events that could not be read",
    }
    width = max(map(len, purposes))
    for name, purpose in purposes.items():
        created = ", created now" if name in report.created else ""
        partitions = words.count(report.partitions[name], "partition").rjust(14)
        yield f"  {name.ljust(width)}  {partitions}{created}: {purpose}"
    flags = f"--bootstrap-servers {server}" + (
        "" if config.topic_prefix == "coordinator" else f" --topic-prefix {config.topic_prefix}"
    )
    yield "To look at them:"
    yield f"  group-coordinator groups {flags}"
    yield f"  group-coordinator explain --group GROUP {flags}"
    yield f"  kafka-console-consumer.sh --bootstrap-server {server} --topic {topics.history} --from-beginning"


def _watch(
    coordinator: CoordinatorThread, config: StreamingConfig, shall_stop: Callable[[], bool], output: CommandOutput,
    responders: OwnResponders,
) -> None:
    """Show how it is going until somebody asks for the end or the app fails."""
    console = out()
    with ExitStack() as stack:
        groups = stack.enter_context(LiveGroups(config, group_size))
        look_at_batches = stack.enter_context(spark_where_idle(config, coordinator))
        status_line = StatusLine()
        live = stack.enter_context(Status("", console=console)) if console.is_terminal and not output.is_json else None
        next_line_s = time.monotonic() + LINE_INTERVAL_S
        while not shall_stop() and coordinator.is_running:
            groups.poll(_POLL_S)
            responders.require_alive()
            look_at_batches()
            shards, sizes = list(coordinator.progress.values()), groups.groups.values()
            text = status_line.text(shards, coordinator.events, sizes) + responders.words()
            if live is not None:
                live.update(text)
            elif time.monotonic() >= next_line_s:
                next_line_s += LINE_INTERVAL_S
                output.write(text)
    coordinator.check()
