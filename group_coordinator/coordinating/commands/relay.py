"""`relay`: it tells the coordinator of offsets in transactions, and how these end."""

from __future__ import annotations

import time
from contextlib import ExitStack

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.errors import CommandError
from group_coordinator.command_line.options import DryRun, Resolved, with_settings
from group_coordinator.command_line.signals import stop_requested
from group_coordinator.command_line.tables import print_lines
from group_coordinator.coordinating.commands.gateway_settings import PANELS, names
from group_coordinator.coordinating.commands.transactions import relays
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.ground.kafka_topics.reader import partition_count
from group_coordinator.ground.monitoring.registry import Metrics
from group_coordinator.ground.monitoring.server import published_metrics
from group_coordinator.ground.settings.topic_names import Topics

_LINE_INTERVAL_S = 60.0
_POLL_S = 0.2


_SETTINGS = {*PANELS["Kafka"], "transactions_open_bytes_max", *PANELS["Operations"]}


@with_settings(*(name for name in names(GatewaySettings) if name in _SETTINGS), of=GatewaySettings, panels=PANELS)
def relay(settings: Resolved[GatewaySettings], dry_run: DryRun = False) -> None:
    """Relay offsets in transactions to the coordinator, where `run` does not do so itself.

    A gateway with `transactions` on appends commits to the topic `coordinator.transactions`, inside the transactions of
    the producers, and Kafka writes the ends of these behind them. The relay turns both into events, one after the other
    in each shard. It may be killed at any time and goes on where it was; meanwhile such offsets wait. A relay that sees
    another one begin for its shard ends.

    It creates the topic where it is absent. Give it the settings of the gateway.

    Examples:

        group-coordinator relay --bootstrap-servers broker:9092
        group-coordinator relay --config-file gateway.toml --metrics-port 9096
    """
    if dry_run:
        print_lines(settings.lines())
        return
    config = settings.config
    output = CommandOutput(config.log_format, config.log_level)
    with output.log_failures(), ExitStack() as stack:
        stop = stack.enter_context(stop_requested())
        shards = partition_count(config.coordinator_client_properties, Topics.of_prefix(config.topic_prefix).events)
        running = relays(config, shards, tuple(range(shards)))
        metrics = Metrics(())
        metrics.values_from(running.values)
        published = published_metrics(
            config, metrics.registry, running, f"{config.topic_prefix} relay", degraded=running.sentences
        )
        for sentence in stack.enter_context(published):
            output.write(sentence)
        running.start()
        stack.callback(running.stop)
        output.write(f"Relaying offsets in transactions before {config.bootstrap_servers}.")
        next_line_s = time.monotonic() + _LINE_INTERVAL_S
        while not stop.wait(_POLL_S):
            if running.have_ended:
                raise CommandError("Other relays have begun for all shards: this one ends.")
            if time.monotonic() >= next_line_s:
                next_line_s += _LINE_INTERVAL_S
                output.write(running.words())
    output.write("Stopped.")
