"""The tables with Spark: streaming and batch, Delta and Parquet, all equal to the pure fold; crashes; older tables."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from group_coordinator.coordinating.spark_tables import sinks, views
from group_coordinator.coordinating.spark_tables.rows import fold_batch, history_from_file
from group_coordinator.coordinating.spark_tables.sinks import DeltaSink, ParquetSink, open_sink
from group_coordinator.coordinating.spark_tables.views import (
    history_stream,
    start_tables_query,
    write_tables_batch,
)
from group_coordinator.proving.embedded_kafka.broker import EmbeddedKafka
from group_coordinator.watching.tables.columns import columns
from group_coordinator.watching.tables.files import TableVersions, write_tables
from group_coordinator.watching.tables.fold import fold
from group_coordinator.watching.tables.layout import CHECKPOINT, Format, TablesError
from group_coordinator.watching.tables.rows import TABLE_OF, TABLES, Table
from schemas.history import History
from tests.watching.tables.example_history import example_history
from tests.watching.tables.spark_support import expected, raw, read_stream, tables_in, write_jsonl, write_pieces

CUTS = (45, 100)
TWO = ("events", "ownership")
"""One table whose rows are only added, and one whose rows change: there are two ways to write one."""
THREE = ("events", "rebalances", "ownership")
"""Of each way one that is written when the process is killed, and one that is not yet."""
RECORDS = example_history()


def pieces_with_repetitions() -> list[list[tuple[bytes | None, bytes | None]]]:
    """Three batches. Each begins with what the one before ended with, as an at-least-once sink writes after a crash."""
    first, second = CUTS
    return [raw(RECORDS[:first]), raw(RECORDS[first - 5 : second]), raw(RECORDS[second - 5 :])]


@pytest.fixture(scope="module")
def expected_rows() -> dict[str, list[tuple[object, ...]]]:
    return expected(RECORDS)


def same(
    actual: dict[str, list[tuple[object, ...]]],
    expected: dict[str, list[tuple[object, ...]]],
    names: Collection[str] = TABLES,
) -> None:
    for name in names:
        assert actual[name] == expected[name], name


def with_tables(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Write these tables alone: Spark takes a second for each thing that it does with one."""
    for module in (sinks, views):
        monkeypatch.setattr(module, "TABLES", {name: TABLES[name] for name in names})


# ---------------------------------------------------------------------------------------------------- one whole history


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_a_replays_history_file(
    tables_spark: SparkSession, tmp_path: Path, kind: Format, expected_rows: dict[str, list[tuple[object, ...]]]
) -> None:
    """By Spark; then, in its place, without Spark: the same tables."""
    write_jsonl(tmp_path / "history.jsonl", RECORDS)
    write_tables_batch(tables_spark, str(tmp_path / "history.jsonl"), str(tmp_path / "tables"), kind)
    same(tables_in(tables_spark, tmp_path / "tables", kind), expected_rows)
    write_tables(RECORDS, tmp_path / "without", kind)
    same(tables_in(tables_spark, tmp_path / "without", kind), expected_rows)


@pytest.mark.parametrize("kind", ["delta", "parquet"])
def test_equal_group_ids_of_two_clusters(tables_spark: SparkSession, tmp_path: Path, kind: Format) -> None:
    rows = [(cluster, row) for cluster in ("prod", "test") for row in fold(RECORDS)]
    TableVersions(tmp_path / "tables", kind, has_clusters=True).write(rows)
    sink = open_sink(tables_spark, str(tmp_path / "tables"), kind)
    rows_of = Counter((TABLE_OF[type(row)].name, cluster) for cluster, row in rows)
    for name in {name for name, _ in rows_of}:
        counts = {row[0]: row[1] for row in sink.read(TABLES[name]).groupBy("cluster").count().collect()}
        assert counts == {cluster: rows_of[name, cluster] for cluster in ("prod", "test")}, name


# ------------------------------------------------------------------------------------------------------------ streaming


def test_parquet_stream_that_fails_in_the_midst_of_a_batch(
    tables_spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expected_rows: dict[str, list[tuple[object, ...]]],
) -> None:
    pieces = pieces_with_repetitions()
    pieces[1].append((b"orders", b"{}"))
    pieces[1].append((b"orders", raw(RECORDS[-1:])[0][1]))
    pieces[2].append((None, b"\xff"))
    write_pieces(tmp_path / "in", pieces)
    write = ParquetSink.write

    def start() -> StreamingQuery:
        pieces_so_far = read_stream(tables_spark, tmp_path / "in")
        return start_tables_query(pieces_so_far, str(tmp_path / "tables"), "parquet", available_now=True)

    def fail_after(self: ParquetSink, table: Table, rows: DataFrame, days: Sequence[int], batch_id: int) -> None:
        write(self, table, rows, days, batch_id)
        if (table.name, batch_id) == ("ownership", 1):
            raise RuntimeError("pulled the plug")

    monkeypatch.setattr(ParquetSink, "write", fail_after)
    with pytest.raises(Exception, match="pulled the plug"):
        start().awaitTermination()
    monkeypatch.undo()
    start().awaitTermination()
    actual = tables_in(tables_spark, tmp_path / "tables", "parquet")
    unreadable = actual.pop("unreadable")
    same(actual | {"unreadable": []}, expected_rows)
    reasons = [str(row[4]) for row in unreadable]
    assert len(reasons) == 3
    assert "its key is not its group id" in reasons


def test_delta_stream_whose_driver_is_killed(
    tables_spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    expected_rows: dict[str, list[tuple[object, ...]]],
) -> None:
    """kill -9 after a table was merged and before the batch was committed; another process goes on.

    That the other tables come out right by batches is shown by the test above, and that Delta takes them by that of a
    replay's file.
    """
    write_pieces(tmp_path / "in", pieces_with_repetitions())
    tables = tmp_path / "tables"
    killed = subprocess.run(
        [sys.executable, "-m", "tests.watching.tables.killed_query", str(tmp_path / "in"), str(tables), "1",
         "rebalances", *THREE],
        start_new_session=True,
        capture_output=True,
        timeout=900,
        cwd=Path(__file__).parents[3],
    )
    assert killed.returncode == -9, killed.stderr.decode()[-3_000:]
    assert (tables / CHECKPOINT / "commits" / "0").exists()
    assert not (tables / CHECKPOINT / "commits" / "1").exists()
    assert transactions(tables / "rebalances") == [0, 1], "it is written,"
    assert transactions(tables / "ownership") == [0], "and the next one is not"

    with_tables(monkeypatch, *THREE)
    query = start_tables_query(read_stream(tables_spark, tmp_path / "in"), str(tables), available_now=True)
    query.awaitTermination()
    same(tables_in(tables_spark, tables, "delta", THREE), expected_rows, THREE)
    for name in THREE:
        assert transactions(tables / name) == [0, 1, 2], "no batch was written twice"
    require_changes_tell_the_rows(tables_spark, tables, startingVersion=0)

    with pytest.raises(TablesError, match="running coordinator"):
        write_tables_batch(tables_spark, str(tmp_path / "any.jsonl"), str(tables))
    with pytest.raises(TablesError, match="running coordinator"):
        write_tables(RECORDS, tables)


def transactions(table: Path) -> list[int]:
    """The numbers of the batches in a table's transaction log."""
    actions = [
        json.loads(line)
        for path in sorted((table / "_delta_log").glob("*.json"))
        for line in path.read_text().splitlines()
    ]
    return [action["txn"]["version"] for action in actions if "txn" in action]


def test_kafkas_topic(
    tables_spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    topic_prefix: str,
    kafka: EmbeddedKafka,
    admin: AdminClient,
    expected_rows: dict[str, list[tuple[object, ...]]],
) -> None:
    with_tables(monkeypatch, *TWO)
    topic = f"{topic_prefix}.history"
    admin.create_topics([NewTopic(topic, num_partitions=2)])[topic].result()
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for key, value in raw(RECORDS):
        producer.produce(topic, key=key, value=value)
    producer.flush()
    stream = history_stream(
        tables_spark, topic, {"kafka.bootstrap.servers": kafka.bootstrap_servers}, records_per_batch_max=100
    )
    start_tables_query(stream, str(tmp_path / "tables"), "parquet", available_now=True).awaitTermination()
    same(tables_in(tables_spark, tmp_path / "tables", "parquet", TWO), expected_rows, TWO)


def test_a_table_of_an_earlier_version_is_read_as_a_stream(
    tables_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its feed of changes begins where it was switched on."""
    with_tables(monkeypatch, "ownership")
    tables = tmp_path / "tables"
    DeltaSink(tables_spark, str(tables)).prepare()
    tables_spark.sql(f"ALTER TABLE delta.`{tables / 'ownership'}` UNSET TBLPROPERTIES ('delta.enableChangeDataFeed')")
    write_pieces(tmp_path / "in", pieces_with_repetitions())
    pieces = read_stream(tables_spark, tmp_path / "in")
    start_tables_query(pieces, str(tables), "delta", available_now=True).awaitTermination()
    assert require_changes_tell_the_rows(tables_spark, tables, startingVersion=2) == len(expected(RECORDS)["ownership"])


def require_changes_tell_the_rows(spark: SparkSession, directory: Path, **options: int) -> int:
    """The last change of each key in the feed of `ownership` is the row as the table has it. Return how many there
    are."""
    table = TABLES["ownership"]
    changes = spark.readStream.format("delta").options(readChangeFeed=True, **options)
    rows = changes.load(str(directory / table.name)).where("_change_type IN ('insert', 'update_postimage')")
    query = rows.writeStream.format("memory").queryName("changes").trigger(availableNow=True).start()
    query.awaitTermination()
    last: dict[tuple[object, ...], tuple[object, ...]] = {}
    for row in spark.sql("SELECT * FROM changes ORDER BY _commit_version").collect():
        last[tuple(row[name] for name in table.key)] = tuple(row[column.name] for column in columns(table))
    now = [tuple(row) for row in DeltaSink(spark, str(directory)).read(table).collect()]
    assert sorted(last.values(), key=repr) == sorted(now, key=repr)
    return len(last)


def test_tables_of_a_replay_are_not_gone_on_with(tables_spark: SparkSession, tmp_path: Path) -> None:
    write_tables(RECORDS, tmp_path / "tables", "parquet")
    write_pieces(tmp_path / "in", [raw(RECORDS)])
    with pytest.raises(TablesError, match="no checkpoint"):
        start_tables_query(read_stream(tables_spark, tmp_path / "in"), str(tmp_path / "tables"), "parquet")


# --------------------------------------------------------------------------------------------------- tables of old


def test_a_delta_table_of_an_earlier_version_gets_the_new_columns(
    tables_spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows stay, new columns are null in them; a column that we do not know stays too."""
    with_tables(monkeypatch, "refusals")
    refusals = TABLES["refusals"]
    path = tmp_path / "tables" / "refusals"
    tables_spark.sql(
        f"CREATE TABLE delta.`{path}` (group_id string, epoch bigint, seq bigint, error string, team string, day date) "
        "USING delta PARTITIONED BY (day)"
    )
    tables_spark.sql(f"INSERT INTO delta.`{path}` VALUES ('old', 1, 2, 'UNKNOWN_MEMBER_ID', 'ours', DATE'2026-01-01')")
    sink = DeltaSink(tables_spark, str(tmp_path / "tables"))
    sink.prepare()
    sink.write(refusals, refused(tables_spark, tmp_path, RECORDS), [20_777], 0)
    rows_by_group = {row.group_id: row.asDict() for row in sink.read(refusals).collect()}
    assert (rows_by_group["old"]["error"], rows_by_group["old"]["team"], rows_by_group["old"]["rule"]) == (
        "UNKNOWN_MEMBER_ID",
        "ours",
        None,
    )
    assert (rows_by_group["shared"]["rule"], rows_by_group["shared"]["team"]) == ("no_common_protocol", None)
    comments = {field.name: field.metadata.get("comment") for field in sink.read(refusals).schema.fields}
    assert comments["rule"] == "Which rule refused it."


def refused(spark: SparkSession, directory: Path, records: tuple[History, ...]) -> DataFrame:
    from group_coordinator.coordinating.spark_tables.rows import table_rows

    write_jsonl(directory / "history.jsonl", records)
    return table_rows(fold_batch(history_from_file(spark, str(directory / "history.jsonl"))), TABLES["refusals"])


def test_a_delta_table_with_another_type_is_refused(tables_spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "tables" / "events"
    tables_spark.sql(
        f"CREATE TABLE delta.`{path}` (group_id string, epoch string, day date) USING delta PARTITIONED BY (day)"
    )
    with pytest.raises(TablesError, match="epoch is string, not bigint"):
        DeltaSink(tables_spark, str(tmp_path / "tables")).prepare()


def test_parquet_files_of_an_earlier_version_are_read(tables_spark: SparkSession, tmp_path: Path) -> None:
    directory = tmp_path / "tables" / "refusals" / "day=2026-01-01" / "batch=0"
    directory.mkdir(parents=True)
    pq.write_table(
        pa.table({"group_id": ["old"], "epoch": [1], "seq": [2], "error": ["E"]}), directory / "part-0.parquet"
    )
    sink = ParquetSink(tables_spark, str(tmp_path / "tables"))
    (row,) = sink.read(TABLES["refusals"]).collect()
    assert (row.group_id, row.error, row.rule) == ("old", "E", None)
    assert sink.read(TABLES["refusals"]).columns == [column.name for column in columns(TABLES["refusals"])]
