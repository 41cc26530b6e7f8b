"""A long-running command prints lines on standard output, or only lines of its log if that is JSON."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from group_coordinator.command_line.errors import EXPECTED, told
from group_coordinator.command_line.tables import say
from group_coordinator.operations.logs import LogFormat, configure_logs

_GROUP = re.compile(r"OperatorError: group b'([^']*)'")
_log = logging.getLogger("group_coordinator")


class Voice:
    """Says things, in the form that the settings name."""

    def __init__(self, log_format: LogFormat, log_level: str) -> None:
        configure_logs(log_format, log_level)
        self.is_json = log_format == "json"

    def say(self, text: str, **fields: object) -> None:
        """`fields` are for machines, and only there; `text` has all that people need."""
        if self.is_json:
            _log.info(text, extra=fields)
        else:
            say(text)

    @contextmanager
    def failures_told(self) -> Iterator[None]:
        """A failure in here becomes a line of a JSON log, too. Ends the command with its exit code."""
        try:
            yield
        except Exception as problem:
            if not self.is_json:
                raise
            message, exit_code = told(problem)
            group = _GROUP.search(message)
            is_defect = not isinstance(problem, EXPECTED)
            _log.error(message, exc_info=is_defect, extra={"group_id": group[1]} if group else {})
            raise typer.Exit(exit_code) from problem
