"""What a watcher writes: where, and what is found there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from group_coordinator.command_line.output_options import TablesFormat
from group_coordinator.ground.settings.topic_names import Topics
from group_coordinator.watching.commands.watch_outputs import OutputOptions
from group_coordinator.watching.tables.rows import TABLES

TOPICS = Topics.of_prefix("coordinator")


def outputs(directory: Path) -> OutputOptions:
    return OutputOptions(
        out=directory / "out",
        tables=str(directory / "tables"),
        tables_kind=TablesFormat.parquet,
        report=directory / "report.html",
    )


OF_HISTORY = [name for name in TABLES if name != "readiness"]


def rows(tables: Path, names: Iterable[str] = OF_HISTORY) -> dict[str, list[dict[str, Any]]]:
    """Return each table's rows, in an order of their own."""
    return {
        name: sorted(
            (row for path in (tables / name).glob("*/*/*.parquet") for row in pq.ParquetFile(path).read().to_pylist()),
            key=lambda row: json.dumps(row, default=str),
        )
        for name in names
    }
