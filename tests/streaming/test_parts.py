"""Rows of one group, cut into several calls: the outputs and the state are those of one call."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.state import GroupState

from streaming.config import StreamingConfig
from streaming.job import coordinate_stream
from streaming.operator import streaming_operator
from streaming.parts import FIRST, GROUP_KEY, MARK, Cutter, HeldStates, Part
from streaming.replay import replay_in_process
from streaming.rows import RECORD_SCHEMA, output_columns
from streaming.session import prepare_session
from streaming.source import with_clock
from streaming.state_function import StateFunction
from tests.streaming.mixed_groups import SETTINGS
from tests.streaming.operator_events import (
    CONFIG,
    JOIN_MS,
    EventRow,
    group_state,
    heartbeat,
    is_removed,
    is_updated,
    join,
)
from tests.streaming.random_log import make_log
from tests.streaming.replays import write_pieces

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LIMIT = 1_000
WORD = b"\0random word"


def cut(rows: Sequence[EventRow], part_bytes: int, sizes: Iterator[int]) -> list[dict[str, Any]]:
    """The rows with their parts, as the task cuts them, from Arrow batches of these sizes."""
    cutter, cut_rows, rows_left = Cutter(part_bytes), [], rows
    while rows_left:
        size = next(sizes)
        columns = list(zip(*rows_left[:size], strict=True))
        types = {"key": pa.binary(), "offset": pa.int64(), "clock_ms": pa.int64(), "value": pa.binary()}
        batch = pa.RecordBatch.from_arrays(
            [pa.array(c, t) for c, t in zip(columns, types.values(), strict=True)], names=list(types)
        )
        cut_rows += cutter.cut(batch).to_pylist()
        rows_left = rows_left[size:]
    return cut_rows


def grouped(row: dict[str, Any]) -> bytes | None:
    """As `part_key` says it to Spark."""
    key: bytes | None = row["key"]
    return key if row["part"] <= FIRST else (b"null" if key is None else key) + WORD + row["part"].to_bytes(4)


def called(
    function: StateFunction, cut_rows: list[dict[str, Any]], states_before: dict[Any, Any], chunk: int = 2
) -> tuple[list[tuple[Any, ...]], dict[Any, Any]]:
    """Spark's calls, in the order of their keys; and the states afterwards, by the key that they came back under."""
    outputs: list[tuple[Any, ...]] = []
    states = dict(states_before)
    for key in sorted({grouped(row) for row in cut_rows}, key=lambda key: (key is not None, key or b"")):
        rows = [row for row in cut_rows if grouped(row) == key]
        random.Random(len(rows)).shuffle(rows)  # Spark promises no order
        state = group_state(states_before.get(key), watermark_ms=JOIN_MS)
        state._keyAsUnsafe = key  # type: ignore[assignment]
        columns = [columns_of(rows[at : at + chunk]) for at in range(0, len(rows), chunk)]
        outputs += zip(*output_columns(function.handle((key,), columns, state)), strict=True)
        written(states, state)
    return outputs, states


def columns_of(rows: list[dict[str, Any]]) -> dict[str, list[Any]]:
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    return {
        **columns,
        "timestamp_ms": [7] * len(rows),
        GROUP_KEY: columns["key"],
        "key": [grouped(row) for row in rows],
    }


def written(states: dict[Any, Any], state: GroupState) -> None:
    if is_updated(state):
        states[state._keyAsUnsafe] = tuple(state.get)
    elif is_removed(state):
        states.pop(state._keyAsUnsafe, None)


def event_rows(groups: int, heartbeats: int) -> list[EventRow]:
    """Groups that begin and heartbeat, some of whose names begin as others do; poisons among them;
    and records without a key."""
    names = [b"a", b"a\0", b"a\0\0", b"b", b"", b"\xff\xfe"][:groups]
    rows: list[EventRow] = []
    for number in range(heartbeats):
        for name in names:
            offset = len(rows)
            if name == b"\xff\xfe" or number % 7 == 3:
                rows.append((name, offset, JOIN_MS, b"poison %d" % offset))
            else:
                rows.append(join(name, offset) if number % 5 == 0 else heartbeat(name, offset))
        rows.append((None, len(rows), JOIN_MS, b"{}"))
    return rows


def by_group(outputs: list[tuple[Any, ...]]) -> dict[Any, list[tuple[Any, ...]]]:
    """Each group's in each topic, where alone there is an order."""
    outputs_by_group: dict[Any, list[tuple[Any, ...]]] = {}
    for output in outputs:
        outputs_by_group.setdefault(output[:2], []).append(output)
    return outputs_by_group


@given(st.integers(1, 6), st.integers(1, 12), st.sampled_from([1, 400, 2_000, 10**9]), st.integers(1, 9))
def test_parts_say_and_leave_what_the_whole_does(groups: int, heartbeats: int, part_bytes: int, size: int) -> None:
    rows = event_rows(groups, heartbeats)
    uncut = called(streaming_operator(CONFIG), cut(rows, 10**9, iter([len(rows)])), {})
    parts = called(streaming_operator(CONFIG), cut(rows, part_bytes, iter(lambda: size, None)), {})
    assert by_group(parts[0]) == by_group(uncut[0])
    assert parts[1] == uncut[1]


def test_a_state_that_was_kept_goes_through_the_parts_and_a_group_may_end_in_one() -> None:
    first, later = event_rows(3, 4), [heartbeat(b"a", 100 + number) for number in range(9)]
    states = called(streaming_operator(CONFIG), cut(first, 10**9, iter([len(first)])), {})[1]
    uncut = called(streaming_operator(CONFIG), cut(later, 10**9, iter([9])), states)
    parts = called(streaming_operator(CONFIG), cut(later, 1, iter(lambda: 4, None)), states)
    assert parts == uncut


def test_each_group_with_further_parts_has_one_mark_and_a_part_has_a_bounded_size() -> None:
    rows = [(b"g%d" % (number % 3), number, 1, b"x" * 300) for number in range(60)]
    cut_rows = cut(rows, LIMIT, iter(lambda: 7, None))
    assert [row["offset"] for row in cut_rows if row["part"] != MARK] == list(range(60))
    for key in {row[0] for row in rows}:
        group_rows = [row for row in cut_rows if row["key"] == key]
        assert sum(row["part"] == MARK for row in group_rows) == 1
        sizes = [
            sum(300 for row in group_rows if row["part"] == part)
            for part in {row["part"] for row in group_rows} - {MARK}
        ]
        assert len(sizes) > 4
        assert max(sizes) <= 3 * LIMIT


def test_a_batch_that_is_small_as_a_whole_is_not_looked_at() -> None:
    batch = pa.RecordBatch.from_pydict({"key": [b"a", None], "value": [b"x", None]})
    assert Cutter().cut(batch).column("part").to_pylist() == [FIRST, FIRST]


def test_what_is_held_is_let_go_when_no_further_part_can_come() -> None:
    held = HeldStates()
    rows = [
        row for name in (b"a", b"b") for row in (join(name, 0), *(heartbeat(name, 1 + number) for number in range(5)))
    ]
    called(streaming_operator(CONFIG, held), cut(rows, 1, iter(lambda: 3, None)), {})
    assert (b"a" in held, b"b" in held) == (False, True)


def test_a_part_whose_first_part_was_never_seen_is_a_defect() -> None:
    rows = [{"key": b"a", "part": 1, "offset": 0, "clock_ms": 1, "value": b""}]
    with pytest.raises(Exception, match="KeyError"):
        called(streaming_operator(CONFIG), rows, {})
    assert Part(b"a", [{"key": [b"a"], "part": [0]}]).further_parts is False


@pytest.mark.spark
@pytest.mark.parametrize(("partitions", "buckets"), [(1, 0), (2, 0), (1, 3)])
def test_spark_with_tiny_parts_writes_the_same_bytes(
    spark: SparkSession, tmp_path: Path, partitions: int, buckets: int
) -> None:
    log = make_log(5, groups=4, mixed_groups=4, requests=160)
    write_pieces([log[:100], log[100:101], log[101:]], tmp_path / "events")
    config = StreamingConfig(shuffle_partitions=partitions, group_buckets=buckets, **SETTINGS)
    prepare_session(spark, config)
    stream = spark.readStream.schema(RECORD_SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "events"))
    events = with_clock(
        stream.select("key", "offset", "value", "timestamp_ms"), config.group.tick_ahead_bound_ms, part_bytes=2_000
    )
    writer = (
        coordinate_stream(events, config.operator_config()).writeStream.format("parquet").trigger(availableNow=True)
    )
    writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start(
        str(tmp_path / "outputs")
    ).awaitTermination()
    outputs = [
        tuple(bytes(cell) if isinstance(cell, bytearray) else cell for cell in row)
        for row in spark.read.parquet(str(tmp_path / "outputs")).collect()
    ]
    expected = zip(*output_columns(replay_in_process(log, config)), strict=True)
    assert sorted(map(repr, outputs)) == sorted(map(repr, expected))
