"""docs/sql.md: the very queries of the document, over the tables of a history whose answers are known."""

import re
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from group_coordinator.coordinating.spark_tables.views import register_views
from group_coordinator.watching.tables.files import write_tables
from tests.watching.tables.example_history import example_history

DOCUMENT = Path(__file__).parents[3] / "docs" / "sql.md"
QUERIES = dict(re.findall(r"```sql (\w+)\n(.*?)```", DOCUMENT.read_text(), re.DOTALL))
NOW = "2026-11-20 15:00:00"


@pytest.fixture(scope="module")
def views(tables_spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """Delta tables that were written without Spark, as views."""
    directory = tmp_path_factory.mktemp("sql") / "tables"
    write_tables(example_history(), directory)
    register_views(tables_spark, str(directory))
    return tables_spark


def ask(spark: SparkSession, name: str, **parameters: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(QUERIES[name], args=parameters).collect()]


def at(time: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-20 {time}")


@pytest.mark.parametrize(
    ("time", "partition", "owners"),
    [
        ("14:00:00.500", 2, ["a"]),
        ("14:00:30", 2, ["b"]),
        ("14:01:10.999", 2, ["b"]),
        ("14:01:11", 2, []),
        ("14:01:15", 2, ["a"]),
        ("14:59:00", 0, ["a"]),
        ("13:59:59", 0, []),
    ],
)
def test_owner_at(views: SparkSession, time: str, partition: int, owners: list[str]) -> None:
    at_time = f"2026-11-20 {time}"
    rows = ask(views, "owner_at", group="orders", topic="payments", partition=partition, at=at_time)
    assert [row[0] for row in rows] == owners


@pytest.mark.parametrize(
    ("time", "owners"),
    [("14:00:09", ["x"]), ("14:00:14.999", ["x"]), ("14:00:15", []), ("14:00:15.999", []), ("14:00:16", ["y"])],
)
def test_owner_at_in_a_consumer_group(views: SparkSession, time: str, owners: list[str]) -> None:
    """A member owns a partition until it has given it up, not until it is told to."""
    rows = ask(views, "owner_at", group="moving", topic="foo", partition=3, at=f"2026-11-20 {time}")
    assert [row[0] for row in rows] == owners


def test_target_waits(views: SparkSession) -> None:
    rows = {row[:3]: row[3:] for row in ask(views, "target_waits", group="moving")}
    assert rows["foo", 3, 3] == ("client", at("14:00:10"), at("14:00:16"), 6_000, "client")
    assert rows["foo", 0, 2] == ("client", at("14:00:00"), at("14:00:00"), 0, None)
    assert set(rows) == {("foo", number, 2) for number in range(4)} | {("foo", 2, 3), ("foo", 3, 3)}


def test_held_up(views: SparkSession) -> None:
    assert ask(views, "held_up", group="moving", now=NOW) == [("x", "client", "/127.0.0.1", 3, 2, 5_000)]


def test_rebalances_per_hour(views: SparkSession) -> None:
    rows = ask(views, "rebalances_per_hour")
    assert [row[1:] for row in rows if row[0] == "orders"] == [
        (at("14:00:00"), "member_joined", 2, 0, 500.0, 1_000),
        (at("14:00:00"), "member_expired", 1, 0, 4_000.0, 4_000),
    ]
    assert [row[2:4] for row in rows if row[0] == "nervous"] == [("member_joined", 5), ("member_left", 5)]


def test_why(views: SparkSession) -> None:
    assert [row[1] for row in ask(views, "why", group="orders")] == [
        "a joined -> rebalance",
        "b joined -> rebalance",
        "b was not heard for 30000 ms -> rebalance",
    ]


def test_doubtful(views: SparkSession) -> None:
    """The tables are of a coordinator, which knows what it does."""
    assert ask(views, "doubtful") == []
    assert views.sql("SELECT DISTINCT cause_certainty FROM events").collect() == [("told",)]


def test_flapping(views: SparkSession) -> None:
    assert ask(views, "flapping") == [("nervous", "nervous-1", "/127.0.0.1", at("14:00:00"), 5, 0, 5, 6_000.0)]


def test_unowned(views: SparkSession) -> None:
    rows = ask(views, "unowned", now=NOW)
    assert [row[2:] for row in rows if row[0] == "orders"] == [(2, "expired", 1, 4_000)]
    assert [row[2:] for row in rows if row[0] == "gentle"] == [(1, "revoked", 1, 1_000)]
    since_14_04_30 = 30 * 60 + 25 * 60 + 30
    assert [row[2:] for row in rows if row[0] == "nervous"] == [(0, "left", 5, (4 * 60 + since_14_04_30) * 1_000)]
    assert {row[0] for row in rows} == {"orders", "gentle", "nervous", "moving"}, "a static restart leaves no gap"


def test_gap_causes(views: SparkSession) -> None:
    rows = [row for row in ask(views, "gap_causes", group="orders") if row[4] == "expired"]
    assert [(row[1:4], row[5:]) for row in rows] == [
        (("payments", 2, at("14:01:11")), ("member_expired", "b was not heard for 30000 ms -> rebalance", 4_000))
    ]


def test_rewinds(views: SparkSession) -> None:
    assert ask(views, "rewinds") == [
        (at("14:01:15"), "orders", "payments", 2, 500, 480, -20, "a", "client", "/127.0.0.1")
    ]


def test_offsets_at(views: SparkSession) -> None:
    before = ask(views, "offsets_at", at="2026-11-20 14:01:14")
    assert [row for row in before if row[0] == "orders"] == [
        ("orders", "payments", 0, 100),
        ("orders", "payments", 1, 100),
        ("orders", "payments", 2, 500),
    ]
    assert ("orders", "payments", 2, 480) in ask(views, "offsets_at", at="2026-11-20 14:01:15")
    assert not [row for row in before if row[0] == "forgotten"], "expired offsets are no more"
    assert ("forgotten", "old", 1, 8) in ask(views, "offsets_at", at="2026-11-11 00:00:00")


def test_shared_groups(views: SparkSession) -> None:
    """Clients that subscribe alike are one application, whatever they are called: such groups are not told."""
    (shared,) = ask(views, "shared_groups", now=NOW)
    assert shared[:5] == ("shared", ["invoices"], ["logs"], ["billing-1"], ["audit-1"])
    assert shared[5] > 0


def test_slowest(views: SparkSession) -> None:
    rows = {row[:2]: row[3:] for row in ask(views, "slowest")}
    assert rows["orders", "orders-1"] == (2, 0, 2, 4_000, 2_500.0, 4_000)
    assert rows["gentle", "gentle-2"] == (1, 0, 1, 500, 500.0, None)


def test_idle(views: SparkSession) -> None:
    assert ask(views, "idle", now=NOW, days=7) == [
        ("archive", datetime(2026, 10, 30, 14), datetime(2026, 10, 30, 14), 21)
    ]


def test_every_query_of_the_document_is_tested() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(QUERIES) <= tested
