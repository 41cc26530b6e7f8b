"""Spark's Python worker, without pandas where a `StateFunction` is called.

For each key that a batch touches, PySpark 4.2.0 converts every column by itself, concatenates them to a frame, and
makes one-row frames of the state; that is most of what a key costs. Here an Arrow batch is taken apart once for all its
keys, and put together once. What goes over the wire to the JVM is the same (`ApplyInPandasWithStateSerializer`
describes it), as are the values: a test compares both ways.

`install` replaces three names of `pyspark.worker`, and lets the pickles of states find their schema parsed. Only
`streaming.tuning.worker_daemon` imports this module, in the one version of Spark whose inside it knows, and goes on
without it where a name is missing: Spark removes `ApplyInPandasWithStateSerializer` in 4.3 (SPARK-58243). Without
`install` Spark calls the same function in its own way.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, wraps
from typing import IO, Any

import pyarrow as pa
import pyspark.sql.types
import pyspark.worker
from pyspark.serializers import CPickleSerializer
from pyspark.sql.pandas.serializers import ApplyInPandasWithStateSerializer, ArrowStreamSerializer
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.state import GroupState
from pyspark.sql.types import StructType

from streaming.rows import output_columns, record_bytes
from streaming.state_function import GroupRecords, Outputs, StateFunction

BATCH_BYTES = 2 << 20
"""An Arrow batch ends with the piece of outputs or the state that reaches this: the JVM holds one of them."""
BATCH_RECORDS = 10_000
"""Or with so many small ones. (Spark's own limit is one of the way there, see `streaming.session`.)"""
_VALUE = 2
"""The place of a state's value in its row."""
_COUNT = pa.struct([("dataCount", pa.int32()), ("stateCount", pa.int32())])
_STATE = pa.struct(
    [
        ("properties", pa.string()),
        ("keyRowAsUnsafe", pa.binary()),
        ("object", pa.binary()),
        ("oldTimeoutTimestamp", pa.int64()),
    ]
)

_pickler: Any = CPickleSerializer()
_worker: Any = pyspark.worker
_types: Any = pyspark.sql.types
_PARSER = "_parse_datatype_json_string"
_spark_wrap = _worker.wrap_grouped_map_pandas_udf_with_state
_spark_fail_on_stop = _worker.fail_on_stopiteration


class Column:
    """The values of one key's rows in one column. Spark's worker takes the key from the first."""

    __slots__ = ("name", "values")

    def __init__(self, name: str, values: list[Any]) -> None:
        self.name, self.values = name, values

    def __getitem__(self, row: int) -> Any:
        return self.values[row]


class StateFunctionSerializer(ApplyInPandasWithStateSerializer):
    """Spark's serializer; when the function to call is a `StateFunction`, without frames."""

    function_is_ours = False
    """Of the task that runs: a worker runs one at a time."""

    def load_stream(self, stream: IO[bytes]) -> Iterator[Any]:
        """Yield (rows of a key, its state), as `pyspark.worker` passes them to the function."""
        if not StateFunctionSerializer.function_is_ours:
            yield from super().load_stream(stream)  # type: ignore[no-untyped-call]
            return
        chunks: list[list[Column]] = []
        state: GroupState | None = None
        for batch in ArrowStreamSerializer.load_stream(self, stream):
            data = [_objects(column) for column in batch.columns[:-1]]
            names = batch.schema.names[:-1]
            infos: Any = batch.columns[-1]  # one for each key, and behind them nulls, as rows are more
            for info in infos.slice(0, len(infos) - infos.null_count).to_pylist():
                first, count = info["startOffset"], info["numRows"]
                own = slice(first, first + count)
                chunks.append([Column(name, values[own]) for name, values in zip(names, data, strict=True)])
                state = state or self._state(info)
                if info["isLastChunk"]:
                    yield [(chunk, state) for chunk in chunks], state
                    chunks, state = [], None

    def dump_stream(self, iterator: Iterable[Any], stream: IO[bytes]) -> None:
        """Write outputs and changed states in the form that the JVM expects."""
        if not StateFunctionSerializer.function_is_ours:
            super().dump_stream(iterator, stream)  # type: ignore[no-untyped-call]
            return
        ArrowStreamSerializer.dump_stream(self, self._write_stream_start(self._batches(iterator), stream), stream)

    def _batches(self, iterator: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        outputs: list[GroupRecords] = []
        states: list[tuple[Any, ...]] = []
        count = size = 0
        schema: StructType | None = None
        for (((group_records, state), schema),) in iterator:
            for group_key, records in group_records:
                outputs.append((group_key, records))
                count += len(records)
                size += sum(map(record_bytes, records))
                if count >= BATCH_RECORDS or size >= BATCH_BYTES:
                    yield _batch(outputs, states, schema)
                    outputs, states, count, size = [], [], 0, 0
            # Only now: the function is done, and its state with it.
            states.append(self._state_row(state))
            size += len(states[-1][_VALUE] or b"")
            if size >= BATCH_BYTES or len(states) >= BATCH_RECORDS:
                yield _batch(outputs, states, schema)
                outputs, states, count, size = [], [], 0, 0
        if schema is not None and states:
            yield _batch(outputs, states, schema)

    def _state(self, info: dict[str, Any]) -> GroupState:
        value = _pickler.loads(info["object"]) if info["object"] else None
        properties = {**json.loads(info["properties"]), "optionalValue": value}
        return GroupState(keyAsUnsafe=info["keyRowAsUnsafe"], valueSchema=self.state_object_schema, **properties)

    def _state_row(self, state: GroupState) -> tuple[Any, ...]:
        value = _pickler.dumps(self.state_object_schema.toInternal(state._value)) if state.exists else None
        return state.json(), state._keyAsUnsafe, value, state.oldTimeoutTimestamp


def _objects(column: pa.Array[Any]) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):  # the tick, which is null in every row
        return [None] * len(column)
    if column.null_count and pa.types.is_integer(kind):
        return column.to_pylist()
    # Three times as fast, and numbers without nulls stay numbers.
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _batch(outputs: Outputs, states: list[tuple[Any, ...]], schema: StructType) -> pa.RecordBatch:
    """Three structs side by side, filled up with nulls to the same length: how many outputs and states, these, and
    those."""
    data = output_columns(outputs)
    counts = len(data[0]), len(states)
    rows = max(1, *counts)
    types = (_COUNT, pa.struct(list(to_arrow_schema(schema, timezone="UTC"))), _STATE)
    columns = ([(count,) * rows for count in counts], data, list(zip(*states, strict=True)) or [()] * len(_STATE))
    structs = [_struct(column, struct, rows) for column, struct in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(structs, names=["_0", "_1", "_2"])


def _struct(columns: Iterable[tuple[Any, ...]], struct: pa.StructType, rows: int) -> pa.StructArray:
    filled = [
        pa.array(values + (None,) * (rows - len(values)), field.type)
        for values, field in zip(columns, struct, strict=True)
    ]
    return pa.StructArray.from_arrays(filled, fields=list(struct))


def wrap(function: Callable[..., Any], return_type: StructType, runner_conf: Any) -> Callable[..., Any]:
    """Return the function that `pyspark.worker` calls with the columns of the key, the chunks of its rows, and its
    state."""
    ours = getattr(function, "__wrapped__", function)
    StateFunctionSerializer.function_is_ours = isinstance(ours, StateFunction)
    if not isinstance(ours, StateFunction):
        wrapped: Callable[..., Any] = _spark_wrap(function, return_type, runner_conf)
        return wrapped

    def call(key: list[Column], chunks: Iterable[list[Column]], state: GroupState) -> tuple[Outputs, GroupState]:
        rows = () if state.hasTimedOut else ({column.name: column.values for column in chunk} for chunk in chunks)
        return ours.handle(tuple(column[0] for column in key), rows, state), state

    return lambda key, chunks, state: [(call(key, chunks, state), return_type)]


def fail_on_stop(function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a function in Spark's guard, and keep the function accessible."""
    return wraps(function)(_spark_fail_on_stop(function))


def install() -> None:
    """Patch the workers that will be forked from this process."""
    _worker.ApplyInPandasWithStateSerializer = StateFunctionSerializer
    _worker.wrap_grouped_map_pandas_udf_with_state = wrap
    _worker.fail_on_stopiteration = fail_on_stop
    # The JVM pickles each state with the JSON of its schema, which pickles call by this name.
    setattr(_types, _PARSER, lru_cache(maxsize=16)(getattr(_types, _PARSER)))
