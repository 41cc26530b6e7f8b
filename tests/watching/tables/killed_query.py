"""Runs the tables query and kills itself, JVM and all,
when a table of a batch is written and the batch is not committed.

Run: python -m tests.watching.tables.killed_query PIECES DIRECTORY BATCH TABLE TABLES...: TABLES are written, and BATCH
of TABLE is the last thing.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from group_coordinator.coordinating.spark_tables import sinks, views
from group_coordinator.coordinating.spark_tables.sinks import DELTA_SESSION_SETTINGS, DeltaSink
from group_coordinator.coordinating.spark_tables.views import start_tables_query
from group_coordinator.watching.tables.rows import TABLES, Table
from streaming.session import jars_settings
from tests.watching.tables.conftest import QUICK
from tests.watching.tables.spark_support import read_stream


def main(pieces: str, directory: str, killed_batch: int, killed_table: str, *tables: str) -> None:
    write = DeltaSink.write
    for module in (sinks, views):
        vars(module)["TABLES"] = {name: TABLES[name] for name in tables}

    def write_and_die(self: DeltaSink, table: Table, rows: DataFrame, days: Sequence[int], batch_id: int) -> None:
        write(self, table, rows, days, batch_id)
        if (table.name, batch_id) == (killed_table, killed_batch):
            os.killpg(0, signal.SIGKILL)

    DeltaSink.write = write_and_die  # type: ignore[method-assign]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.driver.host": "127.0.0.1"}
    all_settings = {**settings, **jars_settings("local[2]"), **DELTA_SESSION_SETTINGS, **QUICK}
    builder = SparkSession.builder.master("local[2]").config(map={**all_settings})
    start_tables_query(
        read_stream(builder.getOrCreate(), Path(pieces)), directory, available_now=True
    ).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
