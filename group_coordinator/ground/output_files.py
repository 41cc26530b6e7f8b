"""Outputs in files: one file for each output topic, in the order of group, epoch and seq, so that two runs can be
compared. The lines are those of `schemas.records_file`."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from group_coordinator.ground.errors import ExpectedError
from group_coordinator.ground.settings.topic_names import Topics
from schemas.bounded_lines import bounded_lines
from schemas.output_records import NO_PARTITION, OutputRecord
from schemas.records_file import Record, RecordsFileError, decode_record, encode_record

_UNFINISHED = ".unfinished"


class OutputFileError(ExpectedError):
    """A file is not what a replay wrote. The message says which, and why."""


def write_files(
    records: Iterable[OutputRecord],
    topics: Topics,
    directory: Path,
    on_record: Callable[[OutputRecord], None] = lambda record: None,
) -> None:
    """Write outputs to files, `responses.jsonl`, `dead-letters.jsonl` ..., in a directory, which is made. Files of an
    earlier run are replaced. `on_record` sees each record (progress, summaries)."""
    directory.mkdir(parents=True, exist_ok=True)
    names = {topic: topic.removeprefix(topics.events.removesuffix("events")) for topic in topics.outputs}
    with ExitStack() as stack:
        files = {
            topic: stack.enter_context((directory / f"{name}.jsonl").open("wb")) for topic, name in names.items()
        }
        for output in records:
            partition = None if output.partition == NO_PARTITION else output.partition
            record = Record(partition=partition, key=output.key, value=output.value, headers=output.headers)
            files[output.topic].write(encode_record(record) + b"\n")
            on_record(output)


def read_output(directory: Path, name: str) -> Iterator[Record]:
    """Yield the records of `name` (`history`, `offsets` ...) that were written there, in order. Raises
    OutputFileError."""
    file = directory / f"{name}.jsonl"
    if not file.exists():
        raise OutputFileError(f"{directory} has no {file.name}: it is not what a replay wrote (--out).")
    with file.open("rb") as lines:
        for number, (line, length) in enumerate(bounded_lines(lines), start=1):
            try:
                yield decode_record(line, length)
            except RecordsFileError as problem:
                raise OutputFileError(f"{file}, line {number}: {problem}.") from problem


@contextmanager
def whole_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Write into a file (gzip where its name ends so) that has its name when all is in it. Raises OSError."""
    unfinished = path.with_name(path.name + _UNFINISHED)
    try:
        with unfinished.open("wb") as plain:
            if path.suffix == ".gz":
                with gzip.GzipFile(path.stem, "wb", fileobj=plain, mtime=0) as compressed:
                    yield compressed.write
            else:
                yield plain.write
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
