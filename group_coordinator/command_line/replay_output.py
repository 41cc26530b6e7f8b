"""The records that a replay writes, and reads again from its directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from group_coordinator.command_line.errors import CommandError
from schemas.bounded_lines import bounded_lines
from schemas.events import encode_json
from schemas.history import History, decode_history
from schemas.output_records import OutputRecord
from schemas.records_file import RecordsFileError, decode_record

_BATCH = 10_000

KeyAndValue = tuple[bytes | None, bytes | None]


def history_outputs(history: Iterable[History], topic: str) -> Iterator[OutputRecord]:
    """A watched cluster's history as records of the history topic."""
    for record in history:
        headers = {"epoch": str(record.epoch), "seq": str(record.seq)}
        yield OutputRecord(topic, record.cause.partition, record.group_id.encode(), encode_json(record), headers)


def read_output_files(directory: Path, name: str) -> Iterator[KeyAndValue]:
    """Return key and value of each record of `name` (`history`, `offsets` ...), in order. Raises CommandError if there
    is no such file."""
    lines, table = directory / f"{name}.jsonl", directory / f"{name}.parquet"
    if lines.exists():
        return _json_lines(lines)
    if table.exists():
        return _parquet(table)
    raise CommandError(f"{directory} has no {lines.name} and no {table.name}: it is not what a replay wrote (--out).")


def read_history_files(directory: Path) -> Iterator[History]:
    """Yield the history of a replay, in order of group, epoch and seq. Raises CommandError if there is none."""
    for number, (_, value) in enumerate(read_output_files(directory, "history"), start=1):
        try:
            yield decode_history(value or b"")
        except msgspec.DecodeError as problem:
            raise CommandError(f"{directory}, history record {number}: {problem}.") from problem


def _json_lines(path: Path) -> Iterator[KeyAndValue]:
    with path.open("rb") as file:
        for number, (line, length) in enumerate(bounded_lines(file), start=1):
            try:
                record = decode_record(line, length)
            except RecordsFileError as problem:
                raise CommandError(f"{path}, line {number}: {problem}.") from problem
            yield record.key, record.value


def _parquet(path: Path) -> Iterator[KeyAndValue]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_BATCH, columns=["key", "value"]):
                yield from zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
    except (pa.ArrowException, OSError, KeyError) as problem:  # KeyError: a column is missing
        raise CommandError(f"{path} is no Parquet file that a replay wrote: {problem}.") from problem
