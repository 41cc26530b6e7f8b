"""Tables that are written anew as a whole: readers find the last whole version, whatever became of the writer."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from group_coordinator.watching.tables.files import TableVersions, write_tables
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.layout import CHECKPOINT, Format, TablesError
from group_coordinator.watching.tables.rows import TABLES, AnyRow
from tests.watching.tables.example_history import example_history

ROWS = [("", row) for row in fold(example_history())]


def counts(directory: Path) -> dict[str, int]:
    """The rows of each table, as a reader finds them."""
    return {
        name: ds.dataset(directory / name, format="parquet", partitioning="hive").count_rows()
        for name in TABLES
        if name != "unreadable"
    }


def broken_off() -> Iterator[tuple[str, AnyRow]]:
    yield from ROWS[: len(ROWS) // 2]
    raise OSError("no space left on device")


@pytest.mark.parametrize("kind", ["parquet", "delta"])
def test_the_last_whole_version_is_found(kind: Format, tmp_path: Path) -> None:
    complete, tables = tmp_path / "whole", tmp_path / "tables"
    write_tables(example_history(), complete, kind)
    versions = TableVersions(tables, kind)
    assert not any((tables / name).exists() for name in TABLES)
    versions.write(ROWS[:1])
    versions.write(iter(ROWS))
    assert counts(tables) == counts(complete)
    with pytest.raises(OSError, match="no space"):
        versions.write(broken_off())
    assert counts(tables) == counts(complete)
    again = TableVersions(tables, kind)
    assert counts(tables) == counts(complete)
    for _ in range(4):
        again.write(iter(ROWS))
    assert counts(tables) == counts(complete)
    assert len(list((tables / "_versions").iterdir())) == 2


def test_what_others_wrote_stays(tmp_path: Path) -> None:
    write_tables(example_history(), tmp_path / "replayed", "parquet")
    with pytest.raises(TablesError, match="no watcher wrote"):
        TableVersions(tmp_path / "replayed", "parquet")
    (tmp_path / "running" / CHECKPOINT).mkdir(parents=True)
    with pytest.raises(TablesError, match="running coordinator"):
        TableVersions(tmp_path / "running", "parquet")
    TableVersions(tmp_path / "watched", "parquet").write(ROWS)
    with pytest.raises(TablesError, match="watched cluster"):
        write_tables(example_history(), tmp_path / "watched", "parquet")
