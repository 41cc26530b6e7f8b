"""Rows as Arrow: for files that are written without Spark."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
import pyarrow as pa

from group_coordinator.watching.tables.columns import CLUSTER, CLUSTER_MEANING, DAY, Column, columns
from group_coordinator.watching.tables.rows import AnyRow, Table

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
    if column.sql_type.startswith("array<struct"):
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
    fields = [
        {
            "name": column.name,
            "type": _delta_type(column.sql_type),
            "nullable": True,
            "metadata": {"comment": column.meaning},
        }
        for column in all_columns
    ]
    return {"type": "struct", "fields": fields}


def _delta_type(sql_type: str) -> Any:
    if sql_type.startswith("array<"):
        return {"type": "array", "elementType": _delta_type(_inside(sql_type)), "containsNull": True}
    if sql_type.startswith("struct<"):
        fields = [
            {"name": name, "type": _delta_type(kind), "nullable": True, "metadata": {}}
            for name, kind in _struct_fields(sql_type)
        ]
        return {"type": "struct", "fields": fields}
    return _DELTA_NAMES[sql_type]


def _inside(sql_type: str) -> str:
    return sql_type.partition("<")[2].removesuffix(">")


def _struct_fields(sql_type: str) -> list[tuple[str, str]]:
    """Fields of a struct of scalars: the only ones that there are."""
    return [(name, kind) for name, _, kind in (part.partition(":") for part in _inside(sql_type).split(","))]


def day_text(day: int) -> str:
    """Return days since 1970 as `2026-11-20`."""
    return str(pa.scalar(day, pa.int32()).cast(pa.date32()).as_py())

