"""Batch replay's function without a JVM: the rows as Spark would sort them, cut into Arrow batches in any way."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from schemas.records_file import Record
from streaming import batch_replay
from streaming.config import StreamingConfig
from streaming.event_log import RECORD_ARROW, RECORD_COLUMNS
from streaming.replay import replay_in_process
from streaming.rows import output_batch
from tests.streaming import random_log
from tests.streaming.mixed_groups import SETTINGS

CONFIG = StreamingConfig(shards=2, **SETTINGS)
BUCKETS = 3
Row = dict[str, Any]


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return random_log.resharded(random_log.make_log(seed=2, groups=3, mixed_groups=3, requests=200), 2)


def bucket_rows(log: list[Record], bucket: int) -> list[Row]:
    """What `in_buckets` gives to the task of a bucket; which groups that are is of no account."""
    rows = [
        {name: getattr(record, name) for name in RECORD_COLUMNS} | {"bucket": bucket}
        for record in log
        if record.key is None or len(record.key) % BUCKETS == bucket
    ]
    return sorted(rows, key=lambda row: (row["partition"], row["key"] is not None, row["key"] or b"", row["offset"]))


def batches(rows: list[Row], seed: int) -> Iterator[pa.RecordBatch]:
    chance = random.Random(seed)
    schema = RECORD_ARROW.append(pa.field("bucket", pa.int32()))
    while rows:
        size = chance.choice((1, 7, 100, 5_000))
        yield pa.RecordBatch.from_pylist(rows[:size], schema)
        rows = rows[size:]


def outputs(log: list[Record], seed: int, until_ms: int = 0) -> list[Row]:
    function = batch_replay.replay_groups(CONFIG.operator_config(), until_ms)
    return [
        row
        for bucket in range(BUCKETS)
        for batch in function(batches(bucket_rows(log, bucket), seed))
        for row in batch.to_pylist()
    ]


def expected(log: list[Record], until_ms: int = 0) -> list[Row]:
    rows: list[Row] = output_batch(replay_in_process(log, CONFIG, until_ms=until_ms)).to_pylist()
    return rows


@pytest.mark.parametrize(("seed", "rows_at_once", "until_ms"), [(1, 1_000, 0), (2, 3, 0), (3, 1_000, 10**13)])
def test_batches_and_buckets_make_no_difference(
    log: list[Record], monkeypatch: pytest.MonkeyPatch, seed: int, rows_at_once: int, until_ms: int
) -> None:
    monkeypatch.setattr(batch_replay, "ROWS_AT_ONCE", rows_at_once)
    expected_rows = expected(log, until_ms)
    assert len({row["group_key"] for row in expected_rows}) > BUCKETS
    assert sorted(map(repr, outputs(log, seed, until_ms))) == sorted(map(repr, expected_rows))


def test_the_outputs_of_a_group_follow_one_another_in_order(log: list[Record]) -> None:
    def by_group(rows: list[Row]) -> dict[object, list[Row]]:
        rows_by_group: dict[object, list[Row]] = {}
        for row in rows:
            if "dead-letters" not in str(row["topic"]):
                rows_by_group.setdefault(row["group_key"], []).append(row)
        return rows_by_group

    assert by_group(outputs(log, seed=4)) == by_group(expected(log))


def test_outputs_go_out_in_batches_of_a_bounded_size(log: list[Record], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_replay, "ROWS_AT_ONCE", 10)
    monkeypatch.setattr(batch_replay, "OUTPUT_BYTES_AT_ONCE", 20_000)
    function = batch_replay.replay_groups(CONFIG.operator_config(), 0)
    sizes = [
        sum(len(value or b"") for value in batch.column("value").to_pylist())
        for batch in function(batches(bucket_rows(log, 1), 1))
    ]
    assert len(sizes) > 3
    assert max(sizes) < 200_000


def test_a_partition_without_ticks_has_the_time_of_its_records(log: list[Record]) -> None:
    silent = [record for record in log if record.key is not None]
    assert sorted(map(repr, outputs(silent, seed=5))) == sorted(map(repr, expected(silent)))
