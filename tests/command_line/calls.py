"""Commands that are called in this process."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner, Result

from group_coordinator.command_line.main import app

FIXTURES = Path(__file__).parent.parent / "fixtures"
REQUEST_LOG = FIXTURES / "recordings" / "chaos-a.request.log.gz"


def call(*arguments: str | Path) -> Result:
    environment = {"COLUMNS": "200", "TERM": "dumb", "TZ": "UTC"}
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env=environment)


def text_of(result: Result) -> str:
    """Everything printed, without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)
