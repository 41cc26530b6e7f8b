"""`gateway`: where Kafka clients join the groups that the stream job runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.options import DryRun, Resolved, with_settings
from group_coordinator.command_line.tables import print_lines
from group_coordinator.coordinating.commands.gateway_settings import PANELS, names
from group_coordinator.coordinating.commands.proxy_command import clients, serve
from group_coordinator.coordinating.commands.transactions import transaction_log
from group_coordinator.coordinating.gateway.config import GatewaySettings
from group_coordinator.coordinating.gateway.metrics import GatewayMetrics
from group_coordinator.watching.narrative import words

if TYPE_CHECKING:
    from group_coordinator.coordinating.gateway.server import Gateway


@with_settings(*names(GatewaySettings), of=GatewaySettings, panels=PANELS)
def gateway(
    settings: Resolved[GatewaySettings],
    dry_run: DryRun = False,
) -> None:
    """Let unmodified Kafka clients join groups that the coordinator runs: they bootstrap here instead of at a broker.

    Group requests (JoinGroup, Heartbeat, OffsetCommit ...) become events for the coordinator, whose answers go back to
    the client; all else goes on to the brokers, untouched. There must be a coordinator, or have been one:
    `group-coordinator run` on the same `--topic-prefix`. It may be restarted while clients are connected, and so may
    the gateway: no group rebalances for it. Several gateways share the load without knowing of each other.

    It ends at Ctrl-C or SIGTERM with exit code 0, and with 1 and the cause when it cannot go on.

    Each setting is taken from its flag, else from the environment (`GROUP_COORDINATOR_LISTEN=...`), else from the file
    (`--config-file gateway.toml`), else it has its default. What to set in clients: docs/clients.md.

    Examples:

        group-coordinator gateway --bootstrap-servers broker:9092
        group-coordinator gateway --listen 0.0.0.0:9192 --advertised-host gw.example --authorization-rules rules.txt
        group-coordinator gateway --config-file gateway.toml --metrics-port 9095
        kafka-console-consumer.sh --bootstrap-server 127.0.0.1:9192 --group g --topic t
    """
    if dry_run:
        print_lines(settings.lines())
        return
    from group_coordinator.coordinating.gateway.server import Gateway  # it takes its time to import

    config = settings.config
    output = CommandOutput(config.log_format, config.log_level)
    with output.log_failures():
        output.write(f"Starting the gateway before {config.bootstrap_servers} ...")
        proxy = Gateway(config, transaction_log=transaction_log(config))

        def introduce() -> None:
            for line in introduction(proxy):
                output.write(line)

        serve(config, output, proxy, introduce, lambda: status(proxy))


def introduction(proxy: Gateway) -> Iterator[str]:
    """Yields the first steps for users, once the gateway listens."""
    yield f"The gateway is ready: clients bootstrap at {proxy.bootstrap_servers}."


def status(proxy: Gateway) -> str:
    """Return the present state in a line."""
    metrics = proxy.metrics
    parts = [clients(proxy), words.count(sum(metrics.requests.values()), "group request"), _answers(metrics)]
    if metrics.in_doubt:
        parts.append(f"{metrics.in_doubt} not answered in time")
    return ", ".join(part for part in parts if part)


def _answers(metrics: GatewayMetrics) -> str:
    coordinator = metrics.coordinator_ms
    return f"half of the answers within {coordinator.quantile(0.5):g} ms" if coordinator.count else ""
