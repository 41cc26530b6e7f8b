"""What a replay wrote, read again: the history in a directory of output files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec

from command_line.errors import CommandError
from schemas.history import History, decode_history
from schemas.records_file import RecordsFileError, decode_record

_BATCH = 10_000


def read_history_files(directory: Path) -> Iterator[History]:
    """The history of a replay, in order of group, epoch and seq. Raises CommandError where there is none."""
    lines, table = directory / "history.jsonl", directory / "history.parquet"
    if lines.exists():
        values = _json_lines(lines)
    elif table.exists():
        values = _parquet(table)
    else:
        raise CommandError(f"{directory} has no history.jsonl and no history.parquet: it is not what a replay wrote (--out).")
    for number, value in enumerate(values, start=1):
        try:
            yield decode_history(value)
        except msgspec.DecodeError as problem:
            raise CommandError(f"{directory}, history record {number}: {problem}.") from problem


def _json_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                yield decode_record(line).value or b""
            except RecordsFileError as problem:
                raise CommandError(f"{path}, line {number}: {problem}.") from problem


def _parquet(path: Path) -> Iterator[bytes]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(_BATCH, columns=["value"]):
            yield from (value or b"" for value in batch.column("value").to_pylist())
