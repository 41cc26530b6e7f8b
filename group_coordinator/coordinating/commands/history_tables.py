"""The tables of history as `run --tables` and `replay --tables` write them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from group_coordinator.command_line.output_options import TablesFormat
from streaming.config import StreamingConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from streaming.application import CompanionQuery
    from streaming.topics import TopicReport

INTERVAL_S = 60
"""From one batch of the tables to the next: what a merge into Delta costs is not paid every second."""
_SMALL_BATCHES = {
    # A minute's rows are few: compiling the many statements of a batch would take longer than running them, and it is
    # the coordinator's cores that it would take.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


def introduction(directory: str, kind: TablesFormat) -> str:
    """Return a line that says where the tables of a running coordinator are."""
    return f"Tables of history ({kind.value}), every {INTERVAL_S} s: {directory}"


def for_tables(config: StreamingConfig, kind: TablesFormat) -> StreamingConfig:
    """Return the settings with those that a session needs to write tables; settings made by hand stay."""
    from group_coordinator.coordinating.spark_tables.sinks import DELTA_SESSION_SETTINGS

    # Pools that share fairly: while a batch of the tables is written the coordinator's batches go on.
    tables_settings = {"spark.scheduler.mode": "FAIR", **(DELTA_SESSION_SETTINGS if kind is TablesFormat.delta else {})}
    return config.changed(spark={**tables_settings, **config.spark})


def beside_the_coordinator(
    config: StreamingConfig, directory: str | None, kind: TablesFormat
) -> tuple[StreamingConfig, CompanionQuery | None]:
    """Return the settings of a coordinator that keeps tables in `directory`, and what starts their query; without a
    directory there are none."""
    if directory is None:
        return config, None
    config = for_tables(config, kind)
    return config, tables_query(config, directory, kind)


def tables_query(
    config: StreamingConfig, directory: str, kind: TablesFormat, interval_s: int = INTERVAL_S
) -> Callable[[SparkSession, TopicReport], StreamingQuery]:
    """Return what starts the query that writes the tables, in the coordinator's session. It raises TablesError."""

    def start(spark: SparkSession, report: TopicReport) -> StreamingQuery:
        from group_coordinator.coordinating.spark_tables.views import history_stream, start_tables_query
        from streaming.session import prepare_session

        session = spark.newSession()  # the settings below are not the coordinator's
        prepare_session(session, config)
        for name, value in _SMALL_BATCHES.items():
            session.conf.set(name, value)
        history = history_stream(session, report.topics.history, config.source_options)
        return start_tables_query(history, directory, kind.value, trigger_interval_ms=interval_s * 1_000)

    return start


def write_with_spark(outputs: DataFrame, config: StreamingConfig, directory: str, kind: TablesFormat) -> None:
    """Write the tables of a replay's outputs. Raises TablesError."""
    from group_coordinator.coordinating.spark_tables.views import write_tables_batch

    history = outputs.where(outputs.topic == config.topics.history).select("key", "value")
    write_tables_batch(outputs.sparkSession, history, directory, kind.value)
