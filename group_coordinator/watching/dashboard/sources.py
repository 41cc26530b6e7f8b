"""The dashboard's records come from the directory of a replay, or (`kafka_source`) from the topics as they grow."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import msgspec

from group_coordinator.ground.output_files import OutputFileError, read_output
from group_coordinator.watching.dashboard.api_types import Request
from group_coordinator.watching.dashboard.index import Index
from group_coordinator.watching.dashboard.notes import note_of
from schemas.foreign_json import json_decoder


class SourceError(RuntimeError):
    """The source cannot be read. The message says why."""


class Source(Protocol):
    """Feeds an index."""

    name: str
    """What it is, for people: a directory, a cluster."""
    is_live: bool
    """Whether it still grows. Of one that does not, the end is taken for the present."""

    def start(self, index: Index) -> None:
        """Begin to feed. A source that does not grow is read before this returns. Raises SourceError."""

    def stop(self) -> None:
        """Stop feeding."""

    def read_request(self, partition: int, offset: int) -> Request | None:
        """The event at a place of the events topic: the very request. None: it is not to be had."""

    def progress(self) -> dict[str, Any]:
        """Return the progress of reading: `caught_up`, and for people `detail`."""


class OfBrokers:
    """A source of groups that the brokers of clusters coordinate: what a broker was asked lies in no topic."""

    is_live = True

    def read_request(self, partition: int, offset: int) -> Request | None:
        return None


class EndedSource:
    """A source that does not grow: nothing goes on after its start."""

    is_live = False

    def stop(self) -> None:
        """Nothing runs, so nothing stops."""

    def read_request(self, partition: int, offset: int) -> Request | None:
        return None

    def progress(self) -> dict[str, Any]:
        return {"caught_up": True, "detail": ""}


class ReplaySource(EndedSource):
    """The outputs of `group-coordinator replay --out`, as JSONL: history; groups and dead letters if it has any."""

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)
        self._directory = directory

    def start(self, index: Index) -> None:
        note = note_of(self._directory)
        index.doubts, index.watched = note.doubts, note.watched
        try:
            for record in read_output(self._directory, "history"):
                if record.value is not None:
                    index.add(record.value)
            if (self._directory / "assignments.jsonl").exists():
                for record in read_output(self._directory, "assignments"):
                    index.take_published(record.key, record.value)
            if (self._directory / "dead-letters.jsonl").exists():
                for record in read_output(self._directory, "dead-letters"):
                    index.add_dead_letter(record.key, record.value, record.headers, 0)
        except OutputFileError as problem:
            raise SourceError(str(problem)) from problem


_decode_document = json_decoder(Any)


def request_of_event(value: bytes | None) -> Any:
    """An event as a document to be shown; text where it is no JSON."""
    try:
        return _decode_document(value or b"null")
    except msgspec.DecodeError:
        return (value or b"").decode(errors="replace")
