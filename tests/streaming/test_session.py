"""The Spark session has the settings that the topology needs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.config import StreamingConfig
from streaming.session import SQL_SETTINGS, jars_settings, prepare_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize("name", [*SQL_SETTINGS, "spark.sql.shuffle.partitions", "spark.sql.streaming.made.up"])
def test_every_setting_is_in_effect(spark: SparkSession, name: str) -> None:
    """Those that Spark does not list among its own, too: it reads them all the same."""
    prepare_session(spark, StreamingConfig(shuffle_partitions=2, spark={"spark.sql.streaming.made.up": "7"}))
    expected = {**SQL_SETTINGS, "spark.sql.shuffle.partitions": "2", "spark.sql.streaming.made.up": "7"}
    assert spark.conf.get(name) == expected[name]


@pytest.mark.parametrize(
    ("master", "setting"),
    [("local", "spark.driver.extraClassPath"), ("local[2]", "spark.driver.extraClassPath"),
     ("local-cluster[2,1,512]", "spark.jars"), ("spark://one:7077", "spark.jars")],
)  # fmt: skip
def test_other_jvms_than_the_drivers_get_the_jars_too(master: str, setting: str, kafka_jars: Path) -> None:
    assert list(jars_settings(master)) == [setting]
    assert "spark-sql-kafka" in jars_settings(master)[setting]


def test_a_static_setting_is_left_to_the_session_that_was_built_with_it(spark: SparkSession) -> None:
    before = spark.conf.get("spark.sql.warehouse.dir")
    prepare_session(spark, StreamingConfig(spark={"spark.sql.warehouse.dir": "/elsewhere"}))
    assert spark.conf.get("spark.sql.warehouse.dir") == before
