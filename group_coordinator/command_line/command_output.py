"""A long-running command prints lines on standard output, or only lines of its log if that is JSON."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from group_coordinator.command_line.errors import EXPECTED, message_and_exit_code
from group_coordinator.command_line.tables import print_line
from group_coordinator.ground.monitoring.logs import LogFormat, configure_logs

_GROUP = re.compile(r"OperatorError: group b'([^']*)'")
_log = logging.getLogger("group_coordinator")


class CommandOutput:
    """Writes lines in the form that the settings name."""

    def __init__(self, log_format: LogFormat, log_level: str) -> None:
        configure_logs(log_format, log_level)
        self.is_json = log_format == "json"

    def write(self, text: str, **fields: object) -> None:
        """Write a line. `fields` appear in a JSON log alone; `text` has all that people need."""
        if self.is_json:
            _log.info(text, extra=fields)
        else:
            print_line(text)

    @contextmanager
    def log_failures(self) -> Iterator[None]:
        """Log a failure in here where the log is JSON, and end the command with its exit code."""
        try:
            yield
        except Exception as problem:
            if not self.is_json:
                raise
            message, exit_code = message_and_exit_code(problem)
            group = _GROUP.search(message)
            is_defect = not isinstance(problem, EXPECTED)
            _log.error(message, exc_info=is_defect, extra={"group_id": group[1]} if group else {})
            raise typer.Exit(exit_code) from problem
