"""The options of commands that write what happened, or read what was written: files of records, tables, a report."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class TablesFormat(StrEnum):
    """Of the tables."""

    delta = "delta"
    parquet = "parquet"


JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
JsonLinesOption = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
OutOption = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="Write the outputs into files there, one for each topic.")
]
WrittenDirectory = Annotated[
    Path | None,
    typer.Option("--from", metavar="DIR", help="What a replay or `watch` wrote. [default: the live cluster]"),
]
TablesOption = Annotated[
    str | None,
    typer.Option(
        "--tables", metavar="DIR", help="Write the tables of history there: events, rebalances, ownership ..."
    ),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report", metavar="FILE.html", help="Write what the dashboard shows into one file, to be opened anywhere."
    ),
]
TablesFormatOption = Annotated[TablesFormat, typer.Option("--tables-format", help="Of the tables.")]
