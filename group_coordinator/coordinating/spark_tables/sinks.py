"""Rows go to Delta tables or Parquet directories. Both take the same batch twice without a trace of it.

Delta: rows that only get added are appended, rows that change are merged by their key; each write carries the number of
its batch in the table's transaction log (`txnVersion`), and one that is there already is skipped. Parquet: a batch owns
the directories `day=.../batch=<number>` and replaces them; a changed row is another version, and readers take the one
with the largest `last_seq`. Nothing is ever rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from group_coordinator.watching.tables.columns import CLUSTER, DAY, columns, quoted, table_schema
from group_coordinator.watching.tables.layout import WHOLE_HISTORY, Format, TablesError, table_path
from group_coordinator.watching.tables.rows import TABLES, Table

DELTA_SESSION_SETTINGS = {
    # Delta's parser loses the parameters of a query (`:name`) unless Spark binds them the old way (delta-io/delta
    # #7640).
    "spark.sql.legacy.parameterSubstitution.constantsOnly": "true",
    # Delta reads its own log with a Spark job; 50 tasks, the default, are for logs a thousand times as large.
    "spark.databricks.delta.snapshotPartitions": "2",
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}
"""What a session must have been started with to write Delta tables; Delta's jars apart."""

_TRANSACTION = "spark.databricks.delta.write"
APPLICATION_ID = "group-coordinator.tables"
"""Names the writer in Delta's transaction log: there is one checkpoint for a directory of tables, so one name will
do."""


class Sink(Protocol):
    """A directory of tables."""

    def prepare(self) -> None:
        """Make what is absent, add columns that tables of an earlier version lack. Raises TablesError."""

    def write(self, table: Table, rows: DataFrame, days: Sequence[int], batch_id: int) -> None:
        """Write one batch of one table. `days`: the days of its rows, since 1970."""

    def replace(self, table: Table, rows: DataFrame) -> None:
        """Write a whole table, in place of what was there."""

    def read(self, table: Table) -> DataFrame:
        """Return the table with each row in its latest version."""


def open_sink(spark: SparkSession, directory: str, kind: Format) -> Sink:
    return DeltaSink(spark, directory) if kind == "delta" else ParquetSink(spark, directory)


class DeltaSink:
    """Delta tables, one directory each."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._directory = directory
        if "DeltaSparkSessionExtension" not in (spark.conf.get("spark.sql.extensions", "") or ""):
            settings = ", ".join(f"{name}={value}" for name, value in DELTA_SESSION_SETTINGS.items())
            raise TablesError(f"The Spark session was started without Delta. Start it with {settings}.")

    def prepare(self) -> None:
        for table in TABLES.values():
            properties = ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in _properties(table).items())
            self._spark.sql(
                f"CREATE TABLE IF NOT EXISTS {self._name(table)} ({table_schema(table)}) USING delta "
                f"PARTITIONED BY ({DAY}) COMMENT {quoted(_about(table))} TBLPROPERTIES ({properties})"
            )
            self._add_columns(table)
            self._add_properties(table)

    def _add_columns(self, table: Table) -> None:
        present_types = {field.name: field.dataType.simpleString() for field in self.read(table).schema.fields}
        table_columns = {column.name: column for column in columns(table)}
        differing = [
            name
            for name in table_columns
            if name in present_types and present_types[name] != table_columns[name].sql_type
        ]
        if differing:
            lines = "; ".join(
                f"{name} is {present_types[name]}, not {table_columns[name].sql_type}" for name in differing
            )
            raise TablesError(f"The table {table_path(self._directory, table)} has columns of other types: {lines}.")
        missing = [column for name, column in table_columns.items() if name not in present_types]
        if missing:
            added = ", ".join(
                f"`{column.name}` {column.sql_type} COMMENT {quoted(column.meaning)}" for column in missing
            )
            self._spark.sql(f"ALTER TABLE {self._name(table)} ADD COLUMNS ({added})")

    def _add_properties(self, table: Table) -> None:
        present = {row.key for row in self._spark.sql(f"SHOW TBLPROPERTIES {self._name(table)}").collect()}
        missing = {name: value for name, value in _properties(table).items() if name not in present}
        if missing:
            added = ", ".join(f"{quoted(name)} = {quoted(value)}" for name, value in missing.items())
            self._spark.sql(f"ALTER TABLE {self._name(table)} SET TBLPROPERTIES ({added})")

    def write(self, table: Table, rows: DataFrame, days: Sequence[int], batch_id: int) -> None:
        with _transaction(rows.sparkSession, batch_id):
            if table.changes:
                self._merge(table, rows, days)
            else:
                rows.coalesce(1).write.format("delta").mode("append").save(table_path(self._directory, table))

    def _merge(self, table: Table, rows: DataFrame, days: Sequence[int]) -> None:
        names = [column.name for column in columns(table)]
        # The days as literals: Delta looks at no others.
        literals = ", ".join(f"date_from_unix_date({day})" for day in sorted(days))
        on = [f"old.{DAY} in ({literals})", *(f"old.`{name}` = new.`{name}`" for name in (DAY, *table.key))]
        rows.coalesce(1).createOrReplaceTempView("new_rows")
        rows.sparkSession.sql(
            f"MERGE INTO {self._name(table)} old USING new_rows new ON {' and '.join(on)} "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'`{name}` = new.`{name}`' for name in names)} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(f'`{name}`' for name in names)}) "
            f"VALUES ({', '.join(f'new.`{name}`' for name in names)})"
        )

    def replace(self, table: Table, rows: DataFrame) -> None:
        rows.write.format("delta").mode("overwrite").partitionBy(DAY).save(table_path(self._directory, table))

    def read(self, table: Table) -> DataFrame:
        return self._spark.read.format("delta").load(table_path(self._directory, table))

    def _name(self, table: Table) -> str:
        return f"delta.`{table_path(self._directory, table)}`"


class ParquetSink:
    """Directories of Parquet files."""

    def __init__(self, spark: SparkSession, directory: str) -> None:
        self._spark = spark
        self._directory = directory

    def prepare(self) -> None:
        """Do nothing: the first rows make the directories, and readers give columns that a file lacks as null."""

    def write(self, table: Table, rows: DataFrame, days: Sequence[int], batch_id: int) -> None:
        (
            rows.selectExpr("*", f"{batch_id} batch")
            .coalesce(1)
            .write.partitionBy(DAY, "batch")
            .option("partitionOverwriteMode", "dynamic")
            .mode("overwrite")
            .parquet(table_path(self._directory, table))
        )

    def replace(self, table: Table, rows: DataFrame) -> None:
        with_batch = rows.selectExpr("*", f"{WHOLE_HISTORY} batch")
        with_batch.write.partitionBy(DAY, "batch").mode("overwrite").parquet(table_path(self._directory, table))

    def read(self, table: Table) -> DataFrame:
        schema = ", ".join(f"`{column.name}` {column.sql_type}" for column in columns(table))
        reader = self._spark.read.schema(f"{schema}, batch bigint")
        try:
            rows = reader.parquet(table_path(self._directory, table)).drop("batch")
        except AnalysisException as problem:
            if problem.getCondition() != "PATH_NOT_FOUND":
                raise
            return self._spark.createDataFrame([], schema)
        if not table.changes:
            return rows
        key = (CLUSTER, *table.key) if CLUSTER in rows.columns else table.key
        newest = f"row_number() over (partition by {', '.join(key)} order by last_seq desc) version"
        return rows.selectExpr("*", newest).where("version = 1").drop("version")


@contextmanager
def _transaction(spark: SparkSession, batch_id: int) -> Iterator[None]:
    """Delta writes inside carry the number of the batch, and are skipped where it was written already."""
    settings = {f"{_TRANSACTION}.txnAppId": APPLICATION_ID, f"{_TRANSACTION}.txnVersion": str(batch_id)}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


def _properties(table: Table) -> dict[str, str]:
    # Rows that change cannot be read as a plain stream.
    change_feed = {"delta.enableChangeDataFeed": "true"} if table.changes else {}
    return change_feed | {
        # Small batches make small files: Delta joins them when a day has many.
        "delta.autoOptimize.autoCompact": "true",
        # Least and greatest values only of what is searched by: gathering them for every column costs more than the
        # write.
        "delta.dataSkippingStatsColumns": ",".join(dict.fromkeys((*table.key, table.day_of))),
    }


def _about(table: Table) -> str:
    return (table.row.__doc__ or "").strip().split("\n")[0]
