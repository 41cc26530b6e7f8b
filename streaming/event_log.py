"""A log of events lies in files (JSONL as in `schemas.records_file`, or Parquet with the columns of `RECORD_SCHEMA`) or
in a range of an events topic.

A JSONL line: {"partition":0,"offset":17,"timestamp_ms":1767225600000,"key":"orders","value":"{...}"}; bytes that are no
UTF-8 lie in base64 under `key_b64` and `value_b64`. A tick has the key null.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from schemas.bounded_lines import LINE_MAX_BYTES, bounded_lines, longest_line_exceeds
from schemas.records_file import Record, RecordsFileError, decode_event_record
from streaming.arrow_columns import objects
from streaming.config import StreamingConfig
from streaming.rows import RECORD_SCHEMA
from streaming.source import EVENT_COLUMNS

_COLUMNS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp_ms": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
}
RECORD_COLUMNS = tuple(_COLUMNS)
RECORD_ARROW = pa.schema(_COLUMNS)
_JSON_LINES = (".jsonl", ".jsonl.gz", ".json", ".json.gz")


class EventLogError(RuntimeError):
    """A log cannot be read. The message says where and why."""


def records_of_files(spark: SparkSession, files: Sequence[Path]) -> DataFrame:
    """Read the events of files as rows of `RECORD_SCHEMA`. Raises EventLogError for an unknown kind of file. A damaged
    line fails the job that reads it."""
    _require_known(files)
    _require_bounded(files)
    lines = [str(file) for file in files if file.name.endswith(_JSON_LINES)]
    tables = [str(file) for file in files if not file.name.endswith(_JSON_LINES)]
    parts = []
    if lines:
        parts.append(spark.read.text(lines).mapInArrow(_parse_lines, RECORD_SCHEMA))
    if tables:
        parts.append(spark.read.schema(RECORD_SCHEMA).parquet(*tables))
    return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])


def records_of_topic(spark: SparkSession, config: StreamingConfig, topic: str) -> DataFrame:
    """Read an events topic, as it is now, as rows of `RECORD_SCHEMA`."""
    reader = spark.read.format("kafka").options(**config.source_options, subscribe=topic, failOnDataLoss="true")
    return reader.load().selectExpr("partition", *EVENT_COLUMNS).select(*RECORD_COLUMNS)


def read_records(files: Sequence[Path]) -> Iterator[Record]:
    """Read the events of files without Spark. Raises EventLogError with the file and the line."""
    _require_known(files)
    for file in files:
        if not file.name.endswith(_JSON_LINES):
            try:
                for batch in pq.ParquetFile(file).iter_batches(columns=list(RECORD_COLUMNS)):
                    yield from _records(batch)
            except (pa.ArrowException, OSError, KeyError) as problem:  # KeyError: a column is missing
                raise EventLogError(f"{file} is no Parquet file of events: {problem}") from None
            continue
        with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
            number = 0
            try:
                for line, length in bounded_lines(lines):
                    number += 1
                    yield decode_event_record(line, length)
            except RecordsFileError as problem:
                raise EventLogError(f"{file}, line {number}: {problem}") from None
            except (EOFError, zlib.error) as problem:
                raise EventLogError(f"{file} breaks off after line {number}: {problem}") from None


def _require_known(files: Sequence[Path]) -> None:
    for file in files:
        if not file.exists():
            raise EventLogError(f"{file} does not exist.")
        if not file.name.endswith((*_JSON_LINES, ".parquet")):
            raise EventLogError(f"{file} is no log of events: its name must end in .jsonl, .jsonl.gz or .parquet.")


def _require_bounded(files: Sequence[Path]) -> None:
    """Spark takes a line whole, whatever its length, so a line that is too long never gets there."""
    for file in files:
        if file.name.endswith(_JSON_LINES):
            with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
                try:
                    number = longest_line_exceeds(stream)
                except (EOFError, zlib.error) as problem:
                    raise EventLogError(f"{file} breaks off: {problem}") from None
            if number is not None:
                raise EventLogError(f"{file}, line {number}: no line may have more than {LINE_MAX_BYTES:,} bytes")


def _records(batch: pa.RecordBatch) -> Iterator[Record]:
    columns = (batch.column(name).to_pylist() for name in RECORD_COLUMNS)
    for partition, offset, timestamp_ms, key, value in zip(*columns, strict=True):
        yield Record(partition=partition, offset=offset, timestamp_ms=timestamp_ms, key=key, value=value)


def _parse_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        records = [decode_event_record(line.encode()) for line in objects(batch.column("value"))]
        columns = [pa.array([getattr(record, name) for record in records], kind) for name, kind in _COLUMNS.items()]
        yield pa.RecordBatch.from_arrays(columns, schema=RECORD_ARROW)
