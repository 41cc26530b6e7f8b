"""`group-coordinator`: the commands, and what they do when something is wrong."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from group_coordinator.command_line import (
    dashboard,
    demo,
    explain,
    export,
    gateway,
    group_config,
    groups,
    import_log,
    offsets,
    replay,
    responder,
    run,
    tap,
    verify,
    watch,
    what_if,
)
from group_coordinator.command_line.errors import EXPECTED, message_and_exit_code
from group_coordinator.command_line.options import insist_on_pairs
from group_coordinator.command_line.signals import interrupt_when_asked
from group_coordinator.command_line.tables import err
from group_coordinator.operations.printable import printable_lines
from group_coordinator.system.ended_threads import note_ended_threads

DISTRIBUTION = "group-coordinator"


class Commands(TyperGroup):
    """Tells what is wrong in a line; a traceback is for defects only."""

    def invoke(self, ctx: Any) -> Any:
        try:
            insist_on_pairs(ctx.args)
            return super().invoke(ctx)
        except EXPECTED as problem:
            if isinstance(problem, BrokenPipeError):
                raise
            message, exit_code = message_and_exit_code(problem)
            err().print(f"{DISTRIBUTION}: {printable_lines(message)}", style="red" if err().is_terminal else None)
            raise typer.Exit(exit_code) from problem


app = typer.Typer(
    name=DISTRIBUTION,
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
imports = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")
committed = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")
exports = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")
verifications = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode="markdown")

app.command("demo")(demo.demo)
app.command("run")(run.run)
app.command("responder")(responder.responder)
app.command("gateway")(gateway.gateway)
app.command("tap")(tap.tap)
app.add_typer(imports, name="import", help="Turn other systems' recordings into events.")
imports.command("kafka-request-log")(import_log.kafka_request_log)
app.command("replay")(replay.replay)
app.add_typer(verifications, name="verify", help="Compare our decisions with those of a real Kafka, answer by answer.")
verifications.command("recording")(verify.recording)
verifications.command("history")(verify.history)
app.command("groups")(groups.groups)
app.command("group-config")(group_config.group_config)
app.command("explain")(explain.explain)
app.command("dashboard")(dashboard.dashboard)
app.command("what-if")(what_if.what_if)
app.command("watch")(watch.watch)
app.add_typer(exports, name="export", help="Write what a Kafka cluster keeps of its groups into files.")
exports.command("offsets-topic")(export.offsets_topic)
app.add_typer(
    committed, name="offsets", help="Committed offsets as of any moment, out of this coordinator and onto a cluster."
)
committed.command("export")(offsets.export)
committed.command("import")(offsets.load)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"{DISTRIBUTION} {version(DISTRIBUTION)}")
        raise typer.Exit()


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """A Kafka consumer-group coordinator that is a Spark stream job: it decides, and remembers why.

    Begin with `group-coordinator demo`. Every command explains itself: `group-coordinator COMMAND --help`.
    """


def main() -> None:
    """Run the command line."""
    interrupt_when_asked()
    note_ended_threads()
    app()


if __name__ == "__main__":
    main()
