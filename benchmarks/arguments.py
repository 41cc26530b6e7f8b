"""What the commands of all benchmarks share."""

from __future__ import annotations

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict


def command_parser(name: str, text: str | None) -> ArgumentParser:
    """The parser of `python -m benchmarks.<name>`; the module's docstring is its help."""
    program = f"python -m benchmarks.{name}"
    return ArgumentParser(prog=program, description=text, formatter_class=RawDescriptionHelpFormatter)


def write_figures(path: Path, figures: Sequence[Struct]) -> None:
    """Write what was measured as a JSON list of objects."""
    path.write_text(json.dumps([asdict(figure) for figure in figures], indent=1))
