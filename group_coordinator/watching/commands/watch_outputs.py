"""What `watch` writes, as `replay` writes it: files of history, tables, a report. Each is replaced as a whole."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from group_coordinator.command_line.output_options import TablesFormat
from group_coordinator.command_line.replay_output import history_outputs
from group_coordinator.ground.output_files import write_files
from group_coordinator.ground.settings.topic_names import Topics
from group_coordinator.watching.dashboard.clusters import qualified
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.notes import Note
from group_coordinator.watching.dashboard.readiness import BrokerSettings, cost_of, readiness_of
from group_coordinator.watching.dashboard.report import report_of_index
from group_coordinator.watching.tables.destination import open_tables
from group_coordinator.watching.tables.fold import rows_of_group
from group_coordinator.watching.tables.rows import AnyRow

if TYPE_CHECKING:
    from group_coordinator.watching.watch.writing import GroupHistory, Output

_UNFINISHED = ".unfinished"
_HOUR_MS = 3_600_000


class OutputOptions(Struct, frozen=True, kw_only=True):
    """The outputs that were asked for."""

    out: Path | None
    tables: str | None
    tables_kind: TablesFormat
    report: Path | None


def open_outputs(options: OutputOptions, topics: Topics, name: str, *, has_clusters: bool = False) -> list[Output]:
    """`topics`: what files are called after. `name`: of what is watched. `has_clusters`: more than one may be.

    Raises TablesError, OSError.
    """
    outputs: list[Output] = []
    if options.out is not None:
        outputs.append(_HistoryFiles(options.out, topics))
    if options.tables is not None:
        outputs.append(_Tables(options.tables, options.tables_kind, has_clusters=has_clusters))
    if options.report is not None:
        outputs.append(_Report(options.report, name))
    return outputs


class _HistoryFiles:
    """The files of `replay --out`. What a coordinator decides beside history is not known of a watched cluster."""

    def __init__(self, directory: Path, topics: Topics) -> None:
        """`topics`: what files are called after. Raises OSError."""
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._topics = topics

    def write(self, histories: Iterator[GroupHistory], index: Index, go_on: Callable[[], None]) -> int:
        unfinished = self._directory / _UNFINISHED
        records = (qualified(each.cluster, record) for each in histories for record in each.records)
        write_files(history_outputs(records, self._topics.history), self._topics, unfinished)
        Note(doubts=index.doubts, watched=index.watched).write(unfinished)
        paths = sorted(unfinished.iterdir())
        written_bytes = sum(path.stat().st_size for path in paths)
        for path in paths:
            path.replace(self._directory / path.name)
        unfinished.rmdir()
        return written_bytes


class _Tables:
    """The tables of `replay --tables`."""

    def __init__(self, directory: str, kind: TablesFormat, *, has_clusters: bool) -> None:
        """Raises TablesError, OSError."""
        self._tables = open_tables(directory, kind.value, has_clusters=has_clusters)

    def write(self, histories: Iterator[GroupHistory], index: Index, go_on: Callable[[], None]) -> int:
        return self._tables.write((each.cluster, row) for each in histories for row in _rows(each, index))


def _rows(history: GroupHistory, index: Index) -> Iterator[AnyRow]:
    rows = rows_of_group(history.records, with_events=True)
    yield from rows
    if history.stored is not None and history.records:
        last, settings = history.records[-1], index.broker_settings.get(history.cluster, BrokerSettings())
        # The week moves on once an hour: a row that is another one is written anew.
        full_hour_ms = time.time_ns() // 1_000_000 // _HOUR_MS * _HOUR_MS
        cost = cost_of(history.records, rows, max(full_hour_ms, last.timestamp_ms))
        yield readiness_of(last.group_id, history.stored, settings, cost)


class _Report:
    """The file of `replay --report`."""

    def __init__(self, path: Path, title: str) -> None:
        self._path = path
        self._title = title

    def write(self, histories: Iterator[GroupHistory], index: Index, go_on: Callable[[], None]) -> int:
        unfinished = self._path.with_name(self._path.name + _UNFINISHED)
        unfinished.write_text(report_of_index(index, self._title, go_on), encoding="utf-8")
        written_bytes = unfinished.stat().st_size
        unfinished.replace(self._path)
        return written_bytes
