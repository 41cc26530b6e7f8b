"""Tables that are written anew as a whole, time after time, where readers always find the last whole version.

`_versions/` has the versions, `_current` is a link to the one that holds, and each table's name is a link below it: all
tables change at once. What a killed writer left unfinished is removed by the next one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from group_coordinator.watching.tables.files import write_rows
from group_coordinator.watching.tables.layout import CHECKPOINT, CURRENT, Format, TablesError, belongs_to_a_query
from group_coordinator.watching.tables.rows import TABLES, AnyRow

_VERSIONS = "_versions"
_LINK = ".unfinished"


class TableVersions:
    """The tables in a directory. For one writer."""

    def __init__(self, directory: Path, kind: Format, *, has_clusters: bool = False) -> None:
        """Raises TablesError where something else wrote tables there, OSError."""
        if (directory / CHECKPOINT).exists():
            raise belongs_to_a_query(str(directory))
        foreign = [name for name in TABLES if (directory / name).is_dir() and not (directory / name).is_symlink()]
        if foreign:
            raise TablesError(f"{directory} has a table {foreign[0]} that no watcher wrote. Name another directory.")
        self._directory = directory
        self._kind = kind
        self._has_clusters = has_clusters
        (directory / _VERSIONS).mkdir(parents=True, exist_ok=True)
        self._remove_all_but(self._current())

    def write(self, rows: Iterable[tuple[str, AnyRow]]) -> int:
        """Write all tables, of rows with their clusters. Until they are whole, readers find those of before.

        Returns how many bytes they have. Raises OSError.
        """
        before = self._current()
        version = f"{0 if before is None else int(before) + 1:08}"
        write_rows(rows, self._directory / _VERSIONS / version, self._kind, has_clusters=self._has_clusters)
        self._link(CURRENT, f"{_VERSIONS}/{version}")
        for name in TABLES:
            self._link(name, f"{CURRENT}/{name}")
        self._remove_all_but(version, before)  # somebody may be reading what was there
        files = (self._directory / _VERSIONS / version).rglob("*")
        return sum(path.stat().st_size for path in files if path.is_file())

    def _current(self) -> str | None:
        link = self._directory / CURRENT
        return link.readlink().name if link.is_symlink() else None

    def _link(self, name: str, target: str) -> None:
        path, new_link = self._directory / name, self._directory / f"{name}{_LINK}"
        if path.is_symlink() and str(path.readlink()) == target:
            return
        new_link.unlink(missing_ok=True)
        os.symlink(target, new_link)
        new_link.replace(path)

    def _remove_all_but(self, *names_kept: str | None) -> None:
        for path in (self._directory / _VERSIONS).iterdir():
            if path.name not in names_kept:
                shutil.rmtree(path, ignore_errors=True)
