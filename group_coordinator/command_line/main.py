"""`group-coordinator`: the commands, and what they do when something is wrong."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from group_coordinator.command_line.later import MARKUP, Later, add_later
from group_coordinator.command_line.signals import interrupt_when_asked
from group_coordinator.ground.system.ended_threads import note_ended_threads

DISTRIBUTION = "group-coordinator"


class Commands(TyperGroup):
    """Tells what is wrong in a line; a traceback is for defects only."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        for command in self.commands.values():
            if isinstance(command, Later):
                command.describe()
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        from group_coordinator.command_line.errors import EXPECTED
        from group_coordinator.command_line.options import insist_on_pairs

        try:
            insist_on_pairs(ctx.args)
            return super().invoke(ctx)
        except EXPECTED as problem:
            if isinstance(problem, BrokenPipeError):
                raise
            raise typer.Exit(_told(problem)) from problem


def _told(problem: BaseException) -> int:
    """Print what is wrong, and return the exit code."""
    from group_coordinator.command_line.errors import message_and_exit_code
    from group_coordinator.command_line.tables import err
    from group_coordinator.ground.monitoring.printable import printable_lines

    message, exit_code = message_and_exit_code(problem)
    err().print(f"{DISTRIBUTION}: {printable_lines(message)}", style="red" if err().is_terminal else None)
    return exit_code


app = typer.Typer(
    name=DISTRIBUTION,
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=MARKUP,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
imports = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode=MARKUP)
committed = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode=MARKUP)
exports = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode=MARKUP)
verifications = typer.Typer(cls=Commands, no_args_is_help=True, rich_markup_mode=MARKUP)

app.add_typer(imports, name="import", help="Turn other systems' recordings into events.")
app.add_typer(verifications, name="verify", help="Compare our decisions with those of a real Kafka, answer by answer.")
app.add_typer(exports, name="export", help="Write what a Kafka cluster keeps of its groups into files.")
app.add_typer(
    committed, name="offsets", help="Committed offsets as of any moment, out of this coordinator and onto a cluster."
)
for group, name, house, module in (
    (app, "demo", "proving", "demo"),
    (app, "run", "coordinating", "run"),
    (app, "responder", "coordinating", "responder"),
    (app, "gateway", "coordinating", "gateway"),
    (app, "relay", "coordinating", "relay"),
    (app, "tap", "coordinating", "tap"),
    (imports, "kafka-request-log", "proving", "import_log"),
    (app, "replay", "proving", "replay"),
    (verifications, "recording", "proving", "verify"),
    (app, "groups", "coordinating", "groups"),
    (app, "group-config", "coordinating", "group_config"),
    (app, "rules", "coordinating", "rules"),
    (app, "explain", "watching", "explain"),
    (app, "dashboard", "coordinating", "dashboard"),
    (app, "what-if", "proving", "what_if"),
    (app, "watch", "watching", "watch"),
    (app, "readiness", "watching", "readiness"),
    (app, "mcp", "watching", "mcp"),
    (exports, "offsets-topic", "watching", "export"),
    (committed, "export", "coordinating", "offsets"),
):
    add_later(group, name, f"group_coordinator.{house}.commands.{module}", name.replace("-", "_"))
add_later(committed, "import", "group_coordinator.coordinating.commands.offsets", "load")


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
