"""Where tables are written that this process writes itself, without Spark: what is wrong with it is said at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.layout import Format, TablesError
from group_coordinator.watching.tables.rows import AnyRow
from schemas.history import History

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class Tables(Protocol):
    """Tables that are brought to the rows of a history, time after time."""

    def write(self, rows: Iterable[tuple[str, AnyRow]]) -> int:
        """Write all tables, of rows with their clusters. Returns about how many bytes. Raises OSError."""


def is_address(directory: str) -> bool:
    """Return whether tables lie at an address, as of an object store, and not in a directory of this machine."""
    return _ADDRESS.match(directory) is not None


def require_writable(directory: str, kind: Format) -> None:
    """Make the directory, if it is one. Raises TablesError where it cannot be written or reached, or where a package
    is missing."""
    if find_spec("pyarrow") is None:
        raise TablesError("Tables need the extra tables (pyarrow is missing): install the package pyarrow.")
    if is_address(directory):
        if kind != "delta":
            raise TablesError(f"Tables at {directory} are Delta tables: leave out --tables-format {kind}.")
        if find_spec("deltalake") is None:
            raise TablesError(
                f"Tables at {directory} need the extra delta (deltalake is missing): install the package deltalake, or "
                "name a directory of this machine."
            )
        from group_coordinator.watching.tables.delta_tables import require_reachable  # its packages are extras

        require_reachable(directory)
        return
    path = Path(directory)
    try:
        path.mkdir(parents=True, exist_ok=True)
        is_writable = os.access(path, os.W_OK | os.X_OK)
    except OSError as problem:
        raise TablesError(f"Tables cannot be written to {directory}: {problem.strerror}.") from problem
    if not is_writable:
        raise TablesError(f"Tables cannot be written to {directory}: it may not be written.")


def open_tables(directory: str, kind: Format, *, has_clusters: bool = False) -> Tables:
    """Return the tables of a watcher: at an address what changes is appended, in a directory all is written anew.
    Raises as `require_writable`, and TablesError where something else wrote tables there."""
    require_writable(directory, kind)
    if is_address(directory):
        from group_coordinator.watching.tables.delta_tables import DeltaTables  # its packages are extras

        return DeltaTables(directory, has_clusters=has_clusters)
    from group_coordinator.watching.tables.files import TableVersions  # its packages are extras

    return TableVersions(Path(directory), kind, has_clusters=has_clusters)


def write_history(history: Iterable[History], directory: str, kind: Format) -> None:
    """Write the tables of a whole history, in place of what was there. Raises TablesError, OSError."""
    if is_address(directory):
        open_tables(directory, kind).write(("", row) for row in fold(history))
        return
    from group_coordinator.watching.tables.files import write_tables  # its packages are extras

    write_tables(history, Path(directory), kind)
