"""Parts: the rows of one group in a batch, cut where they are too many bytes for one call.

Spark's JVM gathers all rows of a key, outside of its heap, before it sends the first of them to its Python worker. So
behind the first `PART_BYTES` of a key its rows are grouped under other keys, which come right after its own and which
nobody else can have: the key, a random word, and the number of the part. A *mark*, a row without an event, goes with
the first part, so that there is one: there Spark hands out the state, and from part to part the worker keeps it. Each
part gives it back under the group's own key.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState

from streaming.arrow_columns import Columns, objects
from streaming.tuning.guard import unknown_spark

PART_BYTES = 16 << 20
FIRST = 0
"""The part of nearly all rows."""
MARK = -1
"""The part of a row that is no event, but says that its group has further parts."""
GROUP_KEY = "group_key"
"""The column of an event's own key, where another one is what the rows are grouped by."""
_ROW_BYTES = 100
"""What a row takes beside its key and value."""
_SUMS = 65_536
"""Keys are counted in so many sums, not each by itself: a batch may have millions of them."""
_WORD_BYTES = 16
_BEHIND = b"\0"


def has_partitions(count: int | None) -> bool:
    """Return whether the running batch has so many shuffle partitions. Spark keeps the number that the checkpoint was
    made with."""
    context = TaskContext.get()
    return context is not None and context.getLocalProperty("spark.sql.shuffle.partitions") == str(count)


class Cutter:
    """Finds the part of each row of a batch, in the order of the log."""

    def __init__(self, part_bytes: float = PART_BYTES) -> None:
        self._part_bytes = part_bytes
        self._total = 0
        self._sums: dict[int, int] = {}
        self._marked: set[bytes | None] = set()
        # Whoever knew which keys are counted together could bring millions of them into one sum.
        self._salt = os.urandom(8)

    def cut(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the batch with a column `part`, and with the marks before their rows."""
        self._total += batch.nbytes + _ROW_BYTES * batch.num_rows
        if self._total <= self._part_bytes:
            return _with_parts(batch, [FIRST] * batch.num_rows)
        rows: list[int] = []
        parts: list[int] = []
        values: Any = batch.column("value")
        for row, (key, size) in enumerate(
            zip(objects(batch.column("key")), pc.binary_length(values).to_pylist(), strict=True)
        ):
            part = self._part_of(key, size or 0)
            if part and key not in self._marked:
                self._marked.add(key)
                rows.append(row)
                parts.append(MARK)
            rows.append(row)
            parts.append(part)
        return _with_parts(batch if len(rows) == batch.num_rows else batch.take(pa.array(rows)), parts)

    def _part_of(self, key: bytes | None, size: int) -> int:
        number = hash((self._salt, key)) % _SUMS
        before = self._sums.get(number, 0)
        self._sums[number] = before + size + len(key or b"") + _ROW_BYTES
        return int(before // self._part_bytes)


def cutter_of_task(part_bytes: int) -> Cutter:
    """Return a cutter. It cuts only where all rows of a group come to one task and Spark is a known version."""
    return Cutter(part_bytes if has_partitions(1) and unknown_spark() is None else math.inf)


def _with_parts(batch: pa.RecordBatch, parts: list[int]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [*batch.columns, pa.array(parts, pa.int32())], names=[*batch.schema.names, "part"]
    )


def part_key() -> Column:
    """Return the column by which rows are grouped: their key, and for further parts the key of the part."""
    number = F.unhex(F.lpad(F.hex("part"), 8, "0"))
    # The null key, which has no state, must not be taken for the empty one.
    key = F.coalesce("key", F.lit(os.urandom(_WORD_BYTES)))
    behind = F.concat(key, F.lit(_BEHIND + os.urandom(_WORD_BYTES)), number)
    return F.when(F.col("part") > FIRST, behind).otherwise(F.col("key"))


class Part:
    """The rows of one call: all of a group's in the batch, or a part of them."""

    def __init__(self, key: bytes | None, chunks: Iterable[Columns]) -> None:
        """`key` is what they are grouped by. Without rows the group has timed out."""
        self.key = self.group_key = key
        self.further_parts = False
        """Whether more of them come in later calls, as far as this one can tell."""
        self.chunks: list[Columns] = []
        for chunk in chunks:
            parts = chunk.get("part", [])
            if any(parts):
                self.further_parts = True
                if MARK not in parts:
                    self.group_key = chunk[GROUP_KEY][0]
            self.chunks.append(without_marks(chunk))


def without_marks(chunk: Columns) -> Columns:
    """Return the rows that are events."""
    parts = chunk.get("part", ())
    if MARK not in parts:
        return chunk
    return {
        name: [value for value, part in zip(values, parts, strict=True) if part != MARK]
        for name, values in chunk.items()
    }


class HeldStates:
    """The states of groups of which further parts come: the worker's memory of one task."""

    def __init__(self) -> None:
        self._held: dict[bytes, dict[str, Any]] = {}

    def __contains__(self, group_key: bytes) -> bool:
        return group_key in self._held

    def take_over(self, part: Part, state: GroupState) -> None:
        """Make the state of this call what the part before has left."""
        key = part.key
        for part_behind in [part for part in self._held if key is None or not key.startswith(part + _BEHIND)]:
            del self._held[part_behind]
        if key != part.group_key and part.group_key is not None:
            timeout_ms = state._timeout_timestamp
            vars(state).update(self._held[part.group_key])
            state._timeout_timestamp = timeout_ms

    def hold(self, part: Part, state: GroupState) -> None:
        """Keep what this call has left, if there are further parts."""
        if part.further_parts and part.group_key is not None:
            self._held[part.group_key] = dict(vars(state))
