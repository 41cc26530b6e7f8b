"""The tables with Spark: `start_tables_query` from the history topic, exactly once; `write_tables_batch` from a whole
history.

Exactly once: the fold's state and the topic's offsets are in the checkpoint; a batch that was not committed there is
made again, gives the same rows (the fold is a function of its state and the records), and the sink takes the same batch
twice without a trace of it.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from group_coordinator.coordinating.spark_tables.rows import (
    fold_batch,
    fold_stream,
    history_from_file,
    table_rows,
    without_places,
)
from group_coordinator.coordinating.spark_tables.sinks import Sink, open_sink
from group_coordinator.watching.tables.layout import Format, TablesError, belongs_to_a_query, checkpoint_path
from group_coordinator.watching.tables.rows import TABLES
from schemas.isolation import ISOLATION_LEVEL

RECORDS_PER_BATCH_MAX = 200_000


def history_stream(
    spark: SparkSession,
    topic: str,
    kafka_options: Mapping[str, str],
    *,
    records_per_batch_max: int = RECORDS_PER_BATCH_MAX,
) -> DataFrame:
    """Return the history topic as a stream, from its beginning or from the checkpoint on.

    Records that the topic deleted before they were read fail the query: the tables would lack them.
    """
    reader = spark.readStream.format("kafka").options(
        **{**kafka_options, "kafka.isolation.level": ISOLATION_LEVEL},
        subscribe=topic,
        startingOffsets="earliest",
        failOnDataLoss="true",
        maxOffsetsPerTrigger=str(records_per_batch_max),
    )
    return reader.load().selectExpr("key", "value", "partition", "offset", "unix_millis(timestamp) timestamp_ms")


def start_tables_query(
    history: DataFrame,
    directory: str,
    kind: Format = "delta",
    *,
    trigger_interval_ms: int = 60_000,
    available_now: bool = False,
) -> StreamingQuery:
    """Write the tables of a history stream (`history_stream`) to `directory`, batch after batch.

    `available_now`: until what is there now is written. Raises TablesError where the directory has tables of another
    query or of a replay.
    """
    spark = history.sparkSession
    sink = open_sink(spark, directory, kind)
    checkpoint = checkpoint_path(directory)
    if not _exists(spark, checkpoint):
        _require_empty(sink, directory)
    sink.prepare()
    writer = (
        fold_stream(history)
        .writeStream.queryName("tables")
        .option("checkpointLocation", checkpoint)
        .outputMode("append")
        .foreachBatch(lambda rows, batch_id: write_rows(rows, sink, batch_id))
    )
    if available_now:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{trigger_interval_ms} milliseconds").start()


def write_rows(rows: DataFrame, sink: Sink, batch_id: int) -> None:
    """Write one batch of rows of all tables (`ROWS_SCHEMA`)."""
    rows.persist()
    try:
        days_by_table = rows.groupBy("table_name").agg({"day": "collect_set"}).collect()
        days = {name: sorted(numbers) for name, numbers in days_by_table}
        for table in TABLES.values():
            if table.name in days:
                sink.write(table, table_rows(rows, table), days[table.name], batch_id)
    finally:
        rows.unpersist()


def write_tables_batch(spark: SparkSession, history: DataFrame | str, directory: str, kind: Format = "delta") -> None:
    """Write the tables of a whole history, in place of those that an earlier call wrote.

    `history`: a file that a replay wrote (`history.jsonl`, `history.parquet`), or a DataFrame with `key` and `value` of
    the history topic. Raises TablesError where a streaming query writes to this directory.
    """
    if _exists(spark, checkpoint_path(directory)):
        raise belongs_to_a_query(directory)
    sink = open_sink(spark, directory, kind)
    sink.prepare()
    records = history_from_file(spark, history) if isinstance(history, str) else without_places(history)
    rows = fold_batch(records).persist()
    try:
        for table in TABLES.values():
            sink.replace(table, table_rows(rows, table))
    finally:
        rows.unpersist()


def register_views(spark: SparkSession, directory: str, kind: Format = "delta") -> None:
    """Make each table a view under its own name, for SQL."""
    sink = open_sink(spark, directory, kind)
    for table in TABLES.values():
        sink.read(table).createOrReplaceTempView(table.name)


def _require_empty(sink: Sink, directory: str) -> None:
    for table in TABLES.values():
        if _has_rows(sink, table.name):
            raise TablesError(
                f"{directory} has tables already, and no checkpoint: they come from a replay, or the checkpoint was "
                "removed. Name another directory, or remove this one to have the history read anew."
            )


def _has_rows(sink: Sink, name: str) -> bool:
    try:
        return not sink.read(TABLES[name]).isEmpty()
    except AnalysisException as problem:
        if problem.getCondition() in ("DELTA_TABLE_NOT_FOUND", "PATH_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST"):
            return False
        raise


def _exists(spark: SparkSession, path: str) -> bool:
    jvm = spark._jvm
    assert jvm is not None
    hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
    configuration = spark._jsparkSession.sessionState().newHadoopConf()
    return bool(hadoop_path.getFileSystem(configuration).exists(hadoop_path))
