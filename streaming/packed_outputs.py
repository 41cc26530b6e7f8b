"""Outputs of a replay on their way to the driver: packed into a few rows, and in order there.

Spark sorts and ships rows at some ten microseconds each. A row for each run of a group's outputs, with all of them in
msgpack, is a hundredth as many rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, groupby
from operator import itemgetter

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame

from schemas.output_records import OutputRecord
from streaming.arrow_columns import objects, runs

_PACKED_SCHEMA = "group_key binary, records binary"
_PACKED_ARROW = pa.schema({"group_key": pa.binary(), "records": pa.binary()})
_BYTES_AT_ONCE = 64 << 20
"""As much as the driver takes from Spark at a time."""
_COLUMNS = OutputRecord._fields

_pack = msgspec.msgpack.Encoder().encode
unpack = msgspec.msgpack.Decoder(list[OutputRecord]).decode
_read_headers = msgspec.json.Decoder(dict[str, str]).decode


def output_records(outputs: DataFrame) -> Iterator[OutputRecord]:
    """Yield rows of `OUTPUT_SCHEMA` as records on the driver, by group, epoch and seq. The dead letters of a group
    come before its outputs, by origin. The driver holds the outputs of one group and some more. `outputs` is
    computed once."""
    packed = outputs.mapInArrow(pack_runs, _PACKED_SCHEMA).persist()
    try:
        (size,) = packed.selectExpr("coalesce(sum(length(records)), 0)").first() or (0,)
        ordered = packed.repartitionByRange(1 + size // _BYTES_AT_ONCE, "group_key").sortWithinPartitions("group_key")
        rows = ordered.toLocalIterator(prefetchPartitions=True)
        for _, pieces in groupby(rows, itemgetter(0)):
            yield from sorted(chain.from_iterable(unpack(records) for _, records in pieces), key=place)
    finally:
        packed.unpersist()


def pack_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if not batch.num_rows:
            continue
        columns = [objects(batch.column(name)) for name in _COLUMNS[:-1]]
        headers = map(_read_headers, objects(batch.column("headers")))
        records = list(zip(*columns, headers, strict=True))
        keys = batch.column("group_key")
        packed_runs = [(keys[begin].as_py(), _pack(records[begin:end])) for begin, end in runs(keys)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(column, pa.binary()) for column in zip(*packed_runs, strict=True)], schema=_PACKED_ARROW
        )


def place(record: OutputRecord) -> tuple[int, ...]:
    return tuple(int(record.headers.get(name, -1)) for name in ("epoch", "seq", "partition", "offset"))
