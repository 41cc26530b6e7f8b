"""The patched worker beside Spark's own, on the same bytes from the JVM: the bytes that go back say the same."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import pandas as pd
import pyarrow as pa
import pyspark.sql.types
import pyspark.worker
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from pyspark.sql.types import BinaryType, IntegerType, StringType, StructField, StructType
from pyspark.util import fail_on_stopiteration

from schemas.messages import DescribeGroupsRequest, JoinGroupProtocol, SyncGroupRequest
from streaming import operator
from streaming.buckets import bucket_operator
from streaming.operator import streaming_operator
from streaming.state_function import StateFunction
from streaming.tuning.known_spark import unknown_spark
from tests.streaming.operator_events import CONFIG, JOIN, JOIN_MS, event, heartbeat, join

if reason := unknown_spark():
    pytest.skip(reason, allow_module_level=True)

from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer

from streaming.tuning import state_worker
from streaming.tuning.state_worker import StateFunctionSerializer

Row = tuple[bytes | None, int | None, int | None, bytes | None]
"""Key, offset, clock_ms, value."""
Key = bytes | int | None
Call = tuple[Key, list[list[Row]]]
"""A key that the batch touches, and its rows as they are cut into chunks; without rows it has timed out."""

WATERMARK_MS = JOIN_MS + 5_000
DATA: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "offset": pa.int64(),
    "value": pa.binary(),
    "timestamp_ms": pa.int64(),
    "clock_ms": pa.int64(),
    "tick": pa.timestamp("us", "UTC"),
    "grouped_by": pa.binary(),
}
INFO = pa.struct(
    [("properties", pa.string()), ("keyRowAsUnsafe", pa.binary()), ("object", pa.binary()), ("startOffset", pa.int32()),
     ("numRows", pa.int32()), ("isLastChunk", pa.bool_())]
)  # fmt: skip
OUTPUT = StructType(
    [StructField("group_key", BinaryType()), StructField("topic", StringType()),
     StructField("partition", IntegerType()), StructField("key", BinaryType()),
     StructField("value", BinaryType()), StructField("headers", StringType())]
)  # fmt: skip
pickler: Any = CPickleSerializer()


def from_the_jvm(calls: list[Call], state: dict[Key, tuple[bytes, ...]], key_type: pa.DataType) -> bytes:
    """One Arrow batch, as `ApplyInPandasWithStateWriter` makes it."""
    rows: list[tuple[Any, ...]] = []
    infos: list[dict[str, Any] | None] = []
    for key, chunks in calls:
        value = state.get(key)
        cut: list[list[Row]] = chunks or [[(None, None, None, None)]]
        for number, chunk in enumerate(cut):
            properties = {
                "batchProcessingTimeMs": 0, "eventTimeWatermarkMs": WATERMARK_MS,
                "timeoutConf": GroupStateTimeout.EventTimeTimeout,
                "hasTimedOut": not chunks, "watermarkPresent": True, "defined": value is not None, "updated": False,
                "removed": False, "timeoutTimestamp": 0 if value is None else 7,
            }  # fmt: skip
            infos.append(
                {"properties": json.dumps(properties), "keyRowAsUnsafe": repr(key).encode(),
                 "startOffset": len(rows), "numRows": len(chunk),
                 "object": None if value is None else pickler.dumps(value), "isLastChunk": number + 1 >= len(chunks)}
            )  # fmt: skip
            rows += [
                (event_key, offset, body, offset, clock_ms, None, key) for event_key, offset, clock_ms, body in chunk
            ]
    infos += [None] * (len(rows) - len(infos))
    columns = {name: list(values) for name, values in zip(DATA, zip(*rows, strict=True), strict=True)}
    schema = pa.schema({**DATA, "grouped_by": key_type, "state": INFO})
    batch = pa.RecordBatch.from_pydict({**columns, "state": infos}, schema=schema)
    sink = io.BytesIO()
    with pa.RecordBatchStreamWriter(sink, schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def answers(
    serializer: type[ApplyInPandasWithStateSerializer],
    guard: Callable[..., Any],
    wrap: Callable[..., Any],
    function: StateFunction,
    sent: bytes,
    records_max: int,
) -> list[pa.RecordBatch]:
    """What a worker sends back, with these three in the places that they have in `pyspark.worker`."""
    worker: Any = serializer(
        timezone="UTC", safecheck=True, assign_cols_by_name=True, prefer_int_ext_dtype=False, state_object_schema=STATE,
        arrow_max_records_per_batch=records_max, prefers_large_var_types=False, int_to_decimal_coercion_enabled=False,
    )  # fmt: skip
    call = wrap(guard(function), OUTPUT, None)
    key_at, values_at = [len(DATA) - 1], list(range(len(DATA) - 1))

    def mapper(call_arguments: tuple[Iterator[Any], GroupState]) -> Any:  # as in `read_udfs`
        data = (x[0] for x in call_arguments[0])
        first = next(data)
        return call(
            [first[at] for at in key_at], ([x[at] for at in values_at] for x in chain([first], data)), call_arguments[1]
        )

    back = io.BytesIO()
    worker.dump_stream(map(mapper, worker.load_stream(io.BytesIO(sent))), back)
    return list(pa.ipc.open_stream(back.getvalue()[4:]))


STATE = StructType([StructField("membership", BinaryType()), StructField("offsets", BinaryType())])
SPARKS = (
    ApplyInPandasWithStateSerializer,
    fail_on_stopiteration,
    pyspark.worker.wrap_grouped_map_pandas_udf_with_state,
)
PATCHED = (StateFunctionSerializer, state_worker.fail_on_stop, state_worker.wrap)


def both(
    function: StateFunction, sent: bytes, records_max: int = 10_000
) -> tuple[list[pa.RecordBatch], list[pa.RecordBatch]]:
    return answers(*SPARKS, function, sent, records_max), answers(*PATCHED, function, sent, records_max)


def states_of(batches: list[pa.RecordBatch]) -> dict[bytes, Any]:
    rows = [row for batch in batches for row in dicts_of(batch.column(2)) if row["keyRowAsUnsafe"] is not None]
    return {row["keyRowAsUnsafe"]: pickler.loads(row["object"]) if row["object"] else None for row in rows}


def dicts_of(structs: pa.Array[Any]) -> list[dict[str, Any]]:
    return [structure for structure in structs.to_pylist() if structure is not None]


def test_outputs_and_states_are_the_same_over_two_batches() -> None:
    """Groups that begin, in one chunk and in two; poisons;
    then a heartbeat, a timer, and a group of which nothing is left."""
    first: list[Call] = [
        (b"a", [[join(b"a", 0)], [heartbeat(b"a", 4)]]),
        (b"b", [[join(b"b", 1), heartbeat(b"b", 2)]]),
        (None, [[(None, 3, JOIN_MS, b"{}")]]),
        (b"\xff", [[(b"\xff", 5, 0, None)]]),
        (b"gone", [[heartbeat(b"gone", 6)]]),
    ]
    sparks, patched = both(streaming_operator(CONFIG), from_the_jvm(first, {}, pa.binary()))
    assert patched == sparks
    states = states_of(patched)
    state: dict[Key, Any] = {b"a": states[repr(b"a").encode()], b"b": states[repr(b"b").encode()]}
    assert None not in state.values()
    second: list[Call] = [(b"a", [[heartbeat(b"a", 7)]]), (b"b", [])]
    sparks, patched = both(streaming_operator(CONFIG), from_the_jvm(second, state, pa.binary()))
    assert patched == sparks
    assert dicts_of(patched[0].column(0))[0]["dataCount"] > 0


def test_buckets_too() -> None:
    calls: list[Call] = [
        (3, [[join(b"a", 0), join(b"b", 1), heartbeat(b"a", 2)]]),
        (None, [[(None, 3, JOIN_MS, b"{}")]]),
    ]
    sparks, patched = both(bucket_operator(CONFIG), from_the_jvm(calls, {}, pa.int32()))
    assert patched == sparks


@settings(max_examples=30)
@given(st.lists(st.lists(st.integers(0, 3), max_size=4), min_size=1, max_size=6), st.integers(1, 6))
def test_batches_are_cut_alike(keys: list[list[int]], most: int) -> None:
    """Many or few outputs and states, and an Arrow batch that takes `most` outputs."""
    offsets = iter(range(100))
    calls: list[Call] = []
    for number, heartbeats in enumerate(keys):
        key = b"%d" % number
        calls.append((key, [[heartbeat(key, next(offsets)) for _ in range(1 + count)] for count in heartbeats]))
    sparks, patched = both(streaming_operator(CONFIG), from_the_jvm(calls, {}, pa.binary()), most)
    assert [row for batch in patched for row in rows_of(batch)] == [row for batch in sparks for row in rows_of(batch)]
    assert states_of(patched) == states_of(sparks)


def test_pieces_of_one_record_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Call] = [
        (b"%d" % key, [[join(b"%d" % key, key), *(heartbeat(b"%d" % key, 10 * key + n) for n in range(1, 5))]])
        for key in range(1, 4)
    ]
    sent = from_the_jvm(calls, {}, pa.binary())
    one_piece = answers(*PATCHED, streaming_operator(CONFIG), sent, 10_000)
    for module, name in ((operator, "OUTPUTS_AT_ONCE"), (state_worker, "BATCH_BYTES")):
        monkeypatch.setattr(module, name, 1)
    sparks, patched = both(streaming_operator(CONFIG), sent)
    assert len(one_piece) == len(sparks) == 1
    assert len(patched) > len(rows_of(one_piece[0])) / 4
    for pieces in (sparks, patched):
        assert [row for batch in pieces for row in rows_of(batch)] == rows_of(one_piece[0])
        assert states_of(pieces) == states_of(one_piece)


def test_a_state_comes_after_all_outputs_of_its_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM writes a state when it has the outputs of its batch: a task that fails between leaves neither."""
    monkeypatch.setattr(state_worker, "BATCH_BYTES", 1)
    monkeypatch.setattr(operator, "OUTPUTS_AT_ONCE", 1)
    sent = from_the_jvm([(b"a", [[join(b"a", 0), heartbeat(b"a", 1)]])], {}, pa.binary())
    batches = answers(*PATCHED, streaming_operator(CONFIG), sent, 10_000)
    counts = [batch.column(0)[0].as_py() for batch in batches]
    assert [count["stateCount"] for count in counts] == [0] * (len(counts) - 1) + [1]
    assert len(counts) > 2


def test_what_crosses_at_a_time_is_bounded_though_the_outputs_are_not() -> None:
    """A large group that is described again and again."""
    protocol = JoinGroupProtocol(name="range", metadata=b"m" * 600_000)
    sync = SyncGroupRequest(group_id="g", generation_id=1, member_id="m")
    bodies = [
        event("JoinGroup", 3, replace(JOIN, protocols=(protocol,)), "join", new_member_id="m"),
        event("SyncGroup", 3, sync, "sync"),
        *(
            event("DescribeGroups", 5, DescribeGroupsRequest(groups=("g",)), f"describe-{number}")
            for number in range(30)
        ),
    ]
    rows: list[Row] = [(b"g", number, JOIN_MS, body) for number, body in enumerate(bodies)]
    sizes = [
        batch.nbytes
        for batch in answers(
            *PATCHED, streaming_operator(CONFIG), from_the_jvm([(b"g", [rows])], {}, pa.binary()), 10_000
        )
    ]
    assert sum(sizes) > 20_000_000
    assert max(sizes) < state_worker.BATCH_BYTES + operator.OUTPUTS_AT_ONCE * 1_000_000


def rows_of(batch: pa.RecordBatch) -> list[Any]:
    count = batch.column(0)[0].as_py()["dataCount"]
    rows: list[Any] = batch.column(1).to_pylist()[:count]
    return rows


def test_a_function_of_frames_is_called_in_sparks_way() -> None:
    def count(key: tuple[bytes], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        state.update((b"", b"%d" % sum(map(len, frames))))
        yield from ()

    sent = from_the_jvm([(b"a", [[heartbeat(b"a", 0), heartbeat(b"a", 1)]])], {}, pa.binary())
    plain: Any = count
    assert states_of(answers(*PATCHED, plain, sent, 10)) == {repr(b"a").encode(): (b"", b"2")}


def test_a_schema_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The JVM names Spark's parser in the pickle of each state."""
    pickle = b"cpyspark.sql.types\n_parse_datatype_json_string\n(S" + repr(STATE.json()).encode() + b"\ntR."
    kept = {pyspark.worker: ("ApplyInPandasWithStateSerializer", "wrap_grouped_map_pandas_udf_with_state",
                             "fail_on_stopiteration"), pyspark.sql.types: ("_parse_datatype_json_string",)}  # fmt: skip
    for module, names in kept.items():
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))
    assert pickler.loads(pickle) is not pickler.loads(pickle)
    state_worker.install()
    assert pickler.loads(pickle) is pickler.loads(pickle)
    assert pickler.loads(pickle) == STATE
