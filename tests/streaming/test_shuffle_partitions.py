"""The number of tasks of a batch belongs to the checkpoint, whatever the setting says later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from streaming.config import StreamingConfig
from streaming.job import coordinate_stream
from streaming.replay import replay_in_process
from streaming.rows import RECORD_SCHEMA, output_columns
from streaming.session import prepare_session
from streaming.source import with_clock
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.random_log import make_log
from tests.streaming.replays import write_pieces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_checkpoint_of_two_tasks_goes_on_in_two_where_the_setting_is_one(spark: SparkSession, tmp_path: Path) -> None:
    log = make_log(5, groups=4, mixed_groups=3, requests=80)
    write_pieces([log[:25], log[25:50], log[50:]], tmp_path / "events")
    later = sorted((tmp_path / "events").iterdir())[1:]
    for file in later:
        file.rename(tmp_path / file.name)
    handle_files(spark, StreamingConfig(shuffle_partitions=2, **SETTINGS), tmp_path)
    for file in later:
        (tmp_path / file.name).rename(file)
    handle_files(spark, StreamingConfig(**SETTINGS), tmp_path)
    outputs = spark.read.parquet(str(tmp_path / "outputs")).collect()
    expected = zip(*output_columns(replay_in_process(log, StreamingConfig(**SETTINGS))), strict=True)
    assert sorted(map(repr, map(plain, outputs))) == sorted(map(repr, expected))
    assert {path.name for path in (tmp_path / "checkpoint" / "state" / "0").glob("[0-9]*")} == {"0", "1"}


def handle_files(spark: SparkSession, config: StreamingConfig, directory: Path) -> None:
    prepare_session(spark, config)
    stream = spark.readStream.schema(RECORD_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(directory / "events"))
    events = with_clock(stream.select("key", "offset", "value", "timestamp_ms"), 3_000)
    writer = (
        coordinate_stream(events, config.operator_config()).writeStream.format("parquet").trigger(availableNow=True)
    )
    writer.option("checkpointLocation", str(directory / "checkpoint")).start(
        str(directory / "outputs")
    ).awaitTermination()


def plain(row: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(bytes(cell) if isinstance(cell, bytearray) else cell for cell in row)
