"""Histories as files, tables as Python rows: what the Spark tests share."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from group_coordinator.coordinating.spark_tables.rows import HISTORY_SCHEMA
from group_coordinator.coordinating.spark_tables.sinks import open_sink
from group_coordinator.watching.tables.columns import columns
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.layout import Format
from group_coordinator.watching.tables.rows import MS_PER_DAY, TABLE_OF, TABLES, AnyRow
from schemas.events import encode_json
from schemas.history import History
from schemas.records_file import Record, encode_record

PIECE_TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(), "value": pa.binary(), "partition": pa.int32(), "offset": pa.int64(), "timestamp_ms": pa.int64()
}  # fmt: skip
PIECE = pa.schema(PIECE_TYPES)
Rows = dict[str, list[tuple[Any, ...]]]
"""Table name -> rows, sorted."""


def write_jsonl(path: Path, records: Iterable[History]) -> None:
    """A replay's history.jsonl."""
    lines = [
        encode_record(Record(partition=None, key=record.group_id.encode(), value=encode_json(record)))
        for record in records
    ]
    path.write_bytes(b"\n".join(lines) + b"\n")


def write_pieces(directory: Path, pieces: Sequence[Sequence[tuple[bytes | None, bytes | None]]]) -> None:
    """Keys and values, one file for each batch of the stream."""
    directory.mkdir()
    offset = 0
    for number, piece in enumerate(pieces):
        rows = [
            {"key": key, "value": value, "partition": 0, "offset": offset + n, "timestamp_ms": 1_000 * (offset + n)}
            for n, (key, value) in enumerate(piece)
        ]
        offset += len(piece)
        path = directory / f"piece-{number:03}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, PIECE), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))  # the source takes the oldest first


def raw(records: Iterable[History]) -> list[tuple[bytes | None, bytes | None]]:
    return [(record.group_id.encode(), encode_json(record)) for record in records]


def read_stream(spark: Any, directory: Path) -> Any:
    """The pieces as a stream, one a batch."""
    return spark.readStream.schema(HISTORY_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory))


def expected(records: Iterable[History]) -> Rows:
    """What the pure fold says."""
    rows_by_table: Rows = {name: [] for name in TABLES}
    for row in fold(records):
        rows_by_table[TABLE_OF[type(row)].name].append(_columns_of(row))
    return {name: sorted(rows, key=repr) for name, rows in rows_by_table.items()}


def _columns_of(row: AnyRow) -> tuple[Any, ...]:
    return tuple(_value(row, column.made_of, column.name, column.sql_type) for column in columns(TABLE_OF[type(row)]))


def _value(row: AnyRow, made_of: str | None, name: str, sql_type: str) -> Any:
    value = getattr(row, made_of or name)
    if value is not None and sql_type == "date":
        return date.fromordinal(date(1970, 1, 1).toordinal() + value // MS_PER_DAY)
    if value is not None and sql_type == "timestamp":
        return datetime.fromtimestamp(value / 1000, UTC).replace(tzinfo=None)
    return _plain(msgspec.to_builtins(value))


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return list(value.values()) if isinstance(value, dict) else value


def tables_in(spark: Any, directory: Path, kind: Format, names: Collection[str] = TABLES) -> Rows:
    """What Spark reads from a directory of tables."""
    sink = open_sink(spark, str(directory), kind)
    rows_by_table: Rows = {}
    for table in map(TABLES.__getitem__, names):
        rows = sink.read(table).select(*[column.name for column in columns(table)])
        rows_by_table[table.name] = sorted(
            (tuple(_plain(_row(value)) for value in row) for row in rows.collect()), key=repr
        )
    return rows_by_table


def _row(value: Any) -> Any:
    """Spark's rows inside arrays as lists."""
    return [list(item) if isinstance(item, tuple) else item for item in value] if isinstance(value, list) else value
