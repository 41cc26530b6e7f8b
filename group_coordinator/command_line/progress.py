"""Progress bars on standard error; without a terminal there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from group_coordinator.command_line.tables import err

Advance = Callable[[int, int], None]
"""Tell how much is done, and how much there is in all (0: not known yet)."""


@contextmanager
def bytes_progress(description: str) -> Iterator[Advance]:
    """Show the progress of reading files."""
    with _bar(description, DownloadColumn()) as advance:
        yield advance


@contextmanager
def count_progress(description: str) -> Iterator[Advance]:
    """Show the progress of counted things."""
    with _bar(description, MofNCompleteColumn()) as advance:
        yield advance


@contextmanager
def _bar(description: str, column: ProgressColumn) -> Iterator[Advance]:
    console = err()
    columns = (TextColumn("{task.description}"), BarColumn(), column, TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(description, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total or None)
