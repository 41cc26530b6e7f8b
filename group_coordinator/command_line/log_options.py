"""The options of commands that read logs of brokers."""

from __future__ import annotations

from datetime import UTC, tzinfo
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import typer

from group_coordinator.command_line.errors import WRONG_USE, CommandError

BrokerLogs = Annotated[
    list[str] | None,
    typer.Option(
        "--broker-log", metavar="FILE",
        help="A broker's server.log, a pattern, a directory of logs, or - for standard input; repeated.",
    ),
]
TimeZone = Annotated[
    str, typer.Option(metavar="ZONE", help="Time zone of lines that do not name theirs: Europe/Berlin, UTC.")
]


def zone(name: str) -> tzinfo:
    """Return the time zone of this name. Raises CommandError."""
    try:
        return UTC if name.upper() == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise CommandError(
            f"There is no time zone {name!r}; write for example Europe/Berlin or UTC.", WRONG_USE
        ) from None
