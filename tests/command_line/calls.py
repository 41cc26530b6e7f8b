"""Commands that are called in this process."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup
from typer.testing import CliRunner, Result

from group_coordinator.command_line.later import Later
from group_coordinator.command_line.main import app

FIXTURES = Path(__file__).parent.parent / "fixtures"
REQUEST_LOG = FIXTURES / "recordings" / "chaos-a.request.log.gz"


def call(*arguments: str | Path) -> Result:
    environment = {"COLUMNS": "200", "TERM": "dumb", "TZ": "UTC"}
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)


def text_of(result: Result) -> str:
    """Everything printed, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


def commands() -> dict[tuple[str, ...], Any]:
    """Return every command and every group of commands, by its words."""
    found: dict[tuple[str, ...], Any] = {}
    left: list[tuple[tuple[str, ...], Any]] = [((), typer.main.get_command(app))]
    while left:
        words, command = left.pop(0)
        found[words] = command.imported if isinstance(command, Later) else command
        if isinstance(command, TyperGroup):
            left += [((*words, name), inner) for name, inner in command.commands.items()]
    return found


def helps() -> dict[tuple[str, ...], str]:
    """Return what the source says in the help of every command, by the command's words."""
    return {
        words: inspect.cleandoc(command.help or "")
        for words, command in commands().items()
        if not isinstance(command, TyperGroup)
    }
