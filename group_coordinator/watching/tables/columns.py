"""The columns of each table, made from the row classes: names, types, meanings.

One place for Arrow and Spark.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct

from group_coordinator.watching.tables.rows import MS_PER_DAY, AnyRow, Row, Table

DAY = "day"
CLUSTER = "cluster"
"""A column of tables that have the groups of several clusters, by which they are partitioned, too."""
CLUSTER_MEANING = "The cluster whose group it is, where several are watched."
_SCALARS = {int: "bigint", str: "string", bool: "boolean"}


class Column(Struct, frozen=True):
    """One column of a table."""

    name: str
    sql_type: str
    """As Spark, Delta and Hive write it: `bigint`, `array<string>` ..."""
    meaning: str
    made_of: str | None = None
    """The field in milliseconds that a timestamp or the day is made of; None: the column is a field."""


@cache
def columns(table: Table) -> tuple[Column, ...]:
    """Return the columns in order: fields as in the class, after each moment its timestamp, the day last."""
    found = []
    meanings, hints = _meanings(table.row), get_type_hints(table.row, include_extras=True)
    for name in table.row.__struct_fields__:
        found.append(Column(name, _sql_type(hints[name]), meanings[name]))
        if _is_moment(hints[name]):
            timestamp_name = name.removesuffix("_ms") + "_at"
            found.append(Column(timestamp_name, "timestamp", f"The same as a timestamp: `{name}`.", name))
    day = Column(DAY, "date", f"The UTC day of `{table.day_of}`; the table is partitioned by it.", table.day_of)
    return (*found, day)


def row_schema(table: Table) -> str:
    """Return the fields of a row as a Spark schema, which its JSON has."""
    return ", ".join(f"`{column.name}` {column.sql_type}" for column in columns(table) if column.made_of is None)


def table_schema(table: Table) -> str:
    """Return the columns of the table as a Spark schema, with their meanings as comments."""
    return ", ".join(f"`{column.name}` {column.sql_type} COMMENT {quoted(column.meaning)}" for column in columns(table))


def quoted(text: str) -> str:
    """Return a string literal of Spark SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def day_number(table: Table, row: AnyRow) -> int:
    """Return the row's day, as days since 1970."""
    moment_ms: int = getattr(row, table.day_of)
    return moment_ms // MS_PER_DAY


def _is_moment(hint: Any) -> bool:
    parts = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return any(isinstance(meta, Meta) for part in parts for meta in getattr(part, "__metadata__", ()))


def _sql_type(hint: Any) -> str:
    if hasattr(hint, "__metadata__"):
        return _sql_type(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        (present,) = {_sql_type(part) for part in get_args(hint) if part is not NoneType}
        return present
    if get_origin(hint) is Literal:
        return _sql_type(type(get_args(hint)[0]))
    if get_origin(hint) is tuple:
        return f"array<{_sql_type(get_args(hint)[0])}>"
    if issubclass(hint, Struct):
        fields = get_type_hints(hint)
        return "struct<" + ",".join(f"{name}:{_sql_type(fields[name])}" for name in hint.__struct_fields__) + ">"
    return _SCALARS[hint]


def _meanings(kind: type[Any]) -> dict[str, str]:
    """The string below each field, of a class and of `Row`."""
    meanings = dict(_meanings(Row)) if kind is not Row and issubclass(kind, Row) else {}
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(definition, ast.ClassDef)
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = getattr(getattr(below, "value", None), "value", None)
            assert isinstance(text, str), f"{kind.__name__}.{field.target.id} has no meaning"
            meanings[field.target.id] = " ".join(text.split())
    return meanings
