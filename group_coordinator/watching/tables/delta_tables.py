"""Delta tables at an address (an object store), by delta-rs: each write is a commit of what has changed since the last.

A reader finds whole versions. After all writes a table has just the rows of the last one, as a table that is written
anew has. Credentials are those of the environment (AWS_ACCESS_KEY_ID ...), as delta-rs reads them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any

import msgspec
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError

from group_coordinator.watching.tables.columns import CLUSTER, DAY, day_number
from group_coordinator.watching.tables.files import arrow_table, day_text
from group_coordinator.watching.tables.layout import TablesError
from group_coordinator.watching.tables.rows import TABLE_OF, TABLES, AnyRow, Table

Place = tuple[str, int]
"""The values of a row's partition: its cluster and its day."""
Key = tuple[Any, ...]
"""Cluster, day and the table's own key."""
_CHUNK_ROWS = 100_000
_SAID_MAX = 500
_XML = re.compile(r"<\?xml.*?(?:<Message>(.*?)</Message>.*|$)", re.DOTALL)
_DECORATION = re.compile("\x1b\\[[0-9;]*m|↳")


def require_reachable(address: str) -> None:
    """Ask for the first table, which need not be there. Raises TablesError where the store refuses or is not there."""
    try:
        DeltaTable(f"{address.rstrip('/')}/{next(iter(TABLES))}")
    except TableNotFoundError as problem:
        if "Unknown scheme" in str(problem):
            raise TablesError(f"Tables cannot be written to {address}: there is no such scheme.") from problem
    except (DeltaError, OSError, ValueError) as problem:
        raise TablesError(f"Tables cannot be written to {address}: {_in_a_line(problem)}") from problem


class DeltaTables:
    """The tables at an address. For one writer."""

    def __init__(self, address: str, *, has_clusters: bool = False) -> None:
        """`address`: one that can be reached."""
        self._address = address.rstrip("/")
        self._has_clusters = has_clusters
        self._written: dict[str, dict[Key, int]] | None = None
        """What each table has, by key: a hash of the row. None: it is not known, and all is written. It does not grow
        with time: it has just the rows of the last write, and these are made of evidence that has its bounds."""

    def write(self, rows: Iterable[tuple[str, AnyRow]]) -> int:
        """Bring all tables to these rows, given with their clusters. Returns how many bytes were written, about.

        Each table changes by itself. Raises OSError, and writes all the next time.
        """
        before, self._written = self._written, None
        written: dict[str, dict[Key, int]] = {name: {} for name in TABLES}
        changed = {name: _Changed(table, self._has_clusters) for name, table in TABLES.items()}
        for cluster, row in rows:
            table = TABLE_OF[type(row)]
            key = (cluster, day_number(table, row), *[getattr(row, name) for name in table.key])
            row_hash = written[table.name][key] = hash(msgspec.json.encode(row))
            if before is None or before[table.name].get(key) != row_hash:
                changed[table.name].add((cluster, key[1]), row)
        try:
            for name in TABLES:
                gone = [] if before is None else [key for key in before[name] if key not in written[name]]
                self._commit(changed[name], gone, is_first=before is None)
        except (DeltaError, ValueError) as problem:
            raise OSError(_in_a_line(problem)) from problem
        self._written = written
        return sum(each.size for each in changed.values())

    def _commit(self, changed: _Changed, gone: Sequence[Key], *, is_first: bool) -> None:
        table, rows = changed.table, changed.rows()
        address = f"{self._address}/{table.name}"
        if is_first:
            partition_by = [CLUSTER, DAY] if self._has_clusters else [DAY]
            write_deltalake(address, rows, mode="overwrite", schema_mode="overwrite", partition_by=partition_by)
            return
        columns = [*([CLUSTER] if self._has_clusters else []), DAY, *table.key]
        same = " and ".join(f"t.{name} = s.{name}" for name in columns)
        if gone:
            keys = pa.table(
                {name: [_key_value(key[number], name) for key in gone] for number, name in self._places(columns)},
                schema=pa.schema([rows.schema.field(name) for name in columns]),
            )
            merge = DeltaTable(address).merge(keys, same, source_alias="s", target_alias="t")
            merge.when_matched_delete().execute()
        if rows.num_rows:
            merge = DeltaTable(address).merge(rows, same, source_alias="s", target_alias="t")
            merge.when_matched_update_all().when_not_matched_insert_all().execute()

    def _places(self, columns: Sequence[str]) -> Iterable[tuple[int, str]]:
        """Where each column lies in a key."""
        return enumerate(columns, start=0 if self._has_clusters else 1)


class _Changed:
    """The rows of one table that are to be written."""

    def __init__(self, table: Table, has_clusters: bool) -> None:
        self.table = table
        self.size = 0
        """In bytes, about."""
        self._has_clusters = has_clusters
        self._waiting: dict[Place, list[AnyRow]] = {}
        self._count = 0
        self._parts: list[pa.Table] = []

    def add(self, place: Place, row: AnyRow) -> None:
        self._waiting.setdefault(place, []).append(row)
        self._count += 1
        if self._count >= _CHUNK_ROWS:
            self._pack()

    def rows(self) -> pa.Table:
        """Return all of them, with the columns of their partitions."""
        self._pack()
        return pa.concat_tables([*self._parts, self._with_place(("", 0), [])])

    def _pack(self) -> None:
        for place, rows in self._waiting.items():
            self._parts.append(self._with_place(place, rows))
            self.size += self._parts[-1].nbytes
        self._waiting, self._count = {}, 0

    def _with_place(self, place: Place, rows: list[AnyRow]) -> pa.Table:
        packed = arrow_table(self.table, rows)
        day = pa.array([_key_value(place[1], DAY)] * len(rows), pa.date32())
        packed = packed.append_column(pa.field(DAY, pa.date32()), day)
        if self._has_clusters:
            packed = packed.append_column(pa.field(CLUSTER, pa.string()), pa.array([place[0]] * len(rows), pa.string()))
        return packed


def _in_a_line(problem: Exception) -> str:
    """What delta-rs says, without colours and arrows; of a store's XML its message."""
    return " ".join(_DECORATION.sub(" ", _XML.sub(r"\1", str(problem))).split())[:_SAID_MAX]


def _key_value(value: Any, name: str) -> Any:
    return date.fromisoformat(day_text(value)) if name == DAY else value
