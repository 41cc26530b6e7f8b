"""What each reader of the output topics says of a directory of records: explain, offsets export, tables, dashboard."""

from __future__ import annotations

import base64
import gzip
import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
from typer.testing import CliRunner

from group_coordinator.command_line.main import app
from group_coordinator.command_line.replay_output import read_history_files
from group_coordinator.watching.dashboard.report import write_report
from group_coordinator.watching.tables.files import write_tables

_DOCUMENT = re.compile(r'data-document="([^"]+)">([^<]*)</script>')


def explained(topics: Path, scratch: Path) -> str:
    """Every group's latest rebalance in words, and a line for each one before it."""
    group_ids = sorted({record.group_id for record in read_history_files(topics)})
    return "".join(_printed("explain", "--from", str(topics), "--utc", "--group", group_id) for group_id in group_ids)


def offsets(topics: Path, scratch: Path) -> str:
    """The committed offsets at the end, and those at the time of the record in the middle of the history."""
    times_ms = sorted(record.time_ms for record in read_history_files(topics))
    middle = _printed("offsets", "export", "--replayed", str(topics), "--at", str(times_ms[len(times_ms) // 2]))
    return _printed("offsets", "export", "--replayed", str(topics)) + "\n" + middle


def tables(topics: Path, scratch: Path) -> str:
    """Every row of every table, as a line of JSON behind the name of its table."""
    write_tables(read_history_files(topics), scratch, "parquet")
    files = sorted(scratch.rglob("*.parquet"))
    assert files
    return "".join(
        f"{file.relative_to(scratch).parts[0]} {json.dumps(row, default=str)}\n"
        for file in files
        for row in pq.read_table(file, partitioning=None).to_pylist()
    )


def dashboard(topics: Path, scratch: Path) -> str:
    """Every document that the dashboard has, as a line of JSON behind its name."""
    page = scratch / "report.html"
    write_report(topics, page, title="topics")
    documents = {
        html.unescape(name): json.loads(gzip.decompress(base64.b64decode(data)))
        for name, data in _DOCUMENT.findall(page.read_text())
    }
    assert "groups" in documents
    return "".join(f"{name} {json.dumps(document)}\n" for name, document in sorted(documents.items()))


READERS: dict[str, Callable[[Path, Path], str]] = {
    "explain": explained,
    "offsets": offsets,
    "tables": tables,
    "dashboard": dashboard,
}
"""Each gets the directory of topics, and an empty one for its own files."""


def _printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "TERM": "dumb", "TZ": "UTC"})
    assert result.exit_code == 0, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)
