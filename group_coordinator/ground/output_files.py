"""Outputs in files: one file for each output topic, in the order of group, epoch and seq, so that two runs can be
compared.

JSONL as in `schemas.records_file`, or Parquet with the columns partition, key, value, headers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Literal, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from group_coordinator.ground.settings.topic_names import Topics
from schemas.output_records import NO_PARTITION, OutputRecord
from schemas.records_file import Record, encode_record

Format = Literal["jsonl", "parquet"]
_ROWS_AT_ONCE = 20_000
_PARQUET_COLUMNS: dict[str, pa.DataType] = {
    "partition": pa.int32(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": pa.map_(pa.string(), pa.string()),
}
_PARQUET_SCHEMA = pa.schema(_PARQUET_COLUMNS)


class OutputFiles(Protocol):
    """Open files, one for each topic."""

    def write(self, record: OutputRecord) -> None: ...


def write_files(
    records: Iterable[OutputRecord],
    topics: Topics,
    directory: Path,
    kind: Format = "jsonl",
    on_record: Callable[[OutputRecord], None] = lambda record: None,
) -> None:
    """Write outputs to files, one for each topic; `on_record` sees each of them (progress, summaries)."""
    with open_output_files(directory, topics, kind) as files:
        for record in records:
            files.write(record)
            on_record(record)


@contextmanager
def open_output_files(directory: Path, topics: Topics, kind: Format = "jsonl") -> Iterator[OutputFiles]:
    """Open `responses.jsonl`, `dead-letters.jsonl` ... in a directory, which is made. Files of an earlier run are
    replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    names = {topic: topic.removeprefix(topics.events.removesuffix("events")) for topic in topics.outputs}
    with ExitStack() as stack:
        if kind == "jsonl":
            yield _JsonLines(
                {topic: stack.enter_context((directory / f"{name}.jsonl").open("wb")) for topic, name in names.items()}
            )
        else:
            parquet = _Parquet(
                {
                    topic: stack.enter_context(pq.ParquetWriter(directory / f"{name}.parquet", _PARQUET_SCHEMA))
                    for topic, name in names.items()
                }
            )
            yield parquet
            parquet.flush()


class _JsonLines:
    def __init__(self, files: dict[str, IO[bytes]]) -> None:
        self._files = files

    def write(self, record: OutputRecord) -> None:
        line = encode_record(
            Record(partition=_partition(record), key=record.key, value=record.value, headers=record.headers)
        )
        self._files[record.topic].write(line + b"\n")


class _Parquet:
    def __init__(self, writers: dict[str, pq.ParquetWriter]) -> None:
        self._writers = writers
        self._rows: dict[str, list[OutputRecord]] = {topic: [] for topic in writers}

    def write(self, record: OutputRecord) -> None:
        rows = self._rows[record.topic]
        rows.append(record)
        if len(rows) == _ROWS_AT_ONCE:
            self._write(record.topic)

    def flush(self) -> None:
        for topic in self._writers:
            self._write(topic)

    def _write(self, topic: str) -> None:
        rows = [
            {"partition": _partition(row), "key": row.key, "value": row.value, "headers": list(row.headers.items())}
            for row in self._rows[topic]
        ]
        self._writers[topic].write_table(pa.Table.from_pylist(rows, _PARQUET_SCHEMA))
        self._rows[topic].clear()


def _partition(record: OutputRecord) -> int | None:
    return None if record.partition == NO_PARTITION else record.partition
