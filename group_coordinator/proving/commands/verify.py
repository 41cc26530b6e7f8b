"""`verify`: our decisions against those of a real Kafka, as it recorded them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from group_coordinator.command_line.errors import WRONG_USE, CommandError
from group_coordinator.command_line.log_options import TimeZone, zone
from group_coordinator.command_line.output_options import JsonOption
from group_coordinator.command_line.progress import bytes_progress
from group_coordinator.command_line.tables import print_json, print_lines
from group_coordinator.proving.recordings.recording import verify_recording

DIFFERENCES_SHOWN = 100

BrokerLogs = Annotated[
    list[Path] | None,
    typer.Option(
        "--broker-log", "--coordinator-log", metavar="FILE", help="What a broker logged: rebalances, causes, times."
    ),
]
Shown = Annotated[int, typer.Option("--show", metavar="N", help="Differences that are printed at most.")]


def recording(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Request logs of one broker or of several, plain or gzip.")
    ],
    offsets: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The broker's records of __consumer_offsets (JSONL), compared too."),
    ] = None,
    broker_log: BrokerLogs = None,
    config: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A setting of the broker, by Kafka's name. [default: inferred]"),
    ] = None,
    time_zone: TimeZone = "UTC",
    show: Shown = DIFFERENCES_SHOWN,
    as_json: JsonOption = False,
) -> None:
    """Replay a Kafka broker's request log, and compare every answer with the one that the broker gave.

    Settings of the broker that are not given are inferred from its answers, and printed. A line's time is when the
    answer was sent; inside a millisecond an order is searched for that reproduces the answers. The exit code is 1 if
    anything differs, or nothing could be compared; the last line is `N requests, N equal, N differ, N cannot be
    compared (why)`.

    Examples:

        group-coordinator verify recording crash.request.log.gz
        group-coordinator verify recording crash.request.log.gz --offsets crash.offsets.jsonl.gz
        group-coordinator verify recording broker-*/kafka-request.log* --broker-log broker-1/server.log
        group-coordinator verify recording kafka-request.log* --config group.initial.rebalance.delay.ms=0
    """
    settings = _pairs(config or [])
    with bytes_progress("reading") as advance:
        try:
            report = verify_recording(files, offsets, broker_log or [], settings, zone(time_zone), advance)
        except ValueError as problem:
            raise CommandError(str(problem)) from problem
    # The differences are the long part of what there is to say.
    shortened = msgspec.structs.replace(report, differences=report.differences[:show])
    if as_json:
        print_json(shortened)
    else:
        *lines, summary = shortened.lines()
        more = len(report.differences) - show
        print_lines([*lines, *([f"... and {more} more differences (--show)"] if more > 0 else []), summary])
    if (nothing_verified := report.nothing_verified) is not None:
        raise CommandError(nothing_verified)
    if not report.agrees:
        raise typer.Exit(1)


def _pairs(texts: list[str]) -> dict[str, str]:
    malformed = [text for text in texts if "=" not in text]
    if malformed:
        raise CommandError(f"--config {malformed[0]}: write NAME=VALUE.", WRONG_USE)
    return dict(text.split("=", 1) for text in texts)
