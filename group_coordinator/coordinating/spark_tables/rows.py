"""History records in Spark -> rows of all tables, by the pure fold: as a stream with state, or as a batch.

Rows of all tables come in one DataFrame (`ROWS_SCHEMA`): name of the table, day, and the row as JSON. `table_rows`
makes columns of it. Flat text crosses from Python to the JVM faster than nested columns, and one operator feeds all
tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout

from group_coordinator.watching.history.order import sort_key
from group_coordinator.watching.tables.columns import columns, day_number, row_schema
from group_coordinator.watching.tables.fold import GroupTables
from group_coordinator.watching.tables.rows import TABLE_OF, AnyRow, Table, Unreadable
from schemas.history import History, decode_history

REASON_MAX_CHARACTERS = 500


class RawRecord(NamedTuple):
    """A record of the history topic. Where it lies is None for one that comes from a file without places."""

    partition: int | None
    offset: int | None
    timestamp_ms: int | None
    value: bytes | None


def read_group(tables: GroupTables, key: bytes | None, records: Iterable[RawRecord]) -> list[AnyRow]:
    """Fold the records of one key, in any order, and take the rows that are new or have changed."""
    readable: list[tuple[History, str]] = []
    rows: list[AnyRow] = []
    for raw in records:
        try:
            readable.append(_read(key, raw.value))
        except ValueError as problem:  # msgspec's and Unicode's errors are ValueErrors
            rows.append(_unreadable(raw, problem))
    for record, text in sorted(readable, key=lambda item: sort_key(item[0])):
        tables.add(record, text)
    return rows + tables.take()


def _read(key: bytes | None, value: bytes | None) -> tuple[History, str]:
    if value is None:
        raise ValueError("it has no value")
    record, text = decode_history(value), value.decode()
    if record.group_id.encode() != key:
        raise ValueError("its key is not its group id")
    return record, text


def _unreadable(raw: RawRecord, problem: Exception) -> Unreadable:
    return Unreadable(
        history_partition=raw.partition,
        history_offset=raw.offset,
        timestamp_ms=raw.timestamp_ms or 0,
        reason=str(problem)[:REASON_MAX_CHARACTERS],
        value=None if raw.value is None else raw.value.decode(errors="replace"),
    )


def row_json(row: AnyRow) -> str:
    """Return a row as JSON that Spark reads."""
    return msgspec.json.encode(row).decode()


HISTORY_SCHEMA = "key binary, value binary, partition int, offset bigint, timestamp_ms bigint"
"""A record of the history topic: `partition`, `offset` and `timestamp_ms` are null where they are not known."""
ROWS_SCHEMA = "table_name string, day int, row string"
_STATE_SCHEMA = "head binary, body binary"
_FOLDED = ("key", "value", "partition", "offset", "timestamp_ms")


def fold_stream(history: DataFrame) -> DataFrame:
    """Fold a stream of `HISTORY_SCHEMA` into rows of `ROWS_SCHEMA`; each batch has those that it added or changed."""
    return (
        history.select(*_FOLDED)
        .groupBy("key")
        .applyInPandasWithState(_fold_with_state, ROWS_SCHEMA, _STATE_SCHEMA, "append", GroupStateTimeout.NoTimeout)
    )


def fold_batch(history: DataFrame) -> DataFrame:
    """Fold whole histories, lazily: each row once, in its last version."""
    return history.select(*_FOLDED).groupBy("key").applyInPandas(_fold_whole, ROWS_SCHEMA)


def table_rows(rows: DataFrame, table: Table) -> DataFrame:
    """Return the rows of one table, in its columns."""
    parsed = rows.where(f"table_name = '{table.name}'").selectExpr(
        f"from_json(row, '{row_schema(table)}', map('mode', 'FAILFAST')) row", "day"
    )
    expressions = []
    for column in columns(table):
        if column.made_of is None:
            expressions.append(f"row.`{column.name}`")
        elif column.sql_type == "timestamp":
            expressions.append(f"timestamp_millis(row.`{column.made_of}`) `{column.name}`")
        else:
            expressions.append(f"date_from_unix_date(day) `{column.name}`")
    return parsed.selectExpr(*expressions)


def history_from_file(spark: SparkSession, path: str) -> DataFrame:
    """Read the history that a replay wrote (`history.jsonl` or `history.parquet`) as rows of `HISTORY_SCHEMA`."""
    if path.rstrip("/").endswith(".parquet"):
        records = spark.read.parquet(path).select("key", "value")
    else:
        text = spark.read.schema("key string, key_b64 string, value string, value_b64 string").json(path)
        bytes_of = "coalesce(unbase64({0}_b64), cast({0} as binary)) {0}"
        records = text.selectExpr(bytes_of.format("key"), bytes_of.format("value"))
    return without_places(records)


def without_places(records: DataFrame) -> DataFrame:
    """Make rows of `HISTORY_SCHEMA` of keys and values alone."""
    nowhere = ("cast(null as int) partition", "cast(null as bigint) offset", "cast(null as bigint) timestamp_ms")
    return records.selectExpr("key", "value", *nowhere)


def _fold_with_state(key: tuple[Any], frames: Iterable[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
    tables = GroupTables(tuple(bytes(blob) for blob in state.get) if state.exists else None)  # type: ignore[arg-type]
    rows = read_group(tables, key[0], [record for frame in frames for record in _records(frame)])
    state.update(tables.pack())
    if rows:
        yield _frame(rows)


def _fold_whole(key: tuple[Any], frame: pd.DataFrame) -> pd.DataFrame:
    return _frame(read_group(GroupTables(), key[0], _records(frame)))


def _records(frame: pd.DataFrame) -> Iterator[RawRecord]:
    places = frame[["partition", "offset", "timestamp_ms"]].astype("Int64")
    columns_of = [places[name].astype(object).where(places[name].notna(), None) for name in places.columns]
    return (RawRecord(*record) for record in zip(*columns_of, frame["value"], strict=True))


def _frame(rows: list[AnyRow]) -> pd.DataFrame:
    tables = [TABLE_OF[type(row)] for row in rows]
    return pd.DataFrame(
        {
            "table_name": [table.name for table in tables],
            "day": pd.Series([day_number(table, row) for table, row in zip(tables, rows, strict=True)], dtype="int32"),
            "row": [row_json(row) for row in rows],
        }
    )
