"""`tap`: a request log of the groups of a cluster that has its own coordinator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from group_coordinator.command_line.command_output import CommandOutput
from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.options import DryRun, Resolved, with_settings
from group_coordinator.command_line.tables import print_lines
from group_coordinator.coordinating.commands.gateway_settings import PANELS, names
from group_coordinator.coordinating.commands.proxy_command import clients, serve
from group_coordinator.coordinating.gateway.config import TapSettings
from group_coordinator.watching.narrative.words import count

_READ_AS_OTHERS = (".jsonl", ".json", ".parquet", ".gz")
"""Files that `replay` takes for something else than a request log that is being written."""

_Out = Annotated[Path | None, typer.Option(metavar="FILE", help="Append to this request log, NAME.log for example.")]


@with_settings(*names(TapSettings), of=TapSettings, panels=PANELS)
def tap(settings: Resolved[TapSettings], out: _Out = None, dry_run: DryRun = False) -> None:
    """Record the groups of any Kafka cluster, to replay and explain them: clients bootstrap here instead of at a
    broker.

    Nothing is taken out: the brokers go on coordinating the groups. What groups ask and what they are answered is
    written as a request log, as brokers write it themselves (kafka.request.logger at DEBUG), and with it what tells of
    topics and of transactions; never what clients log in with. Only clients that bootstrap at the tap are seen; it
    costs them a fraction of a millisecond a request. A log that cannot be written (a full disk) ends, while clients go
    on; the exit code is then 1.

    It ends at Ctrl-C or SIGTERM, when all has been written. Settings come from flags, from the environment
    (`GROUP_COORDINATOR_UPSTREAM=...`) or from `--config-file tap.toml`.

    Examples:

        group-coordinator tap --listen 127.0.0.1:9192 --upstream broker:9092 --out tap.log
        group-coordinator replay tap.log* --in-process --out replayed/
        group-coordinator explain --group payments --from replayed/
        group-coordinator verify recording tap.log*
    """
    if dry_run:
        print_lines(settings.lines())
        return
    if out is None or out.name.endswith(_READ_AS_OTHERS):
        raise CommandError(
            "Name the request log by --out FILE, as tap.log (not .jsonl, .json, .parquet, .gz).", WRONG_USE
        )
    from group_coordinator.coordinating.gateway.tap import Tap  # it takes its time to import

    config = settings.config
    output = CommandOutput(config.log_format, config.log_level)
    with output.log_failures():
        proxy = Tap(config, out)

        def introduce() -> None:
            output.write(
                f"The tap is ready: clients bootstrap at {proxy.bootstrap_servers} instead of {config.upstream}."
            )
            output.write(f"Requests are logged in {out}.")

        serve(config, output, proxy, introduce, lambda: f"{clients(proxy)}, {count(proxy.lines, 'request')} logged")
        output.write(f"{count(proxy.lines, 'request')} in {out}.")
        if proxy.log_failure is not None:
            raise CommandError(f"The log is not complete: {proxy.log_failure}.")
        output.write(f"Replay it: group-coordinator replay {out}* --in-process --out {out.with_suffix('')}-replayed/")
