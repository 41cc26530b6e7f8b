"""Ticks among the records of the events topic, and the clock that they give to each request.

A tick is a record with a null key whose value `schemas.events.decode_tick` reads. The clock of a request is the largest
tick before it in its partition: a tick that goes back or repeats changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from schemas.events import EventError, EventProblem, decode_tick

NO_CLOCK = 0
"""No tick yet. Ticks begin at 1, so that Spark's watermark before the first one means the same."""
CLOCK_MAX_MS = 253_402_300_799_999
"""The end of the year 9999: beyond it lie dates that Spark cannot hold."""


def read_tick(value: bytes | None) -> int:
    """The clock that a record with a null key sets. Raises `EventError`: it is a malformed tick, or none at all."""
    if value is None:
        raise EventError(EventProblem.NO_KEY, "the event has neither key nor value")
    try:
        clock_ms = decode_tick(value).clock_ms
    except EventError as problem:
        if b'"tick"' in value[:64]:
            raise
        raise EventError(EventProblem.NO_KEY, f"the event names no group and is no tick: {problem.detail}") from None
    if not NO_CLOCK < clock_ms <= CLOCK_MAX_MS:
        raise EventError(EventProblem.MALFORMED_TICK, f"clock_ms is {clock_ms}, but must be 1 to {CLOCK_MAX_MS}")
    return clock_ms


def carry_clock(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add `clock_ms`, the largest tick up to each record, `NO_CLOCK` where these batches have none before it; and `tick`: the
    clock of a tick as a timestamp, null for every other record.

    The batches are one events partition, or a stretch of it, in the order of offsets: one Spark task.
    """
    last = np.int64(NO_CLOCK)
    for batch in batches:
        ticks = _ticks(batch)
        clock = np.maximum.accumulate(np.concatenate(([last], ticks)))
        last = clock[-1]
        marked = pa.array(ticks * 1_000, pa.timestamp("us", "UTC"), mask=ticks == NO_CLOCK)
        yield _with_columns(batch, clock_ms=pa.array(clock[1:], pa.int64()), tick=marked)


def _ticks(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The clocks of the ticks at their places, `NO_CLOCK` elsewhere."""
    ticks = np.full(batch.num_rows, NO_CLOCK, np.int64)
    values = batch.column("value")
    for index in np.flatnonzero(pc.is_null(batch.column("key")).to_numpy(zero_copy_only=False)):
        try:
            ticks[index] = read_tick(values[int(index)].as_py())
        except EventError:
            continue  # The operator makes a dead letter of it.
    return ticks


def _with_columns(batch: pa.RecordBatch, **columns: pa.Array[Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([*batch.columns, *columns.values()], names=[*batch.schema.names, *columns])
