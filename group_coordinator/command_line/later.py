"""Commands are imported when they are called, so that `--version`, `--help` and each command load what they need."""

from __future__ import annotations

import ast
import importlib
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal

import typer
from typer.core import TyperCommand

MARKUP: Literal["markdown"] = "markdown"


class Later(TyperCommand):
    """A command whose function is imported when its arguments are to be read."""

    module: str
    function: str

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Return the context of the command itself."""
        return self.imported.make_context(info_name, args, parent, **extra)

    @cached_property
    def imported(self) -> Any:
        """The command itself."""
        alone = typer.Typer(add_completion=False, rich_markup_mode=MARKUP, pretty_exceptions_show_locals=False)
        alone.command(self.name)(getattr(importlib.import_module(self.module), self.function))
        return typer.main.get_command(alone)

    def describe(self) -> None:
        """Take the help for a list of commands out of the source, which is not run."""
        self.help = _docstring(self.module, self.function)


def add_later(group: typer.Typer, name: str, module: str, function: str) -> None:
    """Let a group have the command that this function of a module is."""
    of_this_function = type("Later", (Later,), {"module": module, "function": function})
    group.command(name, cls=of_this_function)(_not_imported_yet)


def _not_imported_yet() -> None:
    raise AssertionError("the command itself is called in its place")


def _docstring(module: str, function: str) -> str | None:
    top, *rooms, name = module.split(".")
    source = files(top).joinpath(*rooms, f"{name}.py").read_text("utf-8")  # of a file, or of a member of a zip file
    _, _, from_there = source.partition(f"\ndef {function}(")
    its_own, _, _ = from_there.partition("\n\n\n")
    (found,) = ast.parse(f"def {function}({its_own}").body
    assert isinstance(found, ast.FunctionDef)
    return ast.get_docstring(found)
