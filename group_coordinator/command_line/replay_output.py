"""The records that a replay writes, and reads again from its directory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from group_coordinator.command_line.errors import CommandError
from group_coordinator.ground.output_files import read_output
from schemas.history import History, decode_history, encode_history
from schemas.output_records import OutputRecord


def history_outputs(history: Iterable[History], topic: str) -> Iterator[OutputRecord]:
    """A watched cluster's history as records of the history topic."""
    for record in history:
        headers = {"epoch": str(record.epoch), "seq": str(record.seq)}
        yield OutputRecord(topic, record.cause.partition, record.group_id.encode(), encode_history(record), headers)


def read_history_files(directory: Path) -> Iterator[History]:
    """Yield the history of a replay, in order of group, epoch and seq. Raises OutputFileError if there is none,
    CommandError."""
    for number, record in enumerate(read_output(directory, "history"), start=1):
        try:
            yield decode_history(record.value or b"")
        except msgspec.DecodeError as problem:
            raise CommandError(f"{directory}, history record {number}: {problem}.") from problem
