"""The tables of a whole history in files, without Spark: Delta tables or Parquet directories, as the Spark writers
make them."""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Iterable, Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from group_coordinator.watching.tables.columns import CLUSTER, CLUSTER_MEANING, DAY, Column, columns, day_number
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.layout import (
    CHECKPOINT,
    CURRENT,
    WHOLE_HISTORY,
    Format,
    TablesError,
    belongs_to_a_query,
    belongs_to_a_watcher,
)
from group_coordinator.watching.tables.rows import TABLE_OF, TABLES, AnyRow, Table
from schemas.history import History

ROWS_PER_FILE = 100_000


def write_tables(history: Iterable[History], directory: Path, kind: Format = "delta") -> None:
    """Write the tables of a history, of any number of groups and in any order, in place of what was there.

    All of the history is held in memory. Raises TablesError where something that runs on writes to this directory,
    OSError.
    """
    if (directory / CHECKPOINT).exists():
        raise belongs_to_a_query(str(directory))
    if (directory / CURRENT).is_symlink():
        raise belongs_to_a_watcher(str(directory))
    write_rows((("", row) for row in fold(history)), directory, kind)


def write_rows(
    rows: Iterable[tuple[str, AnyRow]], directory: Path, kind: Format, *, has_clusters: bool = False
) -> None:
    """Write tables of these rows, in place of what was there. Raises OSError.

    Each row comes with its cluster, by which the tables are partitioned, too, if they have several (`has_clusters`).
    """
    writers = {table.name: _Writer(directory / table.name, table, kind, has_clusters) for table in TABLES.values()}
    for cluster, row in rows:
        writers[TABLE_OF[type(row)].name].write(cluster, row)
    for writer in writers.values():
        writer.close()


class _Writer:
    """The files of one table."""

    def __init__(self, directory: Path, table: Table, kind: Format, has_clusters: bool) -> None:
        self._directory = directory
        self._table = table
        self._kind = kind
        self._has_clusters = has_clusters
        self._rows: dict[tuple[str, int], list[AnyRow]] = {}
        """By cluster and day."""
        self._count = 0
        self._files: list[tuple[Path, dict[str, str]]] = []
        """Each with the values of its partition."""
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)

    def write(self, cluster: str, row: AnyRow) -> None:
        self._rows.setdefault((cluster, day_number(self._table, row)), []).append(row)
        self._count += 1
        if self._count >= ROWS_PER_FILE:
            self._flush()

    def close(self) -> None:
        self._flush()
        if self._kind == "delta":
            self._commit()

    def _flush(self) -> None:
        for (cluster, day), rows in sorted(self._rows.items(), key=itemgetter(0)):
            partition = {CLUSTER: cluster} if self._has_clusters else {}
            partition[DAY] = day_text(day)
            directory = self._directory.joinpath(*(f"{name}={value}" for name, value in partition.items()))
            if self._kind == "parquet":
                directory /= f"batch={WHOLE_HISTORY}"
            directory.mkdir(parents=True, exist_ok=True)
            path = directory / f"part-{len(self._files):05}.parquet"
            pq.write_table(arrow_table(self._table, rows), path)
            self._files.append((path, partition))
        self._rows, self._count = {}, 0

    def _commit(self) -> None:
        """Version 0 of a Delta table, as the protocol of its transaction log has it."""
        meta_data = {
            "id": str(uuid.uuid4()),
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps(delta_schema(self._table, has_clusters=self._has_clusters)),
            "partitionColumns": [CLUSTER, DAY] if self._has_clusters else [DAY],
            "configuration": {},
        }
        actions = [
            {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
            {"metaData": meta_data},
            *({"add": self._added_file(path, partition)} for path, partition in self._files),
        ]
        log = self._directory / "_delta_log"
        log.mkdir()
        (log / f"{0:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))

    def _added_file(self, path: Path, partition: dict[str, str]) -> dict[str, object]:
        stat = path.stat()
        return {
            "path": str(path.relative_to(self._directory)),
            "partitionValues": partition,
            "size": stat.st_size,
            "modificationTime": stat.st_mtime_ns // 1_000_000,
            "dataChange": True,
        }


_SCALARS: dict[str, pa.DataType] = {
    "bigint": pa.int64(),
    "string": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_DELTA_NAMES = {"bigint": "long", "date": "date", "timestamp": "timestamp", "string": "string", "boolean": "boolean"}


@cache
def arrow_schema(table: Table) -> pa.Schema:
    """Return the columns of a file: all but the day, which is in the file's path."""
    return pa.schema(
        [pa.field(column.name, _arrow_type(column.sql_type)) for column in columns(table) if column.name != DAY]
    )


def arrow_table(table: Table, rows: Sequence[AnyRow]) -> pa.Table:
    arrays = [_array(column, rows) for column in columns(table) if column.name != DAY]
    return pa.Table.from_arrays(arrays, schema=arrow_schema(table))


def _array(column: Column, rows: Sequence[AnyRow]) -> pa.Array[Any]:
    values = [getattr(row, column.made_of or column.name) for row in rows]
    if column.made_of is not None:
        return pa.array(values, pa.timestamp("ms", "UTC")).cast(_arrow_type(column.sql_type))
    if "struct<" in column.sql_type:
        values = msgspec.to_builtins(values)
    return pa.array(values, _arrow_type(column.sql_type))


def _arrow_type(sql_type: str) -> pa.DataType:
    if sql_type.startswith("array<"):
        return pa.list_(_arrow_type(_inside(sql_type)))
    if sql_type.startswith("struct<"):
        return pa.struct([(name, _arrow_type(kind)) for name, kind in _struct_fields(sql_type)])
    return _SCALARS[sql_type]


def delta_schema(table: Table, *, has_clusters: bool = False) -> dict[str, Any]:
    """Return the schema in the form of Delta's transaction log."""
    all_columns = (*columns(table), Column(CLUSTER, "string", CLUSTER_MEANING)) if has_clusters else columns(table)
    return _delta_struct((column.name, column.sql_type, {"comment": column.meaning}) for column in all_columns)


def _delta_struct(fields: Iterable[tuple[str, str, dict[str, str]]]) -> dict[str, Any]:
    described = [
        {"name": name, "type": _delta_type(kind), "nullable": True, "metadata": metadata}
        for name, kind, metadata in fields
    ]
    return {"type": "struct", "fields": described}


def _delta_type(sql_type: str) -> Any:
    if sql_type.startswith("array<"):
        return {"type": "array", "elementType": _delta_type(_inside(sql_type)), "containsNull": True}
    if sql_type.startswith("struct<"):
        return _delta_struct((name, kind, {}) for name, kind in _struct_fields(sql_type))
    return _DELTA_NAMES[sql_type]


def _inside(sql_type: str) -> str:
    return sql_type.partition("<")[2].removesuffix(">")


def _struct_fields(sql_type: str) -> list[tuple[str, str]]:
    """Fields of a struct of scalars: the only ones that there are."""
    return [(name, kind) for name, _, kind in (part.partition(":") for part in _inside(sql_type).split(","))]


def day_text(day: int) -> str:
    """Return days since 1970 as `2026-11-20`."""
    return str(pa.scalar(day, pa.int32()).cast(pa.date32()).as_py())


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
